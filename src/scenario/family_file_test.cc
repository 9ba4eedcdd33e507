#include "src/scenario/family_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/model/architecture.h"
#include "src/model/model.h"
#include "src/scenario/block_reader.h"
#include "src/scenario/family_expression.h"
#include "src/scenario/model_file.h"

namespace stepcast::scenario {
namespace {

namespace fs = std::filesystem;

class FamilyFileTest : public testing::Test {
 protected:
  FamilyFileTest() : folder_(fs::path(testing::TempDir()) / "family_file_test") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~FamilyFileTest() override { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }
  Result<LoadedModel> Config(const std::string& text) {
    return LoadModel(Write("a-model/config.json", text));
  }
  std::int64_t Count(const std::string& text) {
    const auto loaded = Config(text);
    if (loaded) return loaded->model.parameter_count();
    for (const Diagnostic& fault : loaded.error()) ADD_FAILURE() << fault.code << fault.message;
    return 0;
  }
  std::vector<std::string> Faults(const std::string& text) {
    std::vector<std::string> faults;
    if (const auto loaded = Config(text); !loaded) {
      for (const Diagnostic& fault : loaded.error()) {
        faults.push_back(fmt::format("{} {}", fault.location.line, fault.code));
      }
    }
    return faults;
  }

  const fs::path folder_;
};

constexpr const char* kQwenNext = R"({
  "model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48,
  "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 151936,
  "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512,
  "shared_expert_intermediate_size": 512, "full_attention_interval": 4,
  "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
  "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "tie_word_embeddings": false})";

// Published configurations, and the parameter counts that their formulas give (arXiv 2412.06464,
// 2510.26692, 2405.21060, 2512.02556).
TEST_F(FamilyFileTest, CountsArePublishedOnes) {
  EXPECT_EQ(Count(kQwenNext), 79674391296);
  EXPECT_EQ(Count(R"({"model_type": "qwen3_5_moe", "text_config": {
      "model_type": "qwen3_5_moe_text", "hidden_size": 2048, "num_hidden_layers": 40,
      "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "num_experts": 256,
      "num_experts_per_tok": 8, "moe_intermediate_size": 512, "vocab_size": 248320,
      "shared_expert_intermediate_size": 512, "full_attention_interval": 4,
      "linear_num_key_heads": 16, "linear_num_value_heads": 32}, "vision_config": {"depth": 27}})"),
            34660610688);
  EXPECT_EQ(Count(R"({"model_type": "kimi_linear", "hidden_size": 2304, "num_hidden_layers": 27,
      "num_attention_heads": 32, "intermediate_size": 9216, "vocab_size": 163840,
      "num_experts": 256, "num_experts_per_token": 8, "moe_intermediate_size": 1024,
      "num_shared_experts": 1, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
      "qk_rope_head_dim": 64, "v_head_dim": 128, "mla_use_nope": true, "first_k_dense_replace": 1,
      "linear_attn_config": {"full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "head_dim": 128,
      "num_heads": 32, "short_conv_kernel_size": 4}})"),
            49122675072);
  EXPECT_EQ(Count(R"({"model_type": "nemotron_h", "hidden_size": 4096,
      "hybrid_override_pattern":
"MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME",
      "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128,
      "mamba_num_heads": 128, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8,
      "n_routed_experts": 512, "num_experts_per_tok": 22, "moe_intermediate_size": 2688,
      "moe_latent_size": 1024, "n_shared_experts": 1, "moe_shared_expert_intermediate_size": 5376,
      "vocab_size": 131072})"),
            120668687360);
  EXPECT_EQ(Count(R"({"model_type": "deepseek_v32", "hidden_size": 7168, "num_hidden_layers": 61,
      "num_attention_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512,
      "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "index_n_heads": 64,
      "index_head_dim": 128, "index_topk": 2048, "intermediate_size": 18432,
      "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8,
      "n_shared_experts": 1, "first_k_dense_replace": 3, "vocab_size": 129280})"),
            671877929216);
  EXPECT_EQ(Count(R"({"model_type": "glm4_moe_lite", "hidden_size": 2048, "num_hidden_layers": 47,
      "num_attention_heads": 20, "q_lora_rank": 768, "intermediate_size": 10240,
      "moe_intermediate_size": 1536, "n_routed_experts": 64, "vocab_size": 154880})"),
            29943390976);
  EXPECT_EQ(Count(R"({"model_type": "olmo3", "hidden_size": 4096, "num_hidden_layers": 32,
      "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 100278})"),
            7298011136);
  EXPECT_EQ(Count(R"({"model_type": "gemma4_text", "hidden_size": 5376, "num_hidden_layers": 60,
      "num_attention_heads": 32, "num_key_value_heads": 16, "num_global_key_value_heads": 4,
      "head_dim": 256, "global_head_dim": 512, "attention_k_eq_v": true,
      "intermediate_size": 21504, "hidden_size_per_layer_input": 0, "vocab_size": 262144})"),
            30697345280);
}

// Encoders, encoder-decoders and diffusion transformers, as their publishers' files state them.
// Tables of fixed positions count: 1500 x 1280 of Whisper, 256 x 1152 of DiT.
TEST(FamilyFileSamplesTest, ModelsBeyondDecodersOfWords) {
  const std::map<std::string, std::int64_t> samples = {
      {"vit-base", 86'567'656},
      {"siglip-so400m", 412'987'248},
      {"t5-11b", 11'307'321'344},
      {"t5-v1.1-xxl-encoder", 4'762'310'656},
      {"whisper-large-v3", 1'543'490'560},
      {"flux.1-dev", 11'901'408'320},
      {"wan2.1-t2v-14b", 14'288'491'584},
      {"dit-xl-2", 674'834'720 + 256 * 1152},
  };
  for (const auto& [name, parameters] : samples) {
    const auto loaded = LoadModel("src/scenario/testdata/" + name + ".json");
    ASSERT_TRUE(loaded) << name << ": " << loaded.error().front().message;
    EXPECT_EQ(loaded->model.all_parameter_count(), parameters) << name;
    const std::size_t expected = name == "siglip-so400m" ? 1 : 0;
    EXPECT_EQ(loaded->warnings.size(), expected)
        << name << ": " << (loaded->warnings.empty() ? "" : loaded->warnings.front());
  }
}

// Decoders and encoders, as their publishers' files state them. The counts are those of the
// publishers' weights, less buffers, or follow from their code. Backward computes the gradient of
// each tensor once. The head computes the gradient of tied embeddings, except for the part of the
// first layer.
TEST(FamilyFileSamplesTest, ConfigurationsOfPublishers) {
  const std::map<std::string, std::int64_t> samples = {
      {"afm-4.5b", 4'619'184'640},
      {"apertus-8b", 8'053'338'176},
      {"baichuan2-13b", 13'896'668'160},
      {"baichuan2-7b", 7'505'973'248},
      {"bamba-9b", 9'780'235'392},
      {"bloom-7b1", 7'069'016'064},
      {"chatglm3-6b", 6'243'584'000},
      {"codegen-350m", 356'712'448},
      {"command-r-plus", 103'810'674'688},
      {"cwm-32b", 32'581'097'472},
      {"dbrx", 131'596'523'520},
      {"deepseek-moe-16b", 16'375'728'128},
      {"distilbert-base", 66'985'530},
      {"exaone3.5-7.8b", 7'818'448'896},
      {"falcon-h1-0.5b", 521'411'104},
      {"falcon-mamba-7b", 7'272'665'088},
      {"flexolmo-7x7b", 33'270'665'216},
      {"glm-4.5v", 106'852'245'504},
      {"gpt-neo-1.3b", 1'315'575'808},
      {"granite-4.0-h-micro", 3'191'396'096},
      {"granite-4.0-h-small", 32'207'337'984},
      {"granite-4.0-h-tiny", 6'939'037'248},
      {"hunyuan-a13b", 80'393'183'232},
      {"internlm-7b", 7'321'948'160},
      {"internlm2-7b", 7'737'708'544},
      {"internlm3-8b", 8'804'241'408},
      {"internvl3-8b", 7'612'820'992},
      {"jamba-v0.1", 51'570'323'328},
      {"k-exaone-236b", 236'571'150'336},
      {"lfm2-1.2b", 1'170'340'608},
      {"lfm2-8b-a1b", 8'339'929'856},
      {"ling-1t", 999'705'309'184},
      {"ling-lite", 16'801'974'272},
      {"ling-mini-2.0", 16'255'638'528},
      {"mamba-2.8b", 2'768'345'600},
      {"minicpm-2b", 2'724'880'896},
      {"minicpm3-4b", 4'073'875'968},
      {"minimax-text-01", 456'089'655'296},
      {"ministral-8b", 8'019'808'256},
      {"nanochat-d20", 560'988'160},
      {"olmo-7b", 6'888'095'744},
      {"opt-6.7b", 6'658'473'984},
      {"phi-3.5-vision", 3'821'079'552},
      {"phi3.5-moe", 41'873'153'344},
      {"qwen-72b", 72'287'920'128},
      {"qwen-7b", 7'721'324'544},
      {"roberta-base", 124'697'433},
      {"solar-open-100b", 102'651'793'408},
      {"stablelm-2-1.6b", 1'644'515'328},
      {"stablelm-2-12b", 12'143'185'920},
      {"starcoder", 15'517'456'384},
      {"trinity-mini", 26'123'970'560},
      {"vaultgemma-1b", 1'038'741'120},
      {"xlm-roberta-large", 560'142'482},
  };
  for (const auto& file : fs::directory_iterator("src/scenario/testdata/configs")) {
    EXPECT_TRUE(samples.contains(file.path().stem())) << file.path();
  }
  for (const auto& [name, parameters] : samples) {
    const auto loaded = LoadModel("src/scenario/testdata/configs/" + name + ".json");
    ASSERT_TRUE(loaded) << name << ": " << loaded.error().front().message;
    const model::Model& model = loaded->model;
    EXPECT_EQ(model.parameter_count(), parameters) << name;
    for (const std::string& warning : loaded->warnings) {
      EXPECT_EQ(warning.find("because it is unknown"), std::string::npos)
          << name << ": " << warning;
    }
    const model::WorkOptions options{.micro_batch_size = 1, .sequence_length = 512};
    const std::vector<int> work_of = model::WorkOfLayers(model, options, {}, {});
    const std::vector<model::LayerWork> works = model::BuildWork(model, options);
    for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
      const std::vector<int>& tensors = model.layers[layer].tensors;
      std::vector<int> gradients(tensors.size());
      for (const model::Operation& op : works[static_cast<std::size_t>(work_of[layer])].backward) {
        for (const int position : op.gradients) ++gradients[static_cast<std::size_t>(position)];
      }
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        const bool tied = layer + 1 == model.layers.size() && tensors[i] == 0;
        EXPECT_TRUE(gradients[i] == 1 || (tied && gradients[i] == 0))
            << name << ": " << model.tensors[static_cast<std::size_t>(tensors[i])].name << " of "
            << model.layers[layer].name << " has " << gradients[i];
      }
    }
  }
}

// The tokens of an encoder before a decoder are asked for.
TEST_F(FamilyFileTest, TokensOfAnEncoder) {
  Write("config.json", R"({"model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 128,
      "num_layers": 2, "num_heads": 4, "vocab_size": 100})");
  const auto tokens = [&](const std::string& more) -> std::int64_t {
    Diagnostics faults;
    const auto node = ParseDocument("{config: config.json" + more + "}", "s", faults);
    const auto loaded = ReadConfigOfFamily(*node, folder_.string(), faults);
    return loaded ? std::get<model::Architecture>(loaded->model.source).encoder.tokens : 0;
  };
  EXPECT_EQ(tokens(""), 512);
  EXPECT_EQ(tokens(", encoder: {tokens: 1024}"), 1024);
}

TEST_F(FamilyFileTest, SayWhichLayerIsWhichBlock) {
  const auto loaded = Config(kQwenNext);
  ASSERT_TRUE(loaded);
  const auto& architecture = std::get<model::Architecture>(loaded->model.source);
  ASSERT_EQ(architecture.layers, 48);
  for (std::int64_t layer = 0; layer < 48; ++layer) {
    const bool full = (layer + 1) % 4 == 0;
    EXPECT_EQ(OfKind(architecture, KindOfBlock(architecture, layer)).mixer,
              full ? model::Mixer::kAttention : model::Mixer::kDelta);
  }
  EXPECT_EQ(loaded->model.name, "a-model");
}

// All mistakes are reported at once, each at its value.
TEST_F(FamilyFileTest, MistakesStandInTheConfiguration) {
  EXPECT_EQ(Faults("{\n\"model_type\": \"olmo3\",\n\"hidden_size\": 4096}"),
            (std::vector<std::string>{"1 input.missing-key", "1 input.missing-key",
                                      "1 input.missing-key", "1 input.missing-key"}));
  EXPECT_EQ(Faults("{\"model_type\": \"olmo3\", \"num_hidden_layers\": 2, \"hidden_size\": 64,\n"
                   "\"num_attention_heads\": 4,\n\"num_key_value_heads\": 0,\n"
                   "\"intermediate_size\": -1,\n\"vocab_size\": 100}"),
            (std::vector<std::string>{"3 input.out-of-range", "4 input.out-of-range"}));
  // The list has fewer elements than there are layers.
  EXPECT_EQ(Faults("{\"model_type\": \"olmo3\", \"num_hidden_layers\": 2, \"hidden_size\": 64,\n"
                   "\"num_attention_heads\": 4, \"intermediate_size\": 64, \"vocab_size\": 100,\n"
                   "\"layer_types\": [\"full_attention\"]}")
                .size(),
            1U);
  // A key that nobody knows is said, one that may change shapes refused.
  const std::string dense =
      "\"num_hidden_layers\": 2, \"hidden_size\": 64, \"vocab_size\": 100,"
      "\"num_attention_heads\": 4, \"intermediate_size\": 64";
  const auto unknown = Config("{\"model_type\": \"olmo3\", " + dense + ", \"brand_new\": 3}");
  ASSERT_TRUE(unknown);
  ASSERT_EQ(unknown->warnings.size(), 1U);
  EXPECT_NE(unknown->warnings[0].find("brand_new"), std::string::npos);
  EXPECT_EQ(Faults("{\"model_type\": \"olmo3\", " + dense + ", \"num_experts\": 8}"),
            std::vector<std::string>{"1 model.not-modelled"});
}

// An invented family with three kinds of blocks, defined by its file alone.
TEST_F(FamilyFileTest, AFamilyIsAFile) {
  const std::string family = Write("threefold.yaml", R"(
model_types: [threefold]
names: {query: attn.q, delta_in: rec.in}
config:
  width:
  depth:
  words: 1000
  every: 3
model:
  hidden_size: width
  vocab_size: words
  mixers:
    attention: {kind: attention, heads: width // 32, head: 32, window: 64 if every > 2 else 0}
    delta: {kind: delta, key_heads: 2, value_heads: 4, key: 16, value: 16}
    mamba: {kind: state_space, heads: 4, head: 16, state: 16}
  feed_forwards:
    mlp: {kind: dense, width: 4 * width}
    moe: {kind: experts, count: 8, top: 2, width: width, shared: {width: width}}
  blocks: {A: [attention, mlp], D: [delta, moe], M: [mamba]}
  pattern: {layers: depth, block: ('A' if i % every == 0 else 'D' if i % every == 1 else 'M')}
)");
  Write("config.json", R"({"model_type": "threefold", "width": 64, "depth": 6})");
  Diagnostics faults;
  const auto node = ParseDocument("{config: config.json, family: threefold.yaml}", "s", faults);
  ASSERT_TRUE(node && NamesFamily(*node));
  const auto loaded = ReadConfigOfFamily(*node, folder_.string(), faults);
  ASSERT_TRUE(loaded) << (faults.empty() ? "" : faults.front().message);
  const auto& architecture = std::get<model::Architecture>(loaded->model.source);
  EXPECT_EQ(architecture.pattern, (std::vector<int>{0, 1, 2, 0, 1, 2}));
  const std::int64_t h = 64, k = 2 * 16, u = 4 * 16, di = 4 * 16;
  const std::int64_t attention = 4 * h * h + 3 * h * 4 * h + 2 * h;
  const std::int64_t delta = h * (2 * k + 2 * u + 2 * 4) + 4 * (2 * k + u) + 2 * 4 + 16 + u * h;
  const std::int64_t experts = 8 * h + 8 * 3 * h * h + 3 * h * h + 2 * h;
  const std::int64_t mamba =
      h * (2 * di + 2 * 16 + 4) + (di + 2 * 16) * 5 + 3 * 4 + di + di * h + h;
  EXPECT_EQ(loaded->model.parameter_count(),
            2 * (attention + delta + experts + mamba) + 2 * 1000 * h + h);
  EXPECT_EQ(loaded->model.layers[1].name, "model.layers.0");
  EXPECT_EQ(loaded->model.tensors[1].name, "model.layers.0.attn.q.weight");
}

// 34,660,610,688 for the text model, 446,571,248 for the tower, 844,640,768 for the
// multi-token-prediction module. A tower without layers changes nothing.
TEST_F(FamilyFileTest, TowersAndFurtherTokensAreAskedFor) {
  const auto count = [&](const std::string& depth, const std::string& more) -> std::int64_t {
    Write("config.json", R"({"model_type": "qwen3_5_moe", "text_config": {
      "model_type": "qwen3_5_moe_text", "hidden_size": 2048, "num_hidden_layers": 40,
      "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "num_experts": 256,
      "num_experts_per_tok": 8, "moe_intermediate_size": 512, "vocab_size": 248320,
      "shared_expert_intermediate_size": 512, "linear_num_value_heads": 32,
      "mtp_num_hidden_layers": 1}, "vision_config": {"depth": )" +
                             depth + R"(, "hidden_size": 1152, "num_heads": 16,
      "intermediate_size": 4304, "in_channels": 3, "patch_size": 16, "temporal_patch_size": 2,
      "spatial_merge_size": 2, "num_position_embeddings": 2304}})");
    Diagnostics faults;
    const auto node = ParseDocument("{config: config.json" + more + "}", "s", faults);
    const auto loaded = ReadConfigOfFamily(*node, folder_.string(), faults);
    return loaded ? loaded->model.parameter_count() : 0;
  };
  EXPECT_EQ(count("27", ""), 34660610688);
  EXPECT_EQ(count("27", ", towers: {patches: 1024}"), 34660610688 + 446571248);
  EXPECT_EQ(count("0", ", towers: {patches: 1024}"), 34660610688);
  EXPECT_EQ(count("27", ", mtp: true, towers: {patches: 1024, image: 256}"), 35951822704);
}

TEST_F(FamilyFileTest, ATowerWithoutLayersChangesNothing) {
  Write("config.json", R"({"model_type": "qwen3_5_moe", "text_config": {
      "model_type": "qwen3_5_moe_text", "hidden_size": 256, "num_hidden_layers": 4,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "num_experts": 8,
      "num_experts_per_tok": 2, "moe_intermediate_size": 64, "vocab_size": 1000,
      "shared_expert_intermediate_size": 64, "linear_num_value_heads": 32},
      "vision_config": {"depth": 0, "hidden_size": 1152, "num_heads": 16,
      "intermediate_size": 4304, "in_channels": 3, "patch_size": 16, "temporal_patch_size": 2,
      "spatial_merge_size": 2, "num_position_embeddings": 2304}})");
  const auto load = [&](const std::string& towers) {
    Diagnostics faults;
    const auto node = ParseDocument("{config: config.json" + towers + "}", "s", faults);
    return ReadConfigOfFamily(*node, folder_.string(), faults);
  };
  const auto without = load("");
  ASSERT_TRUE(without.has_value());
  EXPECT_TRUE(rc::check([&] {
    const auto with = load(fmt::format(", towers: {{patches: {}}}", 4 * *rc::gen::inRange(1, 256)));
    RC_ASSERT(with.has_value());
    const model::WorkOptions options{.micro_batch_size = *rc::gen::inRange<std::int64_t>(1, 4),
                                     .sequence_length = *rc::gen::inRange<std::int64_t>(1, 512)};
    RC_ASSERT(with->model.parameter_count() == without->model.parameter_count());
    RC_ASSERT(model::BuildWork(with->model, options) == model::BuildWork(without->model, options));
  }));
}

// The module that predicts a further token has two layers, each with a norm of its own.
TEST_F(FamilyFileTest, FurtherTokensOfOneLayerBlocksHaveEveryGradientOnce) {
  Write("config.json", R"({"model_type": "nemotron_h", "hidden_size": 256,
      "hybrid_override_pattern": "ME*E", "num_attention_heads": 4, "num_key_value_heads": 2,
      "head_dim": 64, "mamba_num_heads": 8, "mamba_head_dim": 64, "ssm_state_size": 64,
      "n_groups": 2, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
      "num_nextn_predict_layers": 1, "vocab_size": 1000})");
  Diagnostics faults;
  const auto node = ParseDocument("{config: config.json, mtp: true}", "s", faults);
  const auto loaded = ReadConfigOfFamily(*node, folder_.string(), faults);
  ASSERT_TRUE(loaded.has_value());
  const model::Layer& head = loaded->model.layers.back();
  std::set<std::string> names;
  for (const int tensor : head.tensors) {
    names.insert(loaded->model.tensors[static_cast<std::size_t>(tensor)].name);
  }
  EXPECT_EQ(names.size(), head.tensors.size());
  const model::WorkOptions options{.micro_batch_size = 1, .sequence_length = 256};
  const int work = model::WorkOfLayers(loaded->model, options, {}, {}).back();
  std::vector<int> gradients(head.tensors.size());
  const std::vector<model::LayerWork> works = model::BuildWork(loaded->model, options);
  for (const model::Operation& op : works[static_cast<std::size_t>(work)].backward) {
    for (const int position : op.gradients) ++gradients[static_cast<std::size_t>(position)];
  }
  // The embedding's gradient is complete only in the first layer.
  const auto missing = std::count(gradients.begin(), gradients.end(), 0);
  const auto once = std::count(gradients.begin(), gradients.end(), 1);
  EXPECT_LE(missing, 1);
  EXPECT_EQ(missing + once, std::ssize(gradients));
}

TEST_F(FamilyFileTest, EveryShippedFamilyCanBeRead) {
  const std::vector<std::string> names = FamiliesOfBlocks();
  for (const std::string& name : names) {
    Diagnostics faults;
    EXPECT_NE(FamilyOfBlocks(name, faults), nullptr) << name;
    EXPECT_TRUE(faults.empty()) << name;
  }
  EXPECT_GT(names.size(), 20U);
}

TEST(FamilyExpressionTest, IsEvaluated) {
  const std::map<std::string, FamilyValue, std::less<>> values = {
      {"a", FamilyValue::Of(std::int64_t{7})},
      {"text", FamilyValue::Of(std::string("MEM*"))},
      {"none", FamilyValue()}};
  const auto evaluate = [&](const char* expression) {
    return Evaluate(expression,
                    [&](std::string_view name) {
                      const auto found = values.find(name);
                      if (found == values.end()) throw FamilyMistake{"no such name"};
                      return found->second;
                    })
        .Text();
  };
  EXPECT_EQ(evaluate("2 + 3 * a"), "23");
  EXPECT_EQ(evaluate("(2 + 3) * a // 4 - 1 % 3"), "7");
  EXPECT_EQ(evaluate("-a // 2"), "-4");
  EXPECT_EQ(evaluate("'x' if a > 6 and not none else missing"), "x");
  EXPECT_EQ(evaluate("missing if a == 8 else none or 'y'"), "y");
  EXPECT_EQ(evaluate("letters(text)[3] + letters(text)[-4]"), "*M");
  EXPECT_EQ(evaluate("a in [1, 7] and 'E' in text"), "true");
  EXPECT_EQ(evaluate("max(len(text), 3) / 8"), "0.5");
  for (const char* wrong : {"a +", "(a", "a b", "missing", "a // 0", "text - 1", "a[0]",
                            "letters(text)[4]", "nothing(1)", "'open", "a if a"}) {
    EXPECT_THROW(evaluate(wrong), FamilyMistake) << wrong;
  }
}

TEST(BlockReaderTest, PatternsRepeat) {
  const auto pattern = [](const std::string& text) -> std::vector<int> {
    Diagnostics faults;
    const auto node =
        ParseDocument(fmt::format("{{kind: transformer, name: m, hidden_size: 64, vocab_size: 100, "
                                  "mixers: {{a: {{kind: attention, heads: 2, head: 32}}}}, "
                                  "feed_forwards: {{f: {{kind: dense, width: 64}}}}, "
                                  "blocks: {{A: [a, f], '*': [a], F: [f]}}, pattern: '{}'}}",
                                  text),
                      "m.yaml", faults);
    const auto model = ReadModel(*node, faults);
    if (!model) return {};
    return std::get<model::Architecture>(model->source).pattern;
  };
  EXPECT_EQ(pattern("(AF)*2 *F"), (std::vector<int>{0, 2, 0, 2, 1, 2}));
  EXPECT_EQ(pattern("A*3"), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(pattern("**2"), (std::vector<int>{1, 1}));
  for (const char* wrong : {"AB", "(A", "A)", "()", "A*99999"}) {
    EXPECT_EQ(pattern(wrong), std::vector<int>()) << wrong;
  }
}

}  // namespace
}  // namespace stepcast::scenario
