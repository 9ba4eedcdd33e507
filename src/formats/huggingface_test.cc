#include "src/formats/huggingface.h"

#include <string>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/base/text_file.h"
#include "src/model/example_architectures.h"
#include "src/model/model.h"

namespace stepcast::formats {
namespace {

using model::Architecture;

std::string TextOf(const std::string& name) {
  Diagnostics mistakes;
  const auto text = ReadTextFile("src/formats/testdata/" + name + ".json", mistakes);
  EXPECT_TRUE(text.has_value()) << Format(mistakes);
  return text.value_or("");
}

HuggingFaceConfig ConfigOf(const std::string& text) {
  Result<HuggingFaceConfig> config = ParseHuggingFaceConfig(text, "config.json");
  if (!config.has_value()) {
    ADD_FAILURE() << Format(config.error());
    return {};
  }
  return *config;
}

Architecture ArchitectureOf(const std::string& text) { return ConfigOf(text).architecture; }

Diagnostics MistakesIn(const std::string& text) {
  const Result<HuggingFaceConfig> config = ParseHuggingFaceConfig(text, "config.json");
  EXPECT_FALSE(config.has_value()) << text;
  return config.has_value() ? Diagnostics() : config.error();
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
  EXPECT_EQ(a.family, model::Family::kGpt2);
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

// Absent keys mean what transformers fills in: 10,000 and 1e-6.
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
  // As transformers 5 writes it.
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

TEST(HuggingFaceTest, ExpertsAreNotModelled) {
  const Diagnostics mistakes = MistakesIn(
      With(TextOf("llama3.1-8b"), "\"hidden_act\"", "\"num_local_experts\": 8, \"hidden_act\""));
  ASSERT_EQ(mistakes.size(), 1U) << Format(mistakes);
  EXPECT_EQ(mistakes[0].message,
            "only dense feed-forward layers are modelled: 'num_local_experts' is 8");
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

// google-bert/bert-base-uncased, whose first release is a BertForMaskedLM; AutoModelForPreTraining
// makes a BertForPreTraining of it.
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
            "only encoders alone are modelled: 'is_decoder' is true");
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
  // Per block 3h + h + 4h + h of products and 2h of norms; h of the last norm.
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
  const Diagnostics mistakes = MistakesIn("{\"model_type\": \"lama\"}");
  ASSERT_EQ(mistakes.size(), 1U);
  EXPECT_EQ(mistakes[0].code, "model.unknown-type");
  EXPECT_EQ(mistakes[0].hint,
            "known are bert, gpt2, llama, megatron-bert, mistral, mpt, nemotron, qwen2");
  // Mixtral has experts, and is no typing mistake for Mistral.
  EXPECT_EQ(MistakesIn("{\"model_type\": \"mixtral\"}").at(0).hint,
            "known are bert, gpt2, llama, megatron-bert, mistral, mpt, nemotron, qwen2");
  EXPECT_EQ(MistakesIn("{\"a\": 1}").at(0).code, "input.missing-key");
}

}  // namespace
}  // namespace stepcast::formats
