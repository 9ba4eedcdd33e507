// A plan emitted for another program is read back as the same plan: Import(Emit(plan)) == plan, for
// random plans. STEPCAST_SCENARIOS is their number (default 200, or 1000 with
// STEPCAST_SAMPLES=all). Settings that a program's file cannot express are listed here.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/diagnostic.h"
#include "src/emit/trainers.h"
#include "src/foreign/import.h"
#include "src/model/architecture.h"
#include "src/scenario/load.h"
#include "src/scenario/resolved.h"
#include "src/scenario/resolved_scenario.h"
#include "tests/property/any_plan.h"
#include "tests/samples/samples.h"

namespace stepcast {
namespace {

using scenario::Resolved;
using scenario::Scenario;

using Leaves = std::map<std::string, std::string>;

void Collect(const Resolved& tree, const std::string& path, Leaves& leaves) {
  if (const auto* mapping = std::get_if<Resolved::Mapping>(&tree.value)) {
    for (const auto& [key, value] : *mapping) {
      Collect(value, path.empty() ? key : path + "." + key, leaves);
    }
    return;
  }
  leaves[path] = scenario::ToJson(tree);
}

// Adds the properties of a model that affect a step.
void AddModel(const model::Architecture& model, Leaves& settings) {
  const auto add = [&settings](const char* key, auto value) {
    settings[key] = fmt::format("{}", value);
  };
  add("model.layers", model.layers);
  add("model.hidden", model.hidden);
  add("model.heads", model.heads);
  add("model.kv_heads", model.kv_heads);
  add("model.head_size", model.head_size);
  add("model.feed_forward", model.feed_forward);
  add("model.normalization", static_cast<int>(model.normalization));
  add("model.activator", static_cast<int>(model.activator));
  add("model.position", static_cast<int>(model.position));
  add("model.tie_embeddings", model.tie_embeddings);
  add("model.qk_norm", model.qk_norm);
  add("model.attention_bias", model.attention_bias);
  add("model.feed_forward_bias", model.feed_forward_bias);
  add("model.dropout", model.dropout);
  add("model.attention_dropout", model.attention_dropout);
  add("model.attention_window", model.attention_window);
  add("model.full_attention_every", model.full_attention_every);
  add("model.latent.kv_rank", model.latent.kv_rank);
  add("model.latent.query_rank", model.latent.query_rank);
  add("model.latent.plain_head", model.latent.plain_head);
  add("model.latent.rotary_head", model.latent.rotary_head);
  add("model.latent.value_head", model.latent.value_head);
  add("model.experts.count", model.experts.count);
  add("model.experts.per_token", model.experts.per_token);
  add("model.experts.feed_forward", model.experts.feed_forward);
  add("model.experts.shared_feed_forward", model.experts.shared_feed_forward);
  add("model.experts.leading_dense", model.experts.leading_dense);
  add("model.experts.every", model.experts.every);
  add("model.experts.scores", static_cast<int>(model.experts.scores));
  add("model.experts.groups", model.experts.groups);
  add("model.experts.groups_per_token", model.experts.groups_per_token);
  add("model.experts.balancing_bias", model.experts.balancing_bias);
  add("model.further_tokens", model.further_tokens);
}

// The settings of a plan with all defaults.
Leaves SettingsOf(const Scenario& scenario) {
  Leaves all, settings;
  Collect(scenario.resolved, "", all);
  for (const auto& [key, value] : all) {
    for (const char* section : {"training.", "parallelism.", "experts.", "data_parallel."}) {
      if (key.starts_with(section)) settings[key] = value;
    }
  }
  const auto* model = std::get_if<model::Architecture>(&scenario.model->source);
  if (model != nullptr) AddModel(*model, settings);
  return settings;
}

// Settings that all programs' files leave to the model's code and the training loop.
constexpr std::string_view kOfTheCode[] = {
    "training.norm",
    "training.rotary",
    "training.activation_function",
    "training.repeat_kv",
    "training.loss",
    "training.loss_chunk",
    "training.dispatch",
    "training.host_waits",
    "training.data_loading",
    "training.checkpoint_saving",
    "training.step_barrier",
    "training.masked_tokens",
    "training.document_length",
    "training.lengths",
};

struct Program {
  const char* name;
  const char* file;
  const char* framework;                   // framework of the plans that it can run
  std::vector<std::string> more_settings;  // settings that make a plan more likely to be supported
  std::vector<std::string_view> cannot_say;
  std::vector<const char*> numbers;  // options whose number, if doubled, changes the plan
};

const Program kPrograms[] = {
    {"torchtitan",
     "torchtitan.toml",
     "fsdp2",
     {"model=llama3.1-8b", "training.parameter_dtype=fp32", "training.reduce_dtype=fp32",
      "training.gradient_clipping=1", "training.optimizer=adamw", "data_parallel.prefetch=1"},
     // The PyTorch release determines its attention. Stage 2 is the same as stage 3 without
     // resharding.
     {"training.attention", "training.deterministic", "data_parallel.zero_stage"},
     {"seq_len = ", "global_batch_size = ", "max_norm = "}},
    {"Megatron-LM",
     "megatron.args",
     "megatron",
     {},
     {"experts.imbalance"},  // depends on the tokens
     {"--seq-length ", "--global-batch-size ", "--micro-batch-size ",
      "--tensor-model-parallel-size ", "--context-parallel-size "}},
    {"DeepSpeed",
     "ds_config.json",
     "deepspeed",
     {},
     {},
     {"\"train_micro_batch_size_per_gpu\": ", "\"gradient_accumulation_steps\": ",
      "\"reduce_bucket_size\": "}},
};

bool Among(std::string_view key, const auto& keys) {
  return std::any_of(std::begin(keys), std::end(keys), [key](std::string_view above) {
    return key.starts_with(above) && (key.size() == above.size() || key[above.size()] == '.');
  });
}

emit::Target EmittedBy(const Program& program, const Scenario& scenario) {
  const std::string_view name = program.name;
  const model::NumericalConstants constants;
  if (name == "DeepSpeed") return emit::DeepSpeedConfig(scenario);
  if (name == "Megatron-LM") return emit::MegatronArguments(scenario, constants);
  model::NumericalConstants llama;
  llama.rotary_base = 500'000;
  return emit::TorchtitanConfig(scenario, llama);
}

// "dgx-h100" and 2 for "cluster: {topology: topologies/dgx-h100.yaml, nodes: 2}".
std::optional<std::pair<std::string, std::int64_t>> ClusterOf(const std::string& scenario) {
  static const std::regex kNodes(
      "cluster: \\{topology: topologies/([^.]*)\\.yaml, nodes: (\\d+)\\}");
  std::smatch match;
  if (!std::regex_search(scenario, match, kNodes)) return std::nullopt;
  return std::pair(match[1].str(), std::stoll(match[2]));
}

class RoundTrip {
 public:
  explicit RoundTrip(const Program& program)
      : program_(program), file_(std::string(::testing::TempDir()) + program.file) {}

  // Differences after reading back, a line each. With `changed`, one number of the file is doubled
  // before it is read.
  std::vector<std::string> DifferencesOf(const PlanText& plan, bool changed = false) {
    std::vector<std::string> settings = plan.settings;
    settings.insert(settings.end(), program_.more_settings.begin(), program_.more_settings.end());
    const auto cluster = ClusterOf(plan.scenario);
    const std::string needed = fmt::format("framework: {},", program_.framework);
    if (!cluster || plan.scenario.find(needed) == std::string::npos) return {};
    const auto scenario = scenario::LoadText(plan.scenario, "plan.yaml", settings, cache_);
    if (!scenario) return {};
    const emit::Target emitted = EmittedBy(program_, *scenario);
    if (!emitted) return {};
    ++tried;
    std::string text = *emitted;
    if (changed && !Double(text)) return {"nothing was there to change"};
    std::ofstream(file_) << text;
    const auto read = Read(*scenario, cluster->first, cluster->second, plan.scenario);
    if (!read) return {Format(read.error())};
    return Compare(*scenario, *read);
  }

  int tried = 0;

 private:
  // Doubles a number of one of the program's options, a different one each time.
  bool Double(std::string& text) const {
    const auto& numbers = program_.numbers;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::string option = numbers[(i + static_cast<std::size_t>(tried)) % numbers.size()];
      const std::size_t at = text.find(option);
      if (at == std::string::npos) continue;
      const std::size_t begin = at + option.size();
      const std::size_t end = text.find_first_not_of("0123456789", begin);
      if (end == begin) continue;
      text.replace(begin, end - begin,
                   std::to_string(2 * std::stoll(text.substr(begin, end - begin))));
      return true;
    }
    return false;
  }

  Result<Scenario> Read(const Scenario& scenario, const std::string& topology, std::int64_t nodes,
                        const std::string& text) {
    foreign::ImportRequest request{.files = {file_}, .cluster = topology, .nodes = nodes};
    if (program_.name == std::string_view("Megatron-LM")) {
      const auto& architecture = std::get<model::Architecture>(scenario.model->source);
      request.set.push_back(fmt::format("model.vocab_size={}", architecture.vocabulary));
    } else if (program_.name == std::string_view("DeepSpeed")) {
      const std::size_t begin = text.find("model: ") + 7;
      request.set.push_back("model=" + text.substr(begin, text.find("\ncluster:") - begin));
    }
    auto imported = foreign::Import(request);
    if (!imported) return tl::make_unexpected(imported.error());
    auto loaded = scenario::LoadText(imported->scenario.text, "imported.yaml", {}, cache_);
    if (!loaded) return tl::make_unexpected(loaded.error());
    return loaded;
  }

  std::vector<std::string> Compare(const Scenario& emitted, const Scenario& read) const {
    const Leaves before = SettingsOf(emitted), after = SettingsOf(read);
    std::vector<std::string> differences;
    const auto told = [&](const std::string& key, const std::string& was, const std::string& is) {
      // TF32 products are a switch of PyTorch, which launch.sh sets.
      const bool tf32 = key == "training.precision" && was == "\"tf32\"" && is == "\"fp32\"";
      // The installed package determines the FlashAttention release.
      const bool flash =
          key == "training.attention" && is == "\"flash\"" && was.starts_with("\"flash");
      // With one micro-batch, gradients are reduced once anyway.
      const auto steps = before.find("training.gradient_accumulation");
      const bool once = key == "data_parallel.accumulate_unsharded" && steps != before.end() &&
                        steps->second == "1";
      if (was == is || once || tf32 || flash || Among(key, kOfTheCode) ||
          Among(key, program_.cannot_say))
        return;
      differences.push_back(fmt::format("{} was {}, is {}", key, was, is));
    };
    for (const auto& [key, was] : before) {
      const auto is = after.find(key);
      told(key, was, is == after.end() ? "not there" : is->second);
    }
    for (const auto& [key, is] : after) {
      if (before.count(key) == 0) told(key, "not there", is);
    }
    return differences;
  }

  const Program& program_;
  const std::string file_;
  scenario::InputCache cache_;
};

int Scenarios() {
  const char* given = std::getenv("STEPCAST_SCENARIOS");
  return given == nullptr ? Samples(200, 1000) : std::atoi(given);
}

class ForeignRoundTrip : public ::testing::TestWithParam<Program> {};

TEST_P(ForeignRoundTrip, ImportOfWhatWasEmittedIsThePlan) {
  RoundTrip round_trip(GetParam());
  constexpr std::uint64_t kMostSeeds = 300;  // per plan; rules refuse most
  const int wanted = Scenarios();
  int failures = 0;
  for (std::uint64_t seed = 0; seed < kMostSeeds * wanted && round_trip.tried < wanted; ++seed) {
    const PlanText plan = PlanOf(seed);
    const auto differences = round_trip.DifferencesOf(plan);
    if (differences.empty()) continue;
    ADD_FAILURE() << "seed " << seed << ":\n"
                  << fmt::format("{}", fmt::join(differences, "\n")) << "\n"
                  << Said(plan);
    if (++failures >= 5) break;
  }
  EXPECT_EQ(round_trip.tried, wanted);
  RecordProperty("plans", round_trip.tried);
}

// A smaller number, since the other test covers a thousand plans.
TEST_P(ForeignRoundTrip, AChangedOptionIsAnotherPlan) {
  RoundTrip round_trip(GetParam());
  constexpr int kChanges = 50;
  for (std::uint64_t seed = 0; seed < 100'000 && round_trip.tried < kChanges; ++seed) {
    const int before = round_trip.tried;
    const PlanText plan = PlanOf(seed);
    const auto differences = round_trip.DifferencesOf(plan, true);
    if (round_trip.tried == before) continue;
    EXPECT_FALSE(differences.empty()) << "seed " << seed << "\n" << Said(plan);
  }
  EXPECT_GE(round_trip.tried, kChanges);
}

INSTANTIATE_TEST_SUITE_P(All, ForeignRoundTrip, ::testing::ValuesIn(kPrograms),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace stepcast
