#include "src/scenario/model_file.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace stepcast::scenario {
namespace {

Result<model::Model> Parse(const std::string& text) {
  Diagnostics diagnostics;
  if (const auto node = ParseDocument(text, "m.yaml", diagnostics)) {
    auto model = ReadModel(*node, diagnostics);
    if (model.has_value()) return *std::move(model);
  }
  return tl::make_unexpected(diagnostics);
}

// "line:column code" of every mistake.
std::vector<std::string> MistakesIn(const std::string& text) {
  const Result<model::Model> model = Parse(text);
  EXPECT_FALSE(model.has_value()) << text;
  std::vector<std::string> mistakes;
  if (model.has_value()) return mistakes;
  for (const Diagnostic& diagnostic : model.error()) {
    EXPECT_EQ(diagnostic.location.file, "m.yaml");
    mistakes.push_back(std::to_string(diagnostic.location.line) + ":" +
                       std::to_string(diagnostic.location.column) + " " + diagnostic.code);
  }
  return mistakes;
}

using Mistakes = std::vector<std::string>;

// Gpt2, gpt2-xl and the Llamas as published; the others by the same sums over shapes.
TEST(ModelFileTest, ShippedModelsHaveTheirParameterCounts) {
  const std::vector<std::pair<std::string, std::int64_t>> shipped = {
      {"gpt2", 124'439'808},
      {"gpt2-medium", 354'823'168},
      {"gpt2-large", 774'030'080},
      {"gpt2-xl", 1'557'611'200},
      {"gpt3-1.3b", 1'315'723'264},
      {"gpt3-2.7b", 2'651'553'280},
      {"gpt3-6.7b", 6'658'404'352},
      {"gpt3-13b", 12'853'386'240},
      {"gpt3-175b", 174'604'259'328},
      {"llama2-7b", 6'738'415'616},
      {"llama2-13b", 13'015'864'320},
      {"llama2-70b", 68'976'648'192},
      {"llama3.1-8b", 8'030'261'248},
      {"llama3.1-70b", 70'553'706'496},
      {"llama3.1-405b", 405'853'388'800},
      {"mistral-7b", 7'241'732'096},
      {"mixtral-8x7b", 46'702'792'704},
      {"mixtral-8x22b", 140'620'634'112},
      {"qwen3-8b", 8'190'735'360},
      {"qwen3-30b-a3b", 30'532'122'624},
      {"qwen3-235b-a22b", 235'093'634'560},
      {"deepseek-v2-lite", 15'706'484'224},
      {"deepseek-v3", 671'026'404'352},
      {"moonlight-16b-a3b", 15'960'108'544},
      {"kimi-k2", 1'026'408'209'408},
      {"gpt-oss-20b", 20'914'757'184},
      {"gpt-oss-120b", 116'829'156'672},
      {"gemma2-9b", 9'241'705'984},
      {"gemma3-27b", 27'009'346'304},
      {"phi4", 14'659'507'200},
      {"olmo2-7b", 7'298'617'344},
      {"glm-4.5", 352'797'814'784},
      {"glm-4.5-air", 106'852'245'504},
      {"grok-1", 315'684'820'992},
      {"llama4-scout", 107'769'861'120},
      {"llama4-maverick", 400'711'848'960},
      {"mpt-7b", 6'649'286'656},
      {"mpt-30b", 29'957'200'896},
      {"mpt-70b", 64'862'437'376},
      {"nemotron4-15b", 15'628'775'424},
      {"nemotron4-340b", 341'029'195'776},
      {"gptj-6b", 6'050'882'784},
      {"gpt-neox-20b", 20'554'567'680},
      {"pythia-6.9b", 6'857'302'016},
      {"falcon-7b", 6'921'720'704},
      {"glm-4-9b", 9'399'951'360},
      {"qwen1.5-moe-a2.7b", 14'315'784'192},
      {"olmoe-1b-7b", 6'919'161'856},
      {"minimax-m2", 228'689'748'992},
      {"codellama-34b", 33'743'970'304},
      {"gemma-2b", 2'506'172'416},
      {"gemma-7b", 8'537'680'896},
      {"gemma2-27b", 27'227'128'320},
      {"gemma2-2b", 2'614'341'888},
      {"gemma3-12b", 11'766'034'176},
      {"gemma3-1b", 999'885'952},
      {"gemma3-4b", 3'880'263'168},
      {"llama3.2-1b", 1'235'814'400},
      {"llama3.2-3b", 3'212'749'824},
      {"mistral-7b-v0.3", 7'248'023'552},
      {"mistral-nemo-12b", 12'247'782'400},
      {"mistral-small-24b", 23'572'403'200},
      {"olmo2-13b", 13'716'198'400},
      {"olmo2-1b", 1'484'916'736},
      {"olmo2-32b", 32'234'279'936},
      {"phi3-mini", 3'821'079'552},
      {"qwen2.5-0.5b", 494'032'768},
      {"qwen2.5-1.5b", 1'543'714'304},
      {"qwen2.5-14b", 14'770'033'664},
      {"qwen2.5-32b", 32'763'876'352},
      {"qwen2.5-3b", 3'085'938'688},
      {"qwen2.5-72b", 72'706'203'648},
      {"qwen2.5-7b", 7'615'616'512},
      {"qwen3-0.6b", 596'049'920},
      {"qwen3-1.7b", 1'720'574'976},
      {"qwen3-14b", 14'768'307'200},
      {"qwen3-32b", 32'762'123'264},
      {"qwen3-4b", 4'022'468'096},
      {"smollm2-1.7b", 1'711'376'384},
      {"smollm2-135m", 134'515'008},
      {"smollm2-360m", 361'821'120},
      {"tinyllama-1.1b", 1'100'048'384},
      {"bert-base", 110'106'428},
      {"bert-large", 336'226'108},
      {"deepseek-v3.2", 671'877'929'216},
      {"deepseek-v4-flash", 284'332'230'231},
      {"gemma-4-31b", 30'697'345'280},
      {"glm-4.7-flash", 29'943'390'976},
      {"glm-5", 743'911'199'232},
      {"kimi-linear-48b-a3b", 49'122'675'072},
      {"minimax-m3", 426'174'565'632},
      {"nemotron-3-nano-30b-a3b", 31'577'937'344},
      {"nemotron-3-super-120b-a12b", 120'668'687'360},
      {"olmo3-7b", 7'298'011'136},
      {"qwen3-next-80b-a3b", 79'674'391'296},
      {"qwen3.5-27b", 26'895'998'464},
      {"qwen3.5-35b-a3b", 34'660'610'688},
      {"dit-xl-2", 674'834'720},
      {"flux.1-dev", 11'901'408'320},
      {"siglip-so400m", 412'987'248},
      {"t5-11b", 11'307'321'344},
      {"t5-v1.1-xxl-encoder", 4'762'310'656},
      {"vit-base", 86'567'656},
      {"wan2.1-t2v-14b", 14'288'491'584},
      {"whisper-large-v3", 1'541'570'560},  // without the encoder's table of positions
  };
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("models")) {
    files += entry.path().extension() == ".yaml" ? 1 : 0;
  }
  EXPECT_EQ(files, shipped.size());
  for (const auto& [name, parameters] : shipped) {
    const Result<LoadedModel> loaded = LoadModel("models/" + name + ".yaml");
    ASSERT_TRUE(loaded.has_value()) << Format(loaded.error());
    EXPECT_EQ(loaded->model.name, name);
    EXPECT_EQ(loaded->model.parameter_count(), parameters) << name;
    EXPECT_TRUE(loaded->warnings.empty()) << name;
  }
}

TEST(ModelFileTest, ReadsAConfigJson) {
  const Result<LoadedModel> loaded = LoadModel("src/formats/testdata/llama3.1-8b.json");
  ASSERT_TRUE(loaded.has_value()) << Format(loaded.error());
  EXPECT_EQ(loaded->model.name, "llama3.1-8b");  // the file's; it has no name of its own
  EXPECT_EQ(loaded->model.parameter_count(), 8'030'261'248);
  EXPECT_TRUE(loaded->warnings.empty());
}

TEST(ModelFileTest, AConfigUnderAnotherNameIsRecognised) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "tiny";
  std::filesystem::create_directories(folder);
  const std::string text =
      R"({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 4,
          "vocab_size": 10})";
  for (const char* name : {"config.json", "config.txt"}) std::ofstream(folder / name) << text;
  const Result<LoadedModel> json = LoadModel((folder / "config.json").string());
  ASSERT_TRUE(json.has_value()) << Format(json.error());
  EXPECT_EQ(json->model.name, "tiny");  // a config.json is called after its folder
  // (10 + 4) x 8 + 12 x 64 + 13 x 8 + 2 x 8.
  EXPECT_EQ(json->model.parameter_count(), 1000);
  const Result<LoadedModel> other = LoadModel((folder / "config.txt").string());
  ASSERT_TRUE(other.has_value()) << Format(other.error());
  EXPECT_EQ(other->model.parameter_count(), 1000);
}

TEST(ModelFileTest, AMissingFileIsAMistake) {
  const Result<LoadedModel> model = LoadModel("models/none.yaml");
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().at(0).code, "file.not-found");
}

constexpr char kTiny[] =
    "kind: transformer\n"       // 1
    "family: llama\n"           // 2
    "hidden_size: 64\n"         // 3
    "num_hidden_layers: 2\n"    // 4
    "num_attention_heads: 4\n"  // 5
    "intermediate_size: 128\n"  // 6
    "vocab_size: 100\n";        // 7

// Omitted keys have the values of the family's released models.
TEST(ModelFileTest, FamiliesHaveDefaults) {
  const Result<model::Model> model = Parse(kTiny);
  ASSERT_TRUE(model.has_value()) << Format(model.error());
  EXPECT_EQ(model->name, "m");
  const auto& a = std::get<model::Architecture>(model->source);
  EXPECT_EQ(a.kv_heads, 4);
  EXPECT_EQ(a.head_size, 16);
  EXPECT_EQ(a.position, model::Position::kRotary);
  EXPECT_FALSE(a.tie_embeddings);
  // 2 x 100 x 64 + 2 (4 x 64^2 + 3 x 64 x 128 + 2 x 64) + 64.
  EXPECT_EQ(model->parameter_count(), 12800 + 2 * (16384 + 24576 + 128) + 64);
}

TEST(ModelFileTest, ConstantsForOtherPrograms) {
  const auto constants = [](const std::string& text) {
    Diagnostics diagnostics;
    return ReadModelConstants(*ParseDocument(text, "m.yaml", diagnostics));
  };
  EXPECT_EQ(constants(kTiny).norm_epsilon, 1e-5);
  EXPECT_EQ(constants(kTiny).rotary_base, 10'000);
  EXPECT_FALSE(constants(kTiny).rotary_scaling.has_value());
  const std::string scaled = std::string(kTiny) +
                             "norm_epsilon: 1e-06\nrope_theta: 500000\n"
                             "rope_scaling: {rope_type: llama3, factor: 32}\n";
  ASSERT_TRUE(Parse(scaled).has_value()) << Format(Parse(scaled).error());
  EXPECT_EQ(constants(scaled).norm_epsilon, 1e-6);
  EXPECT_EQ(constants(scaled).rotary_base, 500'000);
  EXPECT_EQ(constants(scaled).rotary_scaling->factor, 32);
  EXPECT_EQ(Parse(scaled)->parameter_count(), Parse(kTiny)->parameter_count());
  EXPECT_EQ(LoadModelConstants("models/llama3.1-8b.yaml")->rotary_base, 500'000);
  EXPECT_EQ(LoadModelConstants("src/formats/testdata/qwen2-7b.json")->rotary_base, 1'000'000);
  std::ifstream file("models/gpt2.yaml");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const Result<model::Model> wrong = Parse(text + "rope_theta: 10000\n");
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().at(0).message,
            "the key 'rope_theta' applies only to rotary positions, but position is learned");
}

TEST(ModelFileTest, OptionsChangeTheTensors) {
  const Result<model::Model> model =
      Parse(std::string(kTiny) +
            "attention_bias: true\ntie_word_embeddings: true\n"
            "num_key_value_heads: 2\nhead_dim: 8\nsliding_window: 16\n");
  ASSERT_TRUE(model.has_value()) << Format(model.error());
  const auto& a = std::get<model::Architecture>(model->source);
  EXPECT_EQ(a.attention_window, 16);
  // 100 x 64 + 2 (q 64 x 32 + 32, k and v 64 x 16 + 16 each, o 32 x 64, MLP, norms) + 64.
  EXPECT_EQ(model->parameter_count(),
            6400 + 2 * (2048 + 32 + 2 * (1024 + 16) + 2048 + 24576 + 128) + 64);
}

// Each block has a router, 4 experts and a shared one.
TEST(ModelFileTest, ExpertsChangeTheTensors) {
  const Result<model::Model> model =
      Parse(std::string(kTiny) +
            "num_experts: 4\nnum_experts_per_tok: 2\nmoe_intermediate_size: 32\n"
            "shared_expert_intermediate_size: 48\nscoring_func: sigmoid\nn_group: 2\n"
            "topk_group: 1\nbalancing_bias: true\nnorm_topk_prob: false\n");
  ASSERT_TRUE(model.has_value()) << Format(model.error());
  const model::Experts& experts = std::get<model::Architecture>(model->source).experts;
  EXPECT_EQ(experts, (model::Experts{.count = 4,
                                     .per_token = 2,
                                     .feed_forward = 32,
                                     .shared_feed_forward = 48,
                                     .scores = model::RouterScores::kSigmoid,
                                     .normalized_weights = false,
                                     .groups = 2,
                                     .groups_per_token = 1,
                                     .balancing_bias = true}));
  const std::int64_t attention = 4 * 64 * 64 + 2 * 64;
  EXPECT_EQ(model->parameter_count(),
            12800 + 2 * (attention + 4 * 64 + 3 * 64 * (4 * 32 + 48)) + 64);
  // The first block is dense.
  const Result<model::Model> mixed = Parse(std::string(kTiny) +
                                           "num_experts: 4\nnum_experts_per_tok: 2\n"
                                           "first_k_dense_replace: 1\nrouter_bias: true\n"
                                           "experts_bias: true\n");
  ASSERT_TRUE(mixed.has_value()) << Format(mixed.error());
  EXPECT_EQ(mixed->parameter_count(),
            12800 + 2 * attention + 5 * 3 * 64 * 128 + 4 * 64 + 4 * (1 + 2 * 128 + 64) + 64);
}

// If every block has experts, `intermediate_size` is unused.
TEST(ModelFileTest, TheWidthOfExpertsIsEnough) {
  const std::string text =
      "kind: transformer\nfamily: mixtral\nhidden_size: 64\nnum_hidden_layers: 2\n"
      "num_attention_heads: 4\nmoe_intermediate_size: 128\nvocab_size: 100\nnum_experts: 2\n"
      "num_experts_per_tok: 1\n";
  EXPECT_TRUE(Parse(text).has_value());
  EXPECT_EQ(MistakesIn(text + "first_k_dense_replace: 1\n"), Mistakes{"1:1 input.missing-key"});
}

// Down to 16 for queries and to 8 + 4 for keys and values, up to 4 heads of 12 + 4 and of 12 + 10.
TEST(ModelFileTest, LatentAttention) {
  std::string text = kTiny;
  text.replace(text.find("llama"), 5, "deepseek");
  const std::string sizes =
      "kv_lora_rank: 8\nqk_nope_head_dim: 12\nqk_rope_head_dim: 4\nv_head_dim: 10\n";
  const Result<model::Model> model = Parse(text + sizes + "q_lora_rank: 16\n");
  ASSERT_TRUE(model.has_value()) << Format(model.error());
  const std::int64_t attention =
      64 * 16 + 16 + 16 * 4 * 16 + 64 * (8 + 4) + 8 + 8 * 4 * (12 + 10) + 4 * 10 * 64;
  EXPECT_EQ(model->parameter_count(), 12800 + 2 * (attention + 24576 + 128) + 64);
  EXPECT_EQ(std::get<model::Architecture>(model->source).head_size, 16);
  EXPECT_EQ(MistakesIn(text), (Mistakes{"1:1 input.missing-key", "1:1 input.missing-key",
                                        "1:1 input.missing-key", "1:1 input.missing-key"}));
  EXPECT_EQ(MistakesIn(kTiny + sizes), Mistakes{"8:15 model.impossible"});
}

// One more block, whose input is projected from 2 h, and three norms; the head's product is shared.
TEST(ModelFileTest, AModuleThatPredictsAFurtherToken) {
  const std::string text = std::string(kTiny) + "num_nextn_predict_layers: 1\n";
  ASSERT_TRUE(Parse(text).has_value()) << Format(Parse(text).error());
  EXPECT_EQ(Parse(text)->parameter_count(),
            12800 + 3 * (16384 + 24576 + 128) + 64 + 2 * 64 * 64 + 3 * 64);
  // A repeated module has the parameters of one.
  const auto repeated =
      Parse(std::string(kTiny) + "num_nextn_predict_layers: 2\nmtp_use_repeated_layer: true\n");
  ASSERT_TRUE(repeated.has_value()) << Format(repeated.error());
  EXPECT_EQ(repeated->parameter_count(), Parse(text)->parameter_count());
  EXPECT_EQ(MistakesIn(text + "tie_word_embeddings: true\n"), Mistakes{"8:27 model.impossible"});
  EXPECT_EQ(MistakesIn(std::string(kTiny) + "num_nextn_predict_layers: 9\n"),
            Mistakes{"8:27 input.out-of-range"});
}

TEST(ModelFileTest, MistakesOfExperts) {
  const std::string tiny = kTiny;
  EXPECT_EQ(MistakesIn(tiny + "num_experts: 4\n"), Mistakes{"1:1 input.missing-key"});
  EXPECT_EQ(MistakesIn(tiny + "num_experts: 4\nnum_experts_per_tok: 5\nn_group: 3\n"),
            Mistakes{"9:22 model.impossible"});
  EXPECT_EQ(MistakesIn(tiny + "num_experts: 4\nnum_experts_per_tok: 2\nscoring_func: tanh\n"
                              "decoder_sparse_step: 0\n"),
            (Mistakes{"11:22 input.out-of-range", "10:15 input.unknown-word"}));
  EXPECT_EQ(MistakesIn(tiny + "num_experts_per_tok: 2\nn_group: 3\n"),
            (Mistakes{"8:22 model.impossible", "9:10 model.impossible"}));
  EXPECT_EQ(MistakesIn("kind: transformer\nfamily: mixtral\nhidden_size: 64\n"
                       "num_hidden_layers: 2\nnum_attention_heads: 4\nintermediate_size: 128\n"
                       "vocab_size: 100\n"),
            Mistakes{"1:1 model.impossible"});
}

TEST(ModelFileTest, TheStatedCountIsChecked) {
  EXPECT_EQ(MistakesIn(std::string(kTiny) + "parameters: 95041\n"),
            Mistakes{"8:13 model.parameter-count"});
  EXPECT_TRUE(Parse(std::string(kTiny) + "parameters: 95040\n").has_value());
}

TEST(ModelFileTest, EveryMistakeOfATransformer) {
  EXPECT_EQ(
      MistakesIn("kind: transformer\n"
                 "family: lama\n"
                 "hidden_size: 0\n"
                 "num_hidden_layers: two\n"
                 "num_attention_heads: 4\n"
                 "intermediate_size: -128\n"
                 "colour: red\n"),
      (Mistakes{"2:9 input.unknown-word", "3:14 input.out-of-range", "4:20 input.not-an-integer",
                "6:20 input.out-of-range", "1:1 input.missing-key", "7:1 input.unknown-key"}));
}

TEST(ModelFileTest, AFamilyOfOtherLayersIsToldByName) {
  const auto hint = [](const std::string& family) {
    const auto model = Parse("kind: transformer\nfamily: " + family + "\n");
    return model.has_value() ? std::string() : model.error().front().hint;
  };
  EXPECT_EQ(hint("grok"),
            "grok has mixtures of experts whose gates are GELU, but stepcast does not model this "
            "feature");
  EXPECT_EQ(hint("mistrall"), "did you mean 'mistral'?");
}

// Incomplete data is a mistake of the installation, which the message says.
TEST(ModelFileTest, DataWithoutFamiliesIsNamed) {
  ::setenv("STEPCAST_DATA", testing::TempDir().c_str(), 1);
  const auto model = Parse(kTiny);
  ::unsetenv("STEPCAST_DATA");
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().front().code, "file.not-found");
  EXPECT_EQ(model.error().front().hint,
            "set STEPCAST_DATA to a folder that contains models/families");
}

TEST(ModelFileTest, ImpossibleDimensionsPointAtTheirKey) {
  EXPECT_EQ(MistakesIn(std::string(kTiny) + "num_key_value_heads: 3\nposition: learned\n"
                                            "max_position_embeddings: 8\n"),
            (Mistakes{"8:22 model.impossible", "9:11 model.impossible"}));
}

TEST(ModelFileTest, LearnedPositionsNeedALength) {
  EXPECT_EQ(MistakesIn("kind: transformer\nfamily: gpt2\nhidden_size: 64\nnum_hidden_layers: 2\n"
                       "num_attention_heads: 4\nintermediate_size: 128\nvocab_size: 100\n"),
            Mistakes{"1:1 input.missing-key"});
}

TEST(ModelFileTest, AKindIsNeeded) {
  EXPECT_EQ(MistakesIn("layers: []\n"), Mistakes{"1:1 input.missing-key"});
  EXPECT_EQ(MistakesIn("kind: layer\nlayers: []\n"), Mistakes{"1:7 input.unknown-word"});
  EXPECT_EQ(MistakesIn("- kind: layers\n"), Mistakes{"1:1 input.wrong-kind"});
}

TEST(ModelFileTest, ReadsALayerList) {
  const Result<model::Model> model = Parse(
      "kind: layers\n"
      "layers:\n"
      "  - {name: stem, parameters: [], forward: 0 ms, backward: 1.5us}\n"
      "  - {name: block, repeat: 24, parameters: [524288, 7], forward: 10 ms, backward: 20 ms,\n"
      "     activation: 3 MiB}\n"
      "optimizer_step: 0 ms\n");
  ASSERT_TRUE(model.has_value()) << Format(model.error());
  EXPECT_EQ(model->layers.size(), 25U);
  EXPECT_EQ(model->parameter_count(), 24 * 524295);
  EXPECT_EQ(model->layers[24].name, "block.23");
  const auto& list = std::get<model::LayerList>(model->source);
  EXPECT_EQ(list.layers[0].backward, Nanoseconds(1500));
  EXPECT_EQ(list.layers[1].activation, MiB(3));
  EXPECT_EQ(list.optimizer_step, Time());
}

TEST(ModelFileTest, EveryMistakeOfALayerList) {
  EXPECT_EQ(
      MistakesIn("kind: layers\n"
                 "layers:\n"
                 "  - {name: a, repeat: 0, parameters: [1, 0, x], forward: 10, backward: 2 ms}\n"
                 "  - {name: b, repeat: -3, parameters: 5, forward: 1 ms, backwards: 2 ms}\n"
                 "optimizer_step: 3\n"),
      (Mistakes{"3:23 input.out-of-range", "3:42 input.out-of-range", "3:45 input.not-an-integer",
                "3:58 input.bad-quantity", "4:23 input.out-of-range", "4:39 input.wrong-kind",
                "4:5 input.missing-key", "4:57 input.unknown-key", "5:17 input.bad-quantity"}));
}

TEST(ModelFileTest, EmptyListsAreMistakes) {
  EXPECT_EQ(MistakesIn("kind: layers\nlayers: []\n"), Mistakes{"2:9 input.no-value"});
  EXPECT_EQ(MistakesIn("kind: layers\n"), Mistakes{"1:1 input.missing-key"});
  EXPECT_EQ(MistakesIn("kind: layers\nlayers:\n"
                       "  - {name: a, parameters: [], forward: 1 ms, backward: 1 ms}\n"),
            Mistakes{"3:3 model.no-parameters"});
}

TEST(ModelFileTest, ListsBeyondCountingAreMistakes) {
  const auto list = [](const std::string& rest) {
    return "kind: layers\nlayers: [{name: a, " + rest + "}]\n";
  };
  EXPECT_EQ(MistakesIn(list("repeat: 100000, parameters: [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], "
                            "forward: 1 ms, backward: 1 ms")),
            Mistakes{"2:9 model.too-large"});
  EXPECT_EQ(MistakesIn(list("repeat: 2, parameters: [1000000000000000], forward: 1 ms, "
                            "backward: 1 ms")),
            Mistakes{"2:9 model.too-large"});
  EXPECT_EQ(MistakesIn(list("repeat: 1000, parameters: [1], forward: 1 s, backward: 1 ms, "
                            "activation: 100 TiB")),
            (Mistakes{"2:9 model.too-large", "2:9 model.too-large"}));
}

}  // namespace
}  // namespace stepcast::scenario
