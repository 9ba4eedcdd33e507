#include <string>
#include <variant>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/files.h"
#include "src/model/example_families.h"
#include "src/model/model.h"
#include "src/scenario/model_file.h"

namespace stepcast::scenario {
namespace {

using model::Architecture;

struct HuggingFaceConfig {
  std::string name;
  Architecture architecture;
  model::NumericalConstants constants{};
  std::vector<std::string> warnings{};
};

std::string TextOf(const std::string& name) {
  Diagnostics mistakes;
  const auto text = ReadTextFile("src/formats/testdata/" + name + ".json", mistakes);
  EXPECT_TRUE(text.has_value()) << Format(mistakes);
  return text.value_or("");
}

HuggingFaceConfig ConfigOf(const std::string& text) {
  const Result<LoadedModel> loaded = ParseConfig(text, "config.json");
  if (!loaded.has_value()) {
    ADD_FAILURE() << Format(loaded.error());
    return {};
  }
  return {.name = loaded->model.name,
          .architecture = std::get<Architecture>(loaded->model.source),
          .constants = loaded->constants,
          .warnings = loaded->warnings};
}

Architecture ArchitectureOf(const std::string& text) { return ConfigOf(text).architecture; }

Diagnostics MistakesIn(const std::string& text) {
  const Result<LoadedModel> loaded = ParseConfig(text, "config.json");
  EXPECT_FALSE(loaded.has_value()) << text;
  return loaded.has_value() ? Diagnostics() : loaded.error();
}

// `text` with one value replaced.
std::string With(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::int64_t Parameters(const Architecture& architecture) {
  return model::Build("", architecture).parameter_count();
}

TEST(HuggingFaceTest, Gpt2) {
  const Architecture a = ArchitectureOf(TextOf("gpt2"));
  EXPECT_EQ(Parameters(a), 124'439'808);
  EXPECT_EQ(FamilyName(a), "gpt2");
  EXPECT_EQ(a.feed_forward, 4 * 768);  // n_inner is null
  EXPECT_EQ(a.max_positions, 1024);
  EXPECT_TRUE(a.tie_embeddings);
  EXPECT_TRUE(a.dropout);
  EXPECT_TRUE(a.attention_dropout);
}

TEST(HuggingFaceTest, Llama2HasNoKeyValueHeadsKey) {
  const HuggingFaceConfig config = ConfigOf(TextOf("llama2-7b"));
  EXPECT_EQ(config.name, "meta-llama/Llama-2-7b-hf");
  EXPECT_EQ(config.architecture.kv_heads, 32);
  EXPECT_EQ(Parameters(config.architecture), 6'738'415'616);
}

TEST(HuggingFaceTest, Llama31) {
  const Architecture a = ArchitectureOf(TextOf("llama3.1-8b"));
  EXPECT_EQ(Parameters(a), 8'030'261'248);
  EXPECT_EQ(a.kv_heads, 8);
  EXPECT_EQ(a.head_size, 128);
  EXPECT_FALSE(a.attention_bias);
  EXPECT_FALSE(a.dropout);
  const model::NumericalConstants constants = ConfigOf(TextOf("llama3.1-8b")).constants;
  EXPECT_EQ(constants.norm_epsilon, 1e-5);
  EXPECT_EQ(constants.rotary_base, 500'000);
  ASSERT_TRUE(constants.rotary_scaling.has_value());
  EXPECT_EQ(*constants.rotary_scaling, model::RotaryScaling());
}

// Missing keys get transformers' defaults: 10,000 and 1e-6.
TEST(HuggingFaceTest, ConstantsForOtherPrograms) {
  const std::string text = TextOf("llama2-7b");
  const auto constants = [&](const std::string& from, const std::string& to) {
    return ConfigOf(With(text, from, to)).constants;
  };
  EXPECT_EQ(ConfigOf(text).constants.rotary_base, 10'000);
  EXPECT_FALSE(ConfigOf(text).constants.rotary_scaling.has_value());
  const model::NumericalConstants linear = constants(
      "\"rope_scaling\": null", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}");
  ASSERT_TRUE(linear.rotary_scaling.has_value());
  EXPECT_EQ(linear.rotary_scaling->rule, model::RotaryRule::kLinear);
  EXPECT_EQ(linear.rotary_scaling->factor, 2);
  // In the spelling of transformers 5.
  const model::NumericalConstants parameters =
      constants("\"rope_scaling\": null",
                "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1e6}");
  EXPECT_EQ(parameters.rotary_base, 1'000'000);
  EXPECT_FALSE(parameters.rotary_scaling.has_value());
  EXPECT_EQ(constants("\"rms_norm_eps\": 1e-05,", "").norm_epsilon, 1e-6);
  EXPECT_EQ(ConfigOf(TextOf("gpt2")).constants.norm_epsilon, 1e-5);
}

TEST(HuggingFaceTest, LlamaOptions) {
  const std::string text = TextOf("llama3.1-8b");
  const Architecture biased =
      ArchitectureOf(With(text, "\"attention_bias\": false", "\"attention_bias\": true"));
  EXPECT_TRUE(biased.attention_bias);
  EXPECT_TRUE(biased.projection_bias);
  const Architecture wide =
      ArchitectureOf(With(text, "\"hidden_act\"", "\"head_dim\": 64, \"hidden_act\""));
  EXPECT_EQ(wide.head_size, 64);
  const Architecture tied =
      ArchitectureOf(With(text, "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true"));
  EXPECT_EQ(Parameters(tied), 8'030'261'248 - 128256LL * 4096);
}

// The text with additional keys: "\"kv_lora_rank\": 512".
std::string Adding(const std::string& text, const std::string& keys) {
  return With(text, "\"vocab_size\"", keys + ", \"vocab_size\"");
}

// Keys that change shapes, FLOPs or memory, added to a Llama 3.1, whose class defines none of them.
TEST(HuggingFaceTest, AKeyThatChangesTheLayersIsRefusedByName) {
  const std::string llama = TextOf("llama3.1-8b");
  const std::pair<const char*, const char*> cases[] = {
      {"\"kv_lora_rank\": 512",
       "models of this model_type have no latent attention: 'kv_lora_rank' is 512"},
      {"\"n_routed_experts\": 256",
       "models of this model_type have no experts of this kind: 'n_routed_experts' is 256"},
      {"\"num_local_experts\": 8",
       "models of this model_type have no experts of this kind: 'num_local_experts' is 8"},
      {"\"moe_intermediate_size\": 2048",
       "models of this model_type have no experts of this kind: 'moe_intermediate_size' is 2048"},
      {"\"attn_logit_softcapping\": 50.0",
       "models of this model_type do not cap scores and logits: 'attn_logit_softcapping' is 50"},
      {"\"final_logit_softcapping\": 30.0",
       "models of this model_type do not cap scores and logits: 'final_logit_softcapping' is 30"},
      {"\"use_qk_norm\": true",
       "norms of queries and keys are not supported for this model_type: 'use_qk_norm' is true"},
      {"\"num_nextn_predict_layers\": 1",
       "multi-token prediction is not supported for this model_type: 'num_nextn_predict_layers' is "
       "1"},
      {"\"sliding_window\": 4096",
       "models of this model_type have no attention window: 'sliding_window' is 4096"},
      {"\"layer_types\": [\"full_attention\", \"linear_attention\"]",
       "layers of type 'linear_attention' are not supported: 'layer_types' is an array"},
      {"\"attention_chunk_size\": 8192",
       "models of this model_type have no chunked attention: 'attention_chunk_size' is 8192"},
      {"\"resid_pdrop\": 0.1",
       "models of this model_type have no dropout of this kind: 'resid_pdrop' is 0.1"},
      {"\"qkv_bias\": true",
       "models of this model_type have no biases of this kind: 'qkv_bias' "
       "is true"},
      {"\"add_cross_attention\": true",
       "decoders with cross-attention are not supported: 'add_cross_attention' is true"},
      {"\"pruned_heads\": {\"0\": [1]}",
       "layers with different shapes are not supported: 'pruned_heads' is an object"},
  };
  for (const auto& [key, message] : cases) {
    const Diagnostics mistakes = MistakesIn(Adding(llama, key));
    ASSERT_EQ(mistakes.size(), 1U) << key << "\n" << Format(mistakes);
    EXPECT_EQ(mistakes[0].code, "model.not-modelled");
    EXPECT_EQ(mistakes[0].message, message);
    EXPECT_EQ(mistakes[0].location.line, 33) << key;
    EXPECT_FALSE(mistakes[0].hint.empty());
  }
}

// No class of an accepted type defines these keys; bert and gpt2 have other dropout keys.
TEST(HuggingFaceTest, EveryTypeRefusesThem) {
  for (const char* name :
       {"gpt2", "llama2-7b", "llama3.1-8b", "mistral-7b", "mixtral-8x7b", "mpt-7b", "qwen2-7b"}) {
    const Diagnostics mistakes = MistakesIn(
        Adding(TextOf(name), "\"kv_lora_rank\": 512, \"n_routed_experts\": 8, \"made_up\": 1"));
    ASSERT_EQ(mistakes.size(), 2U) << name << "\n" << Format(mistakes);
    EXPECT_TRUE(ConfigOf(TextOf(name)).warnings.empty()) << name;
  }
}

// All mistakes of a file are reported at once, in values and in keys.
TEST(HuggingFaceTest, KeysAndValuesAreRefusedTogether) {
  const Diagnostics mistakes =
      MistakesIn(With(Adding(TextOf("llama3.1-8b"), "\"kv_lora_rank\": 512, \"v_head_dim\": 128"),
                      "\"hidden_size\": 4096", "\"hidden_size\": \"4096\""));
  ASSERT_EQ(mistakes.size(), 3U) << Format(mistakes);
  EXPECT_EQ(mistakes[0].code, "input.not-an-integer");
}

// An unreadable dimension causes no mistakes in other rules.
TEST(HuggingFaceTest, AMistakeHasNoFollowers) {
  const auto codes = [](const std::string& text) {
    std::vector<std::string> all;
    for (const Diagnostic& mistake : MistakesIn(text)) all.push_back(mistake.code);
    return all;
  };
  const std::string types = "\"layer_types\": [\"full_attention\", \"full_attention\"]";
  EXPECT_EQ(codes(With(Adding(TextOf("llama3.1-8b"), types), "\"num_hidden_layers\": 32",
                       "\"num_hidden_layers\": \"2\"")),
            std::vector<std::string>{"input.not-an-integer"});
  EXPECT_EQ(codes(With(With(TextOf("mpt-7b"), "\"d_model\": 4096", "\"d_model\": 0"),
                       "\"expansion_ratio\": 4", "\"expansion_ratio\": 2.5")),
            std::vector<std::string>{"input.out-of-range"});
}

// All keys that PretrainedConfig of transformers 4 writes in a complete file.
TEST(HuggingFaceTest, AWholeConfigurationSaysNothing) {
  EXPECT_EQ(
      ConfigOf(
          Adding(TextOf("llama3.1-8b"),
                 R"("return_dict": true, "output_hidden_states": false, "output_attentions": false,
        "torchscript": false, "use_bfloat16": false, "tf_legacy_loss": false, "pruned_heads": {},
        "chunk_size_feed_forward": 0, "is_encoder_decoder": false, "is_decoder": false,
        "cross_attention_hidden_size": null, "add_cross_attention": false,
        "tie_encoder_decoder": false, "max_length": 20, "min_length": 0, "do_sample": false,
        "early_stopping": false, "num_beams": 1, "num_beam_groups": 1, "diversity_penalty": 0.0,
        "temperature": 1.0, "top_k": 50, "top_p": 1.0, "typical_p": 1.0, "repetition_penalty": 1.0,
        "length_penalty": 1.0, "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0,
        "bad_words_ids": null, "num_return_sequences": 1, "output_scores": false,
        "return_dict_in_generate": false, "forced_bos_token_id": null, "forced_eos_token_id": 2,
        "remove_invalid_values": false, "exponential_decay_length_penalty": null,
        "suppress_tokens": null, "begin_suppress_tokens": null, "finetuning_task": null,
        "id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1},
        "tokenizer_class": null, "prefix": null, "pad_token_id": null, "sep_token_id": 3,
        "decoder_start_token_id": null, "task_specific_params": null, "problem_type": null,
        "_name_or_path": "", "_attn_implementation_autoset": true, "head_dim": 128)"))
          .warnings,
      std::vector<std::string>());
}

// Neutral values, and keys that change neither shapes nor time.
TEST(HuggingFaceTest, NeutralValuesAndHarmlessKeysSayNothing) {
  const std::string llama = TextOf("llama3.1-8b");
  for (const char* keys :
       {"\"kv_lora_rank\": null", "\"num_local_experts\": 1", "\"num_experts\": 0",
        "\"attn_logit_softcapping\": null", "\"use_qk_norm\": false",
        "\"num_nextn_predict_layers\": 0", "\"partial_rotary_factor\": 1.0",
        "\"logits_scaling\": 1.0", "\"sliding_window\": null, \"use_sliding_window\": false",
        "\"sliding_window\": 131072, \"use_sliding_window\": false, \"max_window_layers\": 28",
        "\"pruned_heads\": {}", "\"mlp_only_layers\": [], \"num_experts_per_tok\": 2",
        "\"is_encoder_decoder\": false, \"is_decoder\": true",
        "\"made_up\": null, \"other\": false",
        "\"dtype\": \"bfloat16\", \"_attn_implementation_autoset\": true, \"pad_token_id\": 0",
        "\"temperature\": 0.6, \"top_p\": 0.9, \"max_length\": 4096, \"do_sample\": true",
        "\"id2label\": {\"0\": \"LABEL_0\"}, \"gradient_checkpointing\": false",
        "\"auto_map\": {\"AutoConfig\": \"configuration_x.Config\"}"}) {
    const HuggingFaceConfig config = ConfigOf(Adding(llama, keys));
    EXPECT_EQ(config.warnings, std::vector<std::string>()) << keys;
    EXPECT_EQ(Parameters(config.architecture), 8'030'261'248);
    EXPECT_EQ(config.architecture.attention_window, 0);
  }
}

// Keys that affect only values or a little elementwise work: the forecast is made, with a warning.
TEST(HuggingFaceTest, SmallEffectsAreWarnedOf) {
  const std::string llama = TextOf("llama3.1-8b");
  const std::pair<const char*, const char*> cases[] = {
      {"\"partial_rotary_factor\": 0.5",
       "model: 'partial_rotary_factor' is 0.5: the forecast rotates all dimensions of each head"},
      {"\"logits_scaling\": 8.0",
       "model: 'logits_scaling' is 8: the forecast omits the multiplications by this value"},
      {"\"no_rope_layers\": [1, 1, 1, 0]",
       "model: 'no_rope_layers' is an array: the forecast rotates queries and keys in every layer"},
      {"\"made_up\": 3",
       "model: 'made_up' is 3: the forecast ignores this key, because it is unknown"},
      {"\"num_key_value_head\": 4",
       "model: 'num_key_value_head' is 4: the forecast ignores this key, because it is unknown; "
       "did you mean 'num_key_value_heads'?"},
  };
  for (const auto& [key, warning] : cases) {
    EXPECT_EQ(ConfigOf(Adding(llama, key)).warnings, std::vector<std::string>{warning});
  }
  EXPECT_EQ(
      ConfigOf(With(llama, "\"silu\"", "\"relu\"")).warnings,
      std::vector<std::string>{
          "model: 'hidden_act' is 'relu': the forecast uses the activation function SiLU instead"});
  EXPECT_EQ(ConfigOf(With(TextOf("mpt-7b"), "\"clip_qkv\": null", "\"clip_qkv\": 8")).warnings,
            std::vector<std::string>{"model: 'attn_config.clip_qkv' is 8: the forecast does not "
                                     "clip queries, keys and values"});
}

// Keys in sections that are read are judged like those outside.
TEST(HuggingFaceTest, KeysOfSectionsAreJudged) {
  const std::string text = TextOf("mpt-7b");
  EXPECT_EQ(MistakesIn(With(text, "\"prefix_lm\": false", "\"prefix_lm\": true")).at(0).message,
            "decoders must have causal attention: 'attn_config.prefix_lm' is true");
  EXPECT_EQ(MistakesIn(Adding(text, "\"ffn_config\": {\"ffn_hidden_size\": 11008}")).at(0).message,
            "models of this model_type use another key for the width of feed-forward layers: "
            "'ffn_config.ffn_hidden_size' is 11008");
}

// transformers 5 renames rope_theta and rope_scaling to rope_parameters, and torch_dtype to dtype.
std::string Llama31OfTransformers5() {
  std::string text = TextOf("llama3.1-8b");
  text = With(text, "\"rope_theta\": 500000.0,", "");
  text = With(text, "\"rope_scaling\": {", "\"rope_parameters\": {\"rope_theta\": 500000.0,");
  return With(text, "torch_dtype", "dtype");
}

TEST(HuggingFaceTest, BothSpellingsOfTransformersAreTheSame) {
  const HuggingFaceConfig older = ConfigOf(TextOf("llama3.1-8b"));
  const HuggingFaceConfig newer = ConfigOf(Llama31OfTransformers5());
  EXPECT_EQ(newer.constants.rotary_base, older.constants.rotary_base);
  EXPECT_EQ(newer.constants.rotary_scaling, older.constants.rotary_scaling);
  EXPECT_EQ(Parameters(newer.architecture), Parameters(older.architecture));
  EXPECT_EQ(older.warnings, std::vector<std::string>());
  EXPECT_EQ(newer.warnings, std::vector<std::string>());
}

// rope_parameters with an object per layer type: the type of the model's layers is used.
TEST(HuggingFaceTest, RotaryPositionsByTypeOfLayer) {
  const std::string sections =
      "\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 8.0, "
      "\"rope_theta\": 1e6}, \"sliding_attention\": {\"rope_type\": \"default\", "
      "\"rope_theta\": 2e4}}";
  const std::string llama =
      Adding(With(TextOf("llama2-7b"), "\"rope_scaling\": null,", ""), sections);
  const HuggingFaceConfig full = ConfigOf(llama);
  EXPECT_EQ(full.constants.rotary_base, 1'000'000);
  ASSERT_TRUE(full.constants.rotary_scaling.has_value());
  EXPECT_EQ(full.constants.rotary_scaling->factor, 8);
  EXPECT_EQ(full.warnings,
            std::vector<std::string>{
                "model: 'rope_parameters.sliding_attention' is an object: the forecast ignores "
                "these rotary positions, because the model has no layers of this type"});
  const HuggingFaceConfig windows = ConfigOf(Adding(TextOf("mistral-7b"), sections));
  EXPECT_EQ(windows.constants.rotary_base, 20'000);
  EXPECT_FALSE(windows.constants.rotary_scaling.has_value());
}

TEST(HuggingFaceTest, RotaryRules) {
  const auto scaled = [](const std::string& section) {
    return ConfigOf(
        With(TextOf("llama2-7b"), "\"rope_scaling\": null", "\"rope_scaling\": " + section));
  };
  for (const char* rule : {"yarn", "longrope", "dynamic"}) {
    const HuggingFaceConfig config = scaled(
        fmt::format("{{\"rope_type\": \"{}\", \"factor\": 40, \"beta_fast\": 32, \"mscale\": 1.0, "
                    "\"short_factor\": [1.0], \"original_max_position_embeddings\": 4096}}",
                    rule));
    ASSERT_TRUE(config.constants.rotary_scaling.has_value()) << rule;
    EXPECT_STREQ(Name(config.constants.rotary_scaling->rule), rule);
    EXPECT_EQ(config.constants.rotary_scaling->factor, 40);
    EXPECT_EQ(config.constants.rotary_scaling->original_positions, 4096);
    EXPECT_EQ(config.warnings, std::vector<std::string>()) << rule;
  }
  const HuggingFaceConfig unknown =
      scaled("{\"type\": \"mrope\", \"mrope_section\": [16, 24, 24]}");
  EXPECT_FALSE(unknown.constants.rotary_scaling.has_value());
  EXPECT_EQ(unknown.warnings, std::vector<std::string>{
                                  "model: 'rope_scaling.type' is 'mrope': this type of scaling is "
                                  "unknown, so the forecast does not scale rotary positions"});
  EXPECT_EQ(scaled("2.0").warnings,
            std::vector<std::string>{"model: 'rope_scaling' is 2: this key is not an object, so "
                                     "the forecast does not scale rotary positions"});
  EXPECT_EQ(
      ConfigOf(Adding(Llama31OfTransformers5(), "\"rope_scaling\": {\"factor\": 2.0}")).warnings,
      std::vector<std::string>{"model: 'rope_scaling' is an object: the forecast ignores this key "
                               "and uses rope_parameters"});
}

// layer_types as written since transformers 4.53: `count` layers of one type, then the rest of
// another.
std::string LayerTypes(int count, const char* first, int rest, const char* second) {
  std::string types;
  for (int i = 0; i < count + rest; ++i) {
    types += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", i < count ? first : second);
  }
  return fmt::format("\"layer_types\": [{}]", types);
}

TEST(HuggingFaceTest, TypesOfLayers) {
  const char *const full = "full_attention", *const sliding = "sliding_attention";
  const std::string llama = TextOf("llama3.1-8b"), mistral = TextOf("mistral-7b");
  const std::string qwen =
      With(TextOf("qwen2-7b"), "\"use_sliding_window\": false", "\"use_sliding_window\": true");
  const auto window = [](const std::string& text, const std::string& types) {
    return ArchitectureOf(Adding(text, types)).attention_window;
  };
  EXPECT_EQ(window(llama, LayerTypes(32, full, 0, "")), 0);
  EXPECT_EQ(window(mistral, LayerTypes(32, sliding, 0, "")), 4096);
  EXPECT_EQ(window(mistral, LayerTypes(32, full, 0, "")), 0);
  // Every 32nd layer is full, which is the last one.
  const Architecture mixed = ArchitectureOf(Adding(mistral, LayerTypes(31, sliding, 1, full)));
  EXPECT_EQ(mixed.attention_window, 4096);
  EXPECT_EQ(mixed.full_attention_every, 32);
  EXPECT_EQ(ArchitectureOf(Adding(mistral, LayerTypes(32, sliding, 0, ""))).full_attention_every,
            0);
  EXPECT_EQ(window(qwen, LayerTypes(28, full, 0, "")), 0);
  EXPECT_EQ(window(qwen, LayerTypes(28, sliding, 0, "")), 131072);
  // use_sliding_window is false, so the marked layers have no window.
  EXPECT_EQ(window(TextOf("qwen2-7b"), LayerTypes(14, full, 14, sliding)), 0);
  const auto refused = [](const std::string& text, const std::string& types) {
    const Diagnostics mistakes = MistakesIn(Adding(text, types));
    EXPECT_EQ(mistakes.size(), 1U) << Format(mistakes);
    return mistakes.at(0).message;
  };
  EXPECT_EQ(refused(mistral, LayerTypes(16, full, 16, sliding)),
            "the layers without an attention window must be at regular intervals in "
            "layer_types: 'layer_types' is an array");
  EXPECT_EQ(refused(qwen, LayerTypes(14, full, 14, sliding)),
            "the layers without an attention window must be at regular intervals in "
            "layer_types: 'layer_types' is an array");
  EXPECT_EQ(refused(llama, LayerTypes(16, full, 16, sliding)),
            "models of this model_type have no attention window: 'layer_types' is an array");
  EXPECT_EQ(refused(llama, LayerTypes(32, sliding, 0, "")),
            "models of this model_type have no attention window: 'layer_types' is an array");
  EXPECT_EQ(refused(mistral, LayerTypes(31, sliding, 0, "")),
            "the model has 32 layers, but layer_types has 31 entries: 'layer_types' is an array");
  EXPECT_EQ(refused(llama, "\"layer_types\": [\"full_attention\", 1]"),
            "'layer_types' needs an array of strings: an array");
}

// A multimodal model with a text model of an accepted type.
TEST(HuggingFaceTest, TheTextModelOfAWrapperIsRead) {
  const std::string text = TextOf("llama3.1-8b");
  const std::string wrapper =
      "{\"model_type\": \"llava\", \"text_config\": " + text +
      ", \"vision_config\": {\"hidden_size\": 1024, \"model_type\": \"clip_vision_model\"}, "
      "\"image_token_index\": 32000, \"vision_feature_layer\": -2}";
  const HuggingFaceConfig config = ConfigOf(wrapper);
  EXPECT_EQ(Parameters(config.architecture), 8'030'261'248);
  EXPECT_EQ(config.constants.rotary_base, 500'000);
  EXPECT_EQ(config.constants.rotary_scaling, model::RotaryScaling());
  EXPECT_EQ(config.warnings,
            std::vector<std::string>{
                "model: the forecast covers only the text model of 'llava' (text_config); it "
                "omits the vision tower, the projector and all other parts"});
  // In the spelling of transformers 5, the section's objects are one level deeper.
  const HuggingFaceConfig newer = ConfigOf(With(wrapper, text, Llama31OfTransformers5()));
  EXPECT_EQ(newer.constants.rotary_base, 500'000);
  EXPECT_EQ(newer.warnings, config.warnings);
  const std::string tied = With(With(wrapper, "\"tie_word_embeddings\": false,", ""),
                                "\"image_token_index\": 32000", "\"tie_word_embeddings\": true");
  EXPECT_EQ(Parameters(ArchitectureOf(tied)), 8'030'261'248 - 128256LL * 4096);
}

// Programs for several kinds of inputs give the section of the text model other names.
TEST(HuggingFaceTest, SectionsOfTextModels) {
  const std::string text = TextOf("llama3.1-8b");
  const std::pair<std::string, std::string> files[] = {
      {"llm_config", "{\"model_type\": \"internvl_chat\", \"llm_config\": " + text + "}"},
      {"language_config", "{\"model_type\": \"janus\", \"language_config\": " + text + "}"},
      {"thinker_config.text_config",
       "{\"model_type\": \"omni\", \"thinker_config\": {\"text_config\": " + text + "}}"}};
  for (const auto& [section, file] : files) {
    const HuggingFaceConfig config = ConfigOf(file);
    EXPECT_EQ(Parameters(config.architecture), 8'030'261'248) << section;
    ASSERT_EQ(config.warnings.size(), 1U) << section;
    EXPECT_NE(config.warnings[0].find("(" + section + ")"), std::string::npos)
        << config.warnings[0];
  }
}

// The data type of a checkpoint is not the data type of training.
TEST(HuggingFaceTest, QuantizedCheckpointsAreRead) {
  const HuggingFaceConfig config = ConfigOf(
      Adding(TextOf("llama3.1-8b"), "\"quantization_config\": {\"quant_method\": \"fp8\"}"));
  EXPECT_EQ(Parameters(config.architecture), 8'030'261'248);
  EXPECT_EQ(config.warnings,
            std::vector<std::string>{
                "model: 'quantization_config' is an object: the forecast uses training.precision "
                "as the data type of weights, and ignores this key"});
}

TEST(HuggingFaceTest, MistakesOfAWrapper) {
  const std::string text = Adding(TextOf("llama3.1-8b"), "\"kv_lora_rank\": 512");
  const Diagnostics mistakes = MistakesIn("{\"model_type\": \"llava\", \"text_config\": " + text +
                                          ", \"is_encoder_decoder\": true}");
  ASSERT_EQ(mistakes.size(), 2U) << Format(mistakes);
  EXPECT_EQ(
      mistakes[0].message,
      "models of this model_type have no latent attention: 'text_config.kv_lora_rank' is 512");
  EXPECT_EQ(mistakes[1].message,
            "decoders with cross-attention are not supported: 'is_encoder_decoder' is true");
  // Dimensions that the file leaves to transformers' defaults.
  EXPECT_EQ(MistakesIn("{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"llama\"}}")
                .at(0)
                .message,
            "missing key: 'text_config.num_hidden_layers'");
  const Diagnostics other = MistakesIn(
      "{\"model_type\": \"gemma3n\", \"text_config\": {\"model_type\": \"gemma3n_text\"}}");
  ASSERT_EQ(other.size(), 1U);
  EXPECT_EQ(other[0].code, "model.unknown-type");
  EXPECT_EQ(other[0].message,
            "stepcast does not support models of this model_type: 'gemma3n_text'");
}

TEST(HuggingFaceTest, ClassesWithoutExpertsRefuseThem) {
  const Diagnostics mistakes = MistakesIn(
      With(TextOf("llama3.1-8b"), "\"hidden_act\"", "\"num_local_experts\": 8, \"hidden_act\""));
  ASSERT_EQ(mistakes.size(), 1U) << Format(mistakes);
  EXPECT_EQ(mistakes[0].message,
            "models of this model_type have no experts of this kind: 'num_local_experts' is 8");
}

TEST(HuggingFaceTest, Mixtral) {
  const std::string text = TextOf("mixtral-8x7b");
  const HuggingFaceConfig config = ConfigOf(text);
  EXPECT_EQ(Parameters(config.architecture), 46'702'792'704);
  EXPECT_EQ(config.warnings, std::vector<std::string>());
  EXPECT_EQ(config.constants.rotary_base, 1'000'000);
  EXPECT_EQ(config.architecture.experts.per_token, 2);
  EXPECT_EQ(config.architecture.experts.scores, model::RouterScores::kSoftmaxOfChosen);
  EXPECT_EQ(config.architecture.attention_window, 0);
  // Differences of the larger model.
  std::string large = With(text, "\"hidden_size\": 4096", "\"hidden_size\": 6144");
  large = With(large, "\"num_hidden_layers\": 32", "\"num_hidden_layers\": 56");
  large = With(large, "\"num_attention_heads\": 32", "\"num_attention_heads\": 48");
  large = With(large, "\"intermediate_size\": 14336", "\"intermediate_size\": 16384");
  EXPECT_EQ(Parameters(ArchitectureOf(large)), 140'620'634'112);
  EXPECT_EQ(Parameters(ArchitectureOf(With(large, "32000", "32768"))), 140'630'071'296);
}

TEST(HuggingFaceTest, Qwen3HasNormsOfQueriesAndKeys) {
  const std::string text = TextOf("qwen3-8b");
  const HuggingFaceConfig config = ConfigOf(text);
  EXPECT_EQ(Parameters(config.architecture), 8'190'735'360);
  EXPECT_EQ(config.warnings, std::vector<std::string>());
  EXPECT_TRUE(config.architecture.qk_norm);
  EXPECT_EQ(config.architecture.attention_window, 0);
  EXPECT_EQ(config.constants.norm_epsilon, 1e-6);
  const std::string windows =
      With(With(text, "\"use_sliding_window\": false", "\"use_sliding_window\": true"),
           "\"max_window_layers\": 36", "\"max_window_layers\": 0");
  EXPECT_EQ(ArchitectureOf(windows).attention_window, 4096);
  const Architecture biased =
      ArchitectureOf(With(text, "\"attention_bias\": false", "\"attention_bias\": true"));
  EXPECT_EQ(Parameters(biased), 8'190'735'360 + 36 * (4096 + 2 * 1024 + 4096));
  // 16 heads of 128 with a hidden size of 1024: the smallest model, whose embeddings are tied.
  const Architecture small = ArchitectureOf(
      R"({"model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28, "head_dim": 128,
          "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 3072,
          "vocab_size": 151936, "tie_word_embeddings": true})");
  EXPECT_EQ(Parameters(small), 596'049'920);
}

// The layers of these types always have these norms in transformers, whatever the key says.
TEST(HuggingFaceTest, AKeyForNormsThatAreThereInAnyCaseSaysNothing) {
  for (const char* model : {"qwen3-8b", "qwen3-30b-a3b"}) {
    for (const char* key : {"use_qk_norm", "qk_layernorm"}) {
      for (const char* value : {"true", "false"}) {
        const HuggingFaceConfig config =
            ConfigOf(Adding(TextOf(model), fmt::format("\"{}\": {}", key, value)));
        EXPECT_TRUE(config.architecture.qk_norm);
        EXPECT_EQ(config.warnings, std::vector<std::string>());
      }
    }
  }
}

// Numbers that Python's json writes.
TEST(HuggingFaceTest, InfinityIsANumberThatNoDimensionIs) {
  const std::string llama = TextOf("llama3.1-8b");
  EXPECT_EQ(Parameters(ArchitectureOf(Adding(llama, "\"eps_of_made_up\": [0.0, Infinity]"))),
            8'030'261'248);
  EXPECT_THAT(
      MistakesIn(With(llama, "\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": NaN")).at(0).message,
      testing::HasSubstr("needs a number of at least zero"));
}

TEST(HuggingFaceTest, Qwen3Mixtures) {
  const std::string text = TextOf("qwen3-30b-a3b");
  const HuggingFaceConfig config = ConfigOf(text);
  EXPECT_EQ(Parameters(config.architecture), 30'532'122'624);
  EXPECT_EQ(config.warnings, std::vector<std::string>());
  EXPECT_EQ(config.architecture.experts, (model::Experts{.count = 128,
                                                         .per_token = 8,
                                                         .feed_forward = 768,
                                                         .scores = model::RouterScores::kSoftmax,
                                                         .normalized_weights = true}));
  std::string large = With(text, "\"hidden_size\": 2048", "\"hidden_size\": 4096");
  large = With(large, "\"num_hidden_layers\": 48", "\"num_hidden_layers\": 94");
  large = With(large, "\"num_attention_heads\": 32", "\"num_attention_heads\": 64");
  large = With(large, "\"moe_intermediate_size\": 768", "\"moe_intermediate_size\": 1536");
  EXPECT_EQ(Parameters(ArchitectureOf(large)), 235'093'634'560);
  EXPECT_EQ(Parameters(ArchitectureOf(With(text, "num_experts\"", "num_local_experts\""))),
            30'532'122'624);
  // Every second block is dense, with its own width.
  const Architecture mixed =
      ArchitectureOf(With(text, "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 2"));
  EXPECT_EQ(Parameters(mixed), 30'532'122'624 - 24 * 2048LL * (3 * (128 * 768 - 6144) + 128));
  EXPECT_EQ(
      MistakesIn(With(text, "\"mlp_only_layers\": []", "\"mlp_only_layers\": [0]")).at(0).message,
      "dense layers at listed positions are not modelled: 'mlp_only_layers' is an array");
}

TEST(HuggingFaceTest, DeepseekV3) {
  const std::string text = TextOf("deepseek-v3");
  const HuggingFaceConfig config = ConfigOf(text);
  EXPECT_EQ(Parameters(config.architecture), 671'026'404'352);
  EXPECT_EQ(
      config.warnings,
      (std::vector<std::string>{
          "model: 'quantization_config' is an object: the forecast uses training.precision as the "
          "data type of weights, and ignores this key",
          "model: 'num_nextn_predict_layers' is 1: the forecast omits the layers for "
          "multi-token prediction; a model file with num_nextn_predict_layers includes them"}));
  EXPECT_EQ(config.architecture.latent, model::Shipped("deepseek-v3").latent);
  EXPECT_EQ(config.architecture.experts, model::Shipped("deepseek-v3").experts);
  EXPECT_EQ(config.architecture.head_size, 192);
  ASSERT_TRUE(config.constants.rotary_scaling.has_value());
  EXPECT_EQ(config.constants.rotary_scaling->rule, model::RotaryRule::kYarn);
  // In the spelling of transformers 5: the rotated part of a head, and the whole head.
  EXPECT_EQ(ArchitectureOf(Adding(text, "\"head_dim\": 64, \"qk_head_dim\": 192")).head_size, 192);

  // Differences of Kimi K2.
  std::string kimi = With(text, "\"deepseek_v3\"", "\"kimi_k2\"");
  kimi = With(kimi, "\"num_attention_heads\": 128", "\"num_attention_heads\": 64");
  kimi = With(kimi, "\"num_key_value_heads\": 128", "\"num_key_value_heads\": 64");
  kimi = With(kimi, "\"n_routed_experts\": 256", "\"n_routed_experts\": 384");
  kimi = With(kimi, "\"first_k_dense_replace\": 3", "\"first_k_dense_replace\": 1");
  kimi = With(kimi, "\"vocab_size\": 129280", "\"vocab_size\": 163840");
  kimi = With(With(kimi, "\"n_group\": 8", "\"n_group\": 1"), "\"topk_group\": 4",
              "\"topk_group\": 1");
  EXPECT_EQ(Parameters(ArchitectureOf(kimi)), 1'026'408'209'408);
  EXPECT_EQ(ArchitectureOf(kimi).experts.groups, 0);
}

// deepseek-ai/DeepSeek-V2-Lite, and Moonlight as a model of the later type.
TEST(HuggingFaceTest, DeepseekV2Lite) {
  const std::string text =
      R"({"model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27,
          "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 10944,
          "vocab_size": 102400, "kv_lora_rank": 512, "q_lora_rank": null, "qk_nope_head_dim": 128,
          "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64, "n_shared_experts": 2,
          "num_experts_per_tok": 6, "moe_intermediate_size": 1408, "first_k_dense_replace": 1,
          "moe_layer_freq": 1, "n_group": 1, "topk_group": 1, "topk_method": "greedy",
          "scoring_func": "softmax", "norm_topk_prob": false, "routed_scaling_factor": 1.0})";
  EXPECT_EQ(ConfigOf(text).warnings, std::vector<std::string>());
  const Architecture a = ArchitectureOf(text);
  EXPECT_EQ(Parameters(a), 15'706'484'224);
  EXPECT_EQ(a.experts, model::Shipped("deepseek-v2-lite").experts);
  std::string moonlight = With(text, "deepseek_v2", "deepseek_v3");
  moonlight = With(moonlight, "\"intermediate_size\": 10944", "\"intermediate_size\": 11264");
  moonlight = With(moonlight, "102400", "163840");
  moonlight = With(With(moonlight, "\"greedy\"", "\"noaux_tc\""), "\"softmax\"", "\"sigmoid\"");
  EXPECT_EQ(Parameters(ArchitectureOf(moonlight)), 15'960'108'544);
  EXPECT_TRUE(ArchitectureOf(moonlight).experts.balancing_bias);
}

TEST(HuggingFaceTest, GptOss) {
  const std::string text = TextOf("gpt-oss-20b");
  const HuggingFaceConfig config = ConfigOf(text);
  EXPECT_EQ(Parameters(config.architecture), 20'914'757'184);
  EXPECT_EQ(config.warnings,
            std::vector<std::string>{
                "model: 'quantization_config' is an object: the forecast uses training.precision "
                "as the data type of weights, and ignores this key"});
  EXPECT_EQ(config.architecture.experts, model::Shipped("gpt-oss-20b").experts);
  EXPECT_EQ(config.architecture.attention_window, 128);
  EXPECT_EQ(config.architecture.full_attention_every, 2);
  EXPECT_EQ(config.constants.rotary_base, 150'000);
  ASSERT_TRUE(config.constants.rotary_scaling.has_value());
  EXPECT_EQ(config.constants.rotary_scaling->factor, 32);
  // Without layer_types the result is the same, by transformers' default.
  const std::string plain = With(text, "\"layer_types\"", "\"layer_types_of\"");
  EXPECT_EQ(ArchitectureOf(plain).full_attention_every, 2);
  EXPECT_EQ(
      MistakesIn(With(text, "\"attention_bias\": true", "\"attention_bias\": false")).at(0).message,
      "in this model_type, all linear layers have biases: 'attention_bias' is false");
}

// google/gemma-2-9b and google/gemma-3-27b-pt, whose text model is in a wrapper.
TEST(HuggingFaceTest, Gemma) {
  const std::string text =
      R"({"model_type": "gemma2", "hidden_size": 3584, "num_hidden_layers": 42, "head_dim": 256,
          "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 14336,
          "vocab_size": 256000, "hidden_act": "gelu_pytorch_tanh", "sliding_window": 4096,
          "hidden_activation": "gelu_pytorch_tanh", "attn_logit_softcapping": 50.0,
          "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 256, "attention_bias": false,
          "cache_implementation": "hybrid", "sliding_window_size": 4096})";
  // transformers does not read the last key, which belongs to another program.
  const Architecture a = ArchitectureOf(text);
  EXPECT_EQ(Parameters(a), 9'241'705'984);
  EXPECT_EQ(a.score_cap, 50);
  EXPECT_EQ(a.logit_cap, 30);
  EXPECT_EQ(a.attention_window, 4096);
  EXPECT_EQ(a.full_attention_every, 2);
  EXPECT_TRUE(a.tie_embeddings);
  EXPECT_EQ(ArchitectureOf(With(text, "50.0", "null")).score_cap, 0);
  const std::string wrapper =
      R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 5376,
          "num_hidden_layers": 62, "head_dim": 128, "num_attention_heads": 32,
          "num_key_value_heads": 16, "intermediate_size": 21504,
          "query_pre_attn_scalar": 168, "sliding_window": 1024,
          "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}})";
  EXPECT_EQ(Parameters(ArchitectureOf(wrapper)), 27'009'346'304);
  EXPECT_EQ(ArchitectureOf(wrapper).full_attention_every, 6);
  EXPECT_EQ(ArchitectureOf(With(wrapper, "\"sliding_window\": 1024",
                                "\"sliding_window\": 1024, \"sliding_window_pattern\": 3"))
                .full_attention_every,
            3);
  // The smallest model with a vision tower states only these keys.
  EXPECT_EQ(Parameters(ArchitectureOf(
                R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text",
                    "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
                    "sliding_window": 1024}})")),
            3'880'263'168);
  // In the spelling of transformers 5: an object per layer type.
  const HuggingFaceConfig newer = ConfigOf(
      With(wrapper, "\"rope_scaling\": {\"factor\": 8.0, \"rope_type\": \"linear\"}",
           "\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 8.0, "
           "\"rope_theta\": 1e6}, \"sliding_attention\": {\"rope_type\": \"default\", "
           "\"rope_theta\": 1e4}}"));
  EXPECT_EQ(newer.warnings.size(), 1U);  // of what the wrapper leaves out
  EXPECT_EQ(newer.constants.rotary_base, 1'000'000);
}

// microsoft/phi-4 and allenai/OLMo-2-1124-7B.
TEST(HuggingFaceTest, Phi4AndOlmo2) {
  const std::string phi =
      R"({"model_type": "phi3", "hidden_size": 5120, "num_hidden_layers": 40,
          "num_attention_heads": 40, "num_key_value_heads": 10, "intermediate_size": 17920,
          "vocab_size": 100352, "hidden_act": "silu", "embd_pdrop": 0.0, "resid_pdrop": 0.0,
          "attention_dropout": 0.0, "attention_bias": false, "sliding_window": null,
          "original_max_position_embeddings": 16384, "rope_theta": 250000})";
  EXPECT_EQ(Parameters(ArchitectureOf(phi)), 14'659'507'200);
  EXPECT_EQ(ConfigOf(phi).warnings, std::vector<std::string>());
  const Architecture windowed =
      ArchitectureOf(With(phi, "\"sliding_window\": null", "\"sliding_window\": 2047"));
  EXPECT_EQ(windowed.attention_window, 2047);
  EXPECT_TRUE(ArchitectureOf(With(phi, "\"resid_pdrop\": 0.0", "\"resid_pdrop\": 0.1")).dropout);
  const std::string olmo =
      R"({"model_type": "olmo2", "hidden_size": 4096, "num_hidden_layers": 32,
          "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008,
          "vocab_size": 100352, "hidden_act": "silu", "attention_bias": false})";
  EXPECT_EQ(Parameters(ArchitectureOf(olmo)), 7'298'617'344);
  EXPECT_EQ(ConfigOf(olmo).warnings, std::vector<std::string>());
}

// EleutherAI/gpt-j-6b, EleutherAI/pythia-6.9b, microsoft/phi-2.
TEST(HuggingFaceTest, AttentionAndFeedForwardSideBySide) {
  const std::string gptj =
      R"({"model_type": "gptj", "n_embd": 4096, "n_layer": 28, "n_head": 16, "n_inner": null,
          "n_positions": 2048, "vocab_size": 50400, "activation_function": "gelu_new",
          "rotary": true, "rotary_dim": 64, "tie_word_embeddings": false, "attn_pdrop": 0.0,
          "embd_pdrop": 0.0, "resid_pdrop": 0.0, "layer_norm_epsilon": 1e-05, "scale_attn_weights": true})";
  EXPECT_EQ(Parameters(ArchitectureOf(gptj)), 6'050'882'784);
  EXPECT_EQ(ConfigOf(gptj).warnings.size(), 1U);  // a quarter of each head
  const std::string pythia =
      R"({"model_type": "gpt_neox", "hidden_size": 4096, "num_hidden_layers": 32,
          "num_attention_heads": 32, "intermediate_size": 16384, "vocab_size": 50432,
          "hidden_act": "gelu", "layer_norm_eps": 1e-05, "max_position_embeddings": 2048,
          "rotary_emb_base": 10000, "rotary_pct": 0.25, "use_parallel_residual": true})";
  EXPECT_EQ(Parameters(ArchitectureOf(pythia)), 6'857'302'016);
  EXPECT_EQ(ArchitectureOf(pythia).parallel_residual_norms, 2);
  EXPECT_EQ(ArchitectureOf(
                With(pythia, "\"use_parallel_residual\": true", "\"use_parallel_residual\": false"))
                .parallel_residual_norms,
            0);
  const std::string phi =
      R"({"model_type": "phi", "hidden_size": 2560, "num_hidden_layers": 32,
          "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 10240,
          "vocab_size": 51200, "hidden_act": "gelu_new", "layer_norm_eps": 1e-05,
          "partial_rotary_factor": 0.4, "qk_layernorm": false, "resid_pdrop": 0.1,
          "embd_pdrop": 0.0, "rope_theta": 10000.0, "tie_word_embeddings": false})";
  EXPECT_EQ(Parameters(ArchitectureOf(phi)), 2'779'683'840);
  EXPECT_TRUE(ArchitectureOf(phi).dropout);
  EXPECT_EQ(MistakesIn(With(phi, "\"qk_layernorm\": false", "\"qk_layernorm\": true")).at(0).code,
            "model.not-modelled");
}

// tiiuae/falcon-7b and falcon-40b; CohereForAI/c4ai-command-r-v01 and its 7B of 2024.
TEST(HuggingFaceTest, FalconAndCohere) {
  const std::string falcon =
      R"({"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32,
          "num_attention_heads": 71, "vocab_size": 65024, "alibi": false, "bias": false,
          "multi_query": true, "new_decoder_architecture": false, "parallel_attn": true,
          "hidden_dropout": 0.0, "attention_dropout": 0.0, "layer_norm_epsilon": 1e-05,
          "apply_residual_connection_post_layernorm": false})";
  EXPECT_EQ(Parameters(ArchitectureOf(falcon)), 6'921'720'704);
  EXPECT_EQ(ConfigOf(falcon).warnings, std::vector<std::string>());
  EXPECT_EQ(MistakesIn(With(falcon, "\"alibi\": false", "\"alibi\": true")).at(0).code,
            "model.not-modelled");
  const std::string large =
      R"({"model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60,
          "num_attention_heads": 128, "num_kv_heads": 8, "vocab_size": 65024, "alibi": false,
          "bias": false, "multi_query": true, "new_decoder_architecture": true})";
  EXPECT_EQ(Parameters(ArchitectureOf(large)), 41'303'293'952);
  const std::string cohere =
      R"({"model_type": "cohere", "hidden_size": 8192, "num_hidden_layers": 40,
          "num_attention_heads": 64, "num_key_value_heads": 64, "intermediate_size": 22528,
          "vocab_size": 256000, "hidden_act": "silu", "layer_norm_eps": 1e-05,
          "logit_scale": 0.0625, "attention_bias": false, "rope_theta": 8000000.0})";
  EXPECT_EQ(Parameters(ArchitectureOf(cohere)), 34'980'831'232);
  const std::string r7b =
      R"({"model_type": "cohere2", "hidden_size": 4096, "num_hidden_layers": 32, "head_dim": 128,
          "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
          "vocab_size": 256000, "hidden_act": "silu", "logit_scale": 0.25, "sliding_window": 4096,
          "sliding_window_pattern": 4, "attention_bias": false})";
  EXPECT_EQ(Parameters(ArchitectureOf(r7b)), 8'028'033'024);
  EXPECT_EQ(ArchitectureOf(r7b).full_attention_every, 4);
}

// zai-org/glm-4-9b-hf and GLM-4-9B-0414, google/gemma-7b, bigcode/starcoder2-7b.
TEST(HuggingFaceTest, GlmGemmaAndStarcoder) {
  const std::string glm =
      R"({"model_type": "glm", "hidden_size": 4096, "num_hidden_layers": 40, "head_dim": 128,
          "num_attention_heads": 32, "num_key_value_heads": 2, "intermediate_size": 13696,
          "vocab_size": 151552, "attention_bias": true, "hidden_act": "silu",
          "partial_rotary_factor": 0.5, "rope_theta": 10000.0, "rms_norm_eps": 1.5625e-07})";
  EXPECT_EQ(Parameters(ArchitectureOf(glm)), 9'399'951'360);
  EXPECT_EQ(ConfigOf(glm).constants.norm_epsilon, 1.5625e-07);
  EXPECT_EQ(Parameters(ArchitectureOf(With(glm, "\"glm\"", "\"glm4\""))), 9'400'279'040);
  const std::string gemma =
      R"({"model_type": "gemma", "hidden_size": 3072, "num_hidden_layers": 28, "head_dim": 256,
          "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 24576,
          "vocab_size": 256000, "hidden_act": "gelu", "hidden_activation": null})";
  EXPECT_EQ(Parameters(ArchitectureOf(gemma)), 8'537'680'896);
  EXPECT_EQ(ConfigOf(gemma).warnings, std::vector<std::string>());
  const std::string starcoder =
      R"({"model_type": "starcoder2", "hidden_size": 4608, "num_hidden_layers": 32,
          "num_attention_heads": 36, "num_key_value_heads": 4, "intermediate_size": 18432,
          "vocab_size": 49152, "hidden_act": "gelu_pytorch_tanh", "mlp_type": "default",
          "norm_type": "layer_norm", "norm_epsilon": 1e-05, "residual_dropout": 0.0,
          "embedding_dropout": 0.0, "attention_dropout": 0.0, "sliding_window": 4096,
          "use_bias": true, "rope_theta": 1000000})";
  EXPECT_EQ(Parameters(ArchitectureOf(starcoder)), 7'173'923'840);
  EXPECT_EQ(ArchitectureOf(starcoder).attention_window, 4096);
  EXPECT_EQ(ConfigOf(starcoder).warnings, std::vector<std::string>());
}

// ibm-granite/granite-3.3-8b-base, ByteDance-Seed/Seed-OSS-36B-Base, HuggingFaceTB/SmolLM3-3B-Base,
// baidu/ERNIE-4.5-0.3B-Base-PT.
TEST(HuggingFaceTest, LlamaUnderOtherNames) {
  const std::string granite =
      R"({"model_type": "granite", "hidden_size": 4096, "num_hidden_layers": 40,
          "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 12800,
          "vocab_size": 49155, "tie_word_embeddings": true, "attention_bias": false,
          "mlp_bias": false, "attention_multiplier": 0.0078125, "embedding_multiplier": 12.0,
          "residual_multiplier": 0.22, "logits_scaling": 16.0, "hidden_act": "silu"})";
  EXPECT_EQ(Parameters(ArchitectureOf(granite)), 8'170'848'256);
  EXPECT_EQ(ConfigOf(granite).warnings.size(), 3U);  // the multipliers
  const std::string seed =
      R"({"model_type": "seed_oss", "hidden_size": 5120, "num_hidden_layers": 64, "head_dim": 128,
          "num_attention_heads": 80, "num_key_value_heads": 8, "intermediate_size": 27648,
          "vocab_size": 155136, "attention_bias": true, "attention_out_bias": false,
          "mlp_bias": false, "residual_dropout": 0.0, "attention_dropout": 0.0})";
  EXPECT_EQ(Parameters(ArchitectureOf(seed)), 36'151'104'512);
  const std::string smol =
      R"({"model_type": "smollm3", "hidden_size": 2048, "num_hidden_layers": 36,
          "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 11008,
          "vocab_size": 128256, "no_rope_layer_interval": 4, "use_sliding_window": false,
          "sliding_window": null, "attention_bias": false, "mlp_bias": false})";
  EXPECT_EQ(Parameters(ArchitectureOf(smol)), 3'075'098'624);
  const std::string ernie =
      R"({"model_type": "ernie4_5", "hidden_size": 1024, "num_hidden_layers": 18, "head_dim": 128,
          "num_attention_heads": 16, "num_key_value_heads": 2, "intermediate_size": 3072,
          "vocab_size": 103424, "use_bias": false, "tie_word_embeddings": true})";
  EXPECT_EQ(Parameters(ArchitectureOf(ernie)), 360'748'032);
}

// Qwen/Qwen1.5-MoE-A2.7B, allenai/OLMoE-1B-7B-0924, MiniMaxAI/MiniMax-M2,
// ibm-granite/granite-3.1-3b-a800m-base, baidu/ERNIE-4.5-21B-A3B-Base-PT.
TEST(HuggingFaceTest, FurtherMixtures) {
  const std::string qwen =
      R"({"model_type": "qwen2_moe", "hidden_size": 2048, "num_hidden_layers": 24,
          "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 5632,
          "vocab_size": 151936, "num_experts": 60, "num_experts_per_tok": 4,
          "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
          "decoder_sparse_step": 1, "norm_topk_prob": false, "use_sliding_window": false,
          "sliding_window": 32768, "max_window_layers": 21, "router_aux_loss_coef": 0.001,
          "output_router_logits": false})";
  EXPECT_EQ(Parameters(ArchitectureOf(qwen)), 14'315'784'192);
  EXPECT_TRUE(ArchitectureOf(qwen).experts.shared_gate);
  EXPECT_EQ(ConfigOf(qwen).warnings, std::vector<std::string>());
  const std::string olmoe =
      R"({"model_type": "olmoe", "hidden_size": 2048, "num_hidden_layers": 16,
          "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 1024,
          "vocab_size": 50304, "num_experts": 64, "num_experts_per_tok": 8,
          "norm_topk_prob": false, "clip_qkv": null, "attention_bias": false})";
  EXPECT_EQ(Parameters(ArchitectureOf(olmoe)), 6'919'161'856);
  const std::string minimax =
      R"({"model_type": "minimax_m2", "hidden_size": 3072, "num_hidden_layers": 62,
          "head_dim": 128, "num_attention_heads": 48, "num_key_value_heads": 8,
          "intermediate_size": 1536, "shared_intermediate_size": 0, "vocab_size": 200064,
          "num_local_experts": 256, "num_experts_per_tok": 8, "use_qk_norm": true,
          "qk_norm_type": "per_layer", "rotary_dim": 64, "scoring_func": "sigmoid",
          "use_routing_bias": true, "use_mtp": true, "num_mtp_modules": 3,
          "mtp_transformer_layers": 1, "attn_type_list": [1, 1, 1]})";
  EXPECT_EQ(Parameters(ArchitectureOf(minimax)), 228'689'748'992);
  const std::string granite =
      R"({"model_type": "granitemoe", "hidden_size": 1536, "num_hidden_layers": 32,
          "num_attention_heads": 24, "num_key_value_heads": 8, "intermediate_size": 512,
          "vocab_size": 49155, "num_local_experts": 40, "num_experts_per_tok": 8,
          "tie_word_embeddings": true, "attention_bias": false})";
  EXPECT_EQ(Parameters(ArchitectureOf(granite)), 3'298'793'472);
  const std::string ernie =
      R"({"model_type": "ernie4_5_moe", "hidden_size": 2560, "num_hidden_layers": 28,
          "num_attention_heads": 20, "num_key_value_heads": 4, "intermediate_size": 12288,
          "vocab_size": 103424, "moe_num_experts": 64, "moe_k": 6, "moe_intermediate_size": 1536,
          "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_end_index": 27,
          "moe_layer_interval": 1, "tie_word_embeddings": true, "use_bias": false})";
  EXPECT_EQ(Parameters(ArchitectureOf(ernie)), 21'825'436'160);
  EXPECT_EQ(ArchitectureOf(ernie).experts.leading_dense, 1);
}

// zai-org/GLM-4.5.
TEST(HuggingFaceTest, Glm45) {
  const std::string text =
      R"({"model_type": "glm4_moe", "hidden_size": 5120, "num_hidden_layers": 92, "head_dim": 128,
          "num_attention_heads": 96, "num_key_value_heads": 8, "intermediate_size": 12288,
          "vocab_size": 151552, "attention_bias": true, "use_qk_norm": true,
          "first_k_dense_replace": 3, "moe_intermediate_size": 1536, "n_routed_experts": 160,
          "n_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 1, "topk_group": 1,
          "norm_topk_prob": true, "routed_scaling_factor": 2.5, "partial_rotary_factor": 0.5,
          "num_nextn_predict_layers": 1})";
  const HuggingFaceConfig config = ConfigOf(text);
  EXPECT_EQ(Parameters(config.architecture), 352'797'814'784);
  EXPECT_EQ(config.architecture.experts, model::Shipped("glm-4.5").experts);
  EXPECT_EQ(config.warnings.size(), 2U);  // for multi-token prediction and for half of each head
  const std::string air = With(text, "\"use_qk_norm\": true", "\"use_qk_norm\": false");
  EXPECT_FALSE(ArchitectureOf(air).qk_norm);
}

// meta-llama/Llama-4-Scout-17B-16E (its text model) and Maverick.
TEST(HuggingFaceTest, Llama4) {
  const std::string text =
      R"({"model_type": "llama4_text", "hidden_size": 5120, "num_hidden_layers": 48,
          "head_dim": 128, "num_attention_heads": 40, "num_key_value_heads": 8,
          "intermediate_size": 8192, "intermediate_size_mlp": 16384, "vocab_size": 202048,
          "num_local_experts": 16, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1,
          "attention_chunk_size": 8192, "no_rope_layers": [], "attn_temperature_tuning": 4,
          "attn_scale": 0.1, "floor_scale": 8192, "for_llm_compression": false,
          "use_qk_norm": true, "router_jitter_noise": 0.0})";
  const HuggingFaceConfig config = ConfigOf(text);
  EXPECT_EQ(Parameters(config.architecture), 107'769'861'120);
  EXPECT_EQ(config.warnings, std::vector<std::string>());
  EXPECT_EQ(config.architecture.attention_chunk, 8192);
  EXPECT_EQ(config.architecture.full_attention_every, 4);
  std::string maverick = With(text, "\"num_local_experts\": 16", "\"num_local_experts\": 128");
  maverick = With(maverick, "\"interleave_moe_layer_step\": 1", "\"interleave_moe_layer_step\": 2");
  EXPECT_EQ(Parameters(ArchitectureOf(maverick)), 400'711'848'960);
  EXPECT_EQ(
      ArchitectureOf(With(text, "\"attention_chunk_size\": 8192", "\"attention_chunk_size\": null"))
          .full_attention_every,
      0);
}

TEST(HuggingFaceTest, MistakesOfLatentAttention) {
  const std::string text = TextOf("deepseek-v3");
  EXPECT_EQ(MistakesIn(With(text, "\"kv_lora_rank\": 512,", "")).at(0).message,
            "missing key: 'kv_lora_rank'");
  EXPECT_EQ(MistakesIn(With(text, "\"moe_layer_freq\": 1", "\"moe_layer_freq\": 2")).at(0).message,
            "dense layers between layers with experts are not modelled: 'moe_layer_freq' is 2");
  EXPECT_EQ(
      MistakesIn(With(text, "\"attention_bias\": false", "\"attention_bias\": true")).at(0).message,
      "latent attention with biases is not modelled: 'attention_bias' is true");
  EXPECT_EQ(MistakesIn(With(text, "\"sigmoid\"", "\"tanh\"")).at(0).message,
            "only softmax and sigmoid are modelled: 'scoring_func' is 'tanh'");
  const Diagnostics heads =
      MistakesIn(With(text, "\"num_key_value_heads\": 128", "\"num_key_value_heads\": 8"));
  ASSERT_EQ(heads.size(), 1U) << Format(heads);
  EXPECT_EQ(heads[0].message,
            "with latent attention, num_attention_heads and num_key_value_heads must be equal: 8 "
            "and 128");
}

TEST(HuggingFaceTest, MistakesOfAMixture) {
  const std::string text = TextOf("mixtral-8x7b");
  const Diagnostics missing = MistakesIn(With(text, "\"num_local_experts\": 8,", ""));
  ASSERT_EQ(missing.size(), 1U) << Format(missing);
  EXPECT_EQ(missing[0].message, "missing key: 'num_local_experts'");
  const Diagnostics impossible =
      MistakesIn(With(text, "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 9"));
  ASSERT_EQ(impossible.size(), 1U) << Format(impossible);
  EXPECT_EQ(impossible[0].message, "num_experts_per_tok must be between 1 and 8: 9");
  EXPECT_EQ(impossible[0].location.line, 15);
  const HuggingFaceConfig loss =
      ConfigOf(With(text, "\"output_router_logits\": false", "\"output_router_logits\": true"));
  EXPECT_EQ(loss.warnings,
            std::vector<std::string>{"model: 'output_router_logits' is true: the forecast omits "
                                     "the router's auxiliary loss"});
}

TEST(HuggingFaceTest, MistralHasAWindow) {
  const std::string text = TextOf("mistral-7b");
  const Architecture a = ArchitectureOf(text);
  EXPECT_EQ(Parameters(a), 7'241'732'096);
  EXPECT_EQ(a.attention_window, 4096);
  EXPECT_EQ(ArchitectureOf(With(text, "\"sliding_window\": 4096", "\"sliding_window\": null"))
                .attention_window,
            0);
}

TEST(HuggingFaceTest, Qwen2HasBiasesAndNoWindow) {
  const std::string text = TextOf("qwen2-7b");
  const Architecture a = ArchitectureOf(text);
  EXPECT_EQ(Parameters(a), 7'615'616'512);
  EXPECT_TRUE(a.attention_bias);
  EXPECT_FALSE(a.projection_bias);
  EXPECT_EQ(a.attention_window, 0);
  const std::string window =
      With(text, "\"use_sliding_window\": false", "\"use_sliding_window\": true");
  EXPECT_EQ(ArchitectureOf(window).attention_window, 0);  // from layer 28 of 28 on
  EXPECT_EQ(ArchitectureOf(With(window, "\"max_window_layers\": 28", "\"max_window_layers\": 0"))
                .attention_window,
            131072);
  EXPECT_EQ(
      MistakesIn(With(window, "\"max_window_layers\": 28", "\"max_window_layers\": 14")).at(0).code,
      "model.not-modelled");
}

// NemotronConfig: squared ReLU between two linear layers, LayerNorm with biases, rotary positions.
TEST(HuggingFaceTest, Nemotron) {
  const std::string text =
      R"({"model_type": "nemotron", "hidden_size": 6144, "num_hidden_layers": 32,
          "num_attention_heads": 48, "num_key_value_heads": 8, "intermediate_size": 24576,
          "vocab_size": 256000, "hidden_act": "relu2"})";
  const Architecture a = ArchitectureOf(text);
  EXPECT_EQ(Parameters(a), 15'628'775'424);
  EXPECT_EQ(a.activator, model::Activator::kSquaredRelu);
  EXPECT_EQ(MistakesIn(With(text, "relu2", "silu")).at(0).code, "model.not-modelled");
}

// google-bert/bert-base-uncased. Its first release is a BertForMaskedLM, and
// AutoModelForPreTraining makes a BertForPreTraining of it.
TEST(HuggingFaceTest, Bert) {
  const std::string text =
      R"({"architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_act": "gelu",
          "attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1, "hidden_size": 768,
          "intermediate_size": 3072, "layer_norm_eps": 1e-12, "max_position_embeddings": 512,
          "num_attention_heads": 12, "num_hidden_layers": 12, "type_vocab_size": 2,
          "vocab_size": 30522})";
  EXPECT_EQ(Parameters(ArchitectureOf(text)), 109'514'298);
  const std::string both = With(text, "BertForMaskedLM", "BertForPreTraining");
  const Architecture a = ArchitectureOf(both);
  EXPECT_EQ(Parameters(a), 110'106'428);
  EXPECT_TRUE(a.dropout);
  EXPECT_EQ(ConfigOf(both).constants.norm_epsilon, 1e-12);
  EXPECT_EQ(Parameters(ArchitectureOf(With(both, "\"bert\"", "\"megatron-bert\""))), 110'106'428);
  const std::string decoder = With(both, "\"hidden_act\"", "\"is_decoder\": true, \"hidden_act\"");
  EXPECT_EQ(MistakesIn(decoder).at(0).message,
            "encoders with a decoder are not modelled: 'is_decoder' is true");
  EXPECT_EQ(MistakesIn(With(both, "\"gelu\"", "\"relu\"")).at(0).code, "model.not-modelled");
}

TEST(HuggingFaceTest, Mpt) {
  const std::string text = TextOf("mpt-7b");
  const Architecture a = ArchitectureOf(text);
  EXPECT_EQ(Parameters(a), 6'649'286'656);
  EXPECT_EQ(a.position, model::Position::kAlibi);  // in spite of learned_pos_emb
  EXPECT_FALSE(a.norm_bias);
  EXPECT_FALSE(a.dropout);

  const Architecture learned = ArchitectureOf(With(text, "\"alibi\": true", "\"alibi\": false"));
  EXPECT_EQ(learned.position, model::Position::kLearned);
  EXPECT_EQ(Parameters(learned), 6'649'286'656 + 2048 * 4096);

  const Architecture grouped = ArchitectureOf(
      With(text, "\"multihead_attention\"", "\"grouped_query_attention\", \"kv_n_heads\": 8"));
  EXPECT_EQ(grouped.kv_heads, 8);
  const Architecture biased = ArchitectureOf(With(text, "\"no_bias\": true", "\"no_bias\": false"));
  // Biases per block: 3h + h + 4h + h of products and 2h of norms; and h of the last norm.
  EXPECT_EQ(Parameters(biased), 6'649'286'656 + 32 * 11 * 4096 + 4096);
  EXPECT_EQ(
      MistakesIn(With(text, "\"alibi\": true", "\"alibi\": false, \"rope\": true")).at(0).message,
      "rotary positions are not modelled in the family mpt: 'attn_config.rope' is true");
}

TEST(HuggingFaceTest, EveryMistakeHasAPlace) {
  const Diagnostics mistakes = MistakesIn(
      "{\n"
      "  \"model_type\": \"llama\",\n"
      "  \"hidden_size\": \"4096\",\n"
      "  \"num_hidden_layers\": 0,\n"
      "  \"num_attention_heads\": 32.5,\n"
      "  \"attention_bias\": 1,\n"
      "  \"vocab_size\": 32000\n"
      "}\n");
  ASSERT_EQ(mistakes.size(), 5U) << Format(mistakes);
  EXPECT_EQ(mistakes[0].code, "input.out-of-range");
  EXPECT_EQ(mistakes[0].location.line, 4);
  EXPECT_EQ(mistakes[0].location.column, 3);
  EXPECT_EQ(mistakes[1].message, "'hidden_size' needs an integer: '4096'");
  EXPECT_EQ(mistakes[1].location.line, 3);
  EXPECT_EQ(mistakes[2].message, "'num_attention_heads' needs an integer: 32.5");
  EXPECT_EQ(mistakes[3].message, "missing key: 'intermediate_size'");
  EXPECT_EQ(mistakes[3].location.line, 1);
  EXPECT_EQ(mistakes[4].code, "input.not-a-boolean");
}

TEST(HuggingFaceTest, ImpossibleDimensionsPointAtTheirKey) {
  const std::string text = TextOf("gpt2");
  const Diagnostics mistakes = MistakesIn(With(text, "\"n_head\": 12", "\"n_head\": 13"));
  ASSERT_EQ(mistakes.size(), 1U) << Format(mistakes);
  EXPECT_EQ(mistakes[0].code, "model.impossible");
  EXPECT_EQ(mistakes[0].location.line, 15);
}

TEST(HuggingFaceTest, UnknownTypesGetAHint) {
  const std::string known =
      "write one of arcee, baichuan, bailing_moe, bailing_moe_v2, bert, bloom, camembert, "
      "chatglm, codegen, cohere, cohere2, dbrx, deepseek, deepseek_v2, deepseek_v3, "
      "distilbert, ernie4_5, ernie4_5_moe, exaone, falcon, flex_olmo, gemma, gemma2, "
      "gemma3_text, glm, glm4, glm4_moe, glm4v_moe_text, glm4v_text, gpt2, gpt_bigcode, "
      "gpt_neox, gpt_oss, gptj, granite, granitemoe, granitemoeshared, helium, internlm, "
      "internlm2, internlm3, kimi_k2, llama, llama4_text, megatron-bert, minicpm, "
      "minimax_m2, ministral, mistral, mixtral, mpt, nemotron, olmo2, olmoe, phi, phi3, phi3_v, "
      "phi4_multimodal, phi4mm, phimoe, qwen, qwen2, qwen2_moe, qwen3, qwen3_moe, "
      "qwen3_omni_moe_text, roberta, seed_oss, smollm3, solar_open, stablelm, starcoder2, "
      "vaultgemma, xlm-roberta";
  const Diagnostics mistakes = MistakesIn("{\"model_type\": \"lama\"}");
  ASSERT_EQ(mistakes.size(), 1U);
  EXPECT_EQ(mistakes[0].code, "model.unknown-type");
  EXPECT_THAT(mistakes[0].hint, testing::StartsWith(known + "; with files of models/families: "));
  // ModernBERT is a known name.
  EXPECT_THAT(MistakesIn("{\"model_type\": \"modernbert\"}").at(0).hint,
              testing::StartsWith(
                  "modernbert differs from bert by rotary positions and windows, but stepcast "
                  "does not model this feature; " +
                  known));
  EXPECT_THAT(MistakesIn("{\"model_type\": \"zamba2\"}").at(0).hint,
              testing::StartsWith("zamba has attention layers that share their weights, but "
                                  "stepcast does not model this feature; " +
                                  known));
  EXPECT_EQ(MistakesIn("{\"a\": 1}").at(0).code, "input.missing-key");
}

}  // namespace
}  // namespace stepcast::scenario
