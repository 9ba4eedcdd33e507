#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/forecast/forecast.h"
#include "src/forecast/warnings.h"
#include "src/plan/settings.h"
#include "src/report/answers.h"
#include "src/scenario/load.h"
#include "src/scenario/resolved_scenario.h"
#include "tests/property/any_plan.h"
#include "tests/property/each_setting.h"
#include "tests/samples/samples.h"

namespace stepcast {
namespace {

// A framework's plan in two sizes: an effect hidden by the host in one may show in the other.
struct Plan {
  std::string name;
  std::vector<std::string> sizes;
};

// The host bounds the steps of the small models, and the device those of the large ones. Sizes are
// not powers of two, since there would be no padding.
constexpr const char* kSmall =
    "{kind: transformer, family: llama, num_hidden_layers: 8, hidden_size: 248, "
    "num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 512, vocab_size: 1001}";
constexpr const char* kLarge =
    "{kind: transformer, family: llama, num_hidden_layers: 8, hidden_size: 4088, "
    "num_attention_heads: 28, num_key_value_heads: 14, intermediate_size: 14336, vocab_size: "
    "32001}";
constexpr const char* kSmallMixture =
    "{kind: transformer, family: deepseek, num_hidden_layers: 6, hidden_size: 64, "
    "num_attention_heads: 4, intermediate_size: 128, num_experts: 8, num_experts_per_tok: 2, "
    "moe_intermediate_size: 32, shared_expert_intermediate_size: 32, first_k_dense_replace: 1, "
    "kv_lora_rank: 32, qk_nope_head_dim: 16, qk_rope_head_dim: 8, v_head_dim: 16, vocab_size: "
    "1001}";
constexpr const char* kLargeMixture =
    "{kind: transformer, family: deepseek, num_hidden_layers: 6, hidden_size: 2048, "
    "num_attention_heads: 16, intermediate_size: 8192, num_experts: 32, num_experts_per_tok: 4, "
    "moe_intermediate_size: 1024, shared_expert_intermediate_size: 1024, first_k_dense_replace: 1, "
    "kv_lora_rank: 512, qk_nope_head_dim: 128, qk_rope_head_dim: 64, v_head_dim: 128, vocab_size: "
    "32001}";

Plan PlanOfSizes(const char* name, const char* framework, int stage, const char* axes,
                 bool mixture = false, const char* nodes = "dgx-h100") {
  const auto text = [&](const char* model, int tokens) {
    return fmt::format(
        "stepcast: 1\nmodel: {}\ncluster: {{topology: topologies/{}.yaml, nodes: 2}}\n"
        "training: {{sequence_length: {}, micro_batch_size: 2, gradient_accumulation: 4, "
        "precision: bf16, optimizer: adamw}}\nparallelism: {}\n"
        "data_parallel: {{framework: {}, zero_stage: {}}}\n",
        model, nodes, tokens, axes, framework, stage);
  };
  return {
      name,
      {text(mixture ? kSmallMixture : kSmall, 32), text(mixture ? kLargeMixture : kLarge, 2048)}};
}

std::vector<Plan> Plans() {
  return {PlanOfSizes("reference", "reference", 0, "{}"),
          PlanOfSizes("ddp", "ddp", 0, "{}"),
          PlanOfSizes("fsdp1", "fsdp1", 3, "{}", false, "a100-4x200g"),
          PlanOfSizes("fsdp2", "fsdp2", 3, "{}"),
          PlanOfSizes("deepspeed", "deepspeed", 3, "{}"),
          PlanOfSizes("megatron", "megatron", 1, "{tensor: 2}"),
          PlanOfSizes("nanotron", "nanotron", 1, "{}"),
          PlanOfSizes("mixture", "megatron", 1, "{expert: 4}", true),
          PlanOfSizes("pipeline", "megatron", 1, "{pipeline: 2}")};
}

template <typename Given, typename Kept>
std::optional<bool> Is(const plan::Setting<Given, Kept>* setting, const Kept& kept,
                       const std::string& value) {
  if (setting == nullptr) return std::nullopt;
  if (const auto* type = std::get_if<plan::SwitchSetting<Given, Kept>>(&setting->type)) {
    return kept.*type->kept == (value == "true");
  }
  if (const auto* type = std::get_if<plan::CountSetting<Given, Kept>>(&setting->type)) {
    return std::to_string(kept.*type->kept) == value;
  }
  if (const auto* type = std::get_if<plan::WordSetting<Given, Kept>>(&setting->type)) {
    return type->name(kept) == value;
  }
  return std::nullopt;
}

// Whether the value equals the plan's present one; nothing if the tables do not say.
std::optional<bool> IsOf(const plan::Plan& plan, const std::string& key, const std::string& value) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) return std::nullopt;
  const std::string section = key.substr(0, dot), last = key.substr(dot + 1);
  if (section == "training") {
    return Is(plan::FindSetting(plan::TrainingSettings(), last), plan.training, value);
  }
  if (section == "parallelism") {
    return Is(plan::FindSetting(plan::ParallelismSettings(), last), plan.parallelism, value);
  }
  if (section == "experts") {
    return Is(plan::FindSetting(plan::MixtureSettings(), last), plan.mixture, value);
  }
  if (section == "data_parallel") {
    return Is(plan::FindSetting(plan::DataParallelSettings(), last), plan.data_parallel, value);
  }
  return std::nullopt;
}

struct Answer {
  plan::Plan plan;
  bool refused = false;
  std::string bytes, resolved;
  std::vector<std::string> said;
};

class Asking {
 public:
  Answer Ask(const std::string& text, const std::vector<std::string>& settings) {
    auto scenario = scenario::LoadText(text, "plan.yaml", settings, cache_);
    Answer answer;
    const auto refuse = [&](const Diagnostics& diagnostics) {
      answer.refused = true;
      for (const auto& d : diagnostics)
        answer.said.push_back(d.location.file + " " + d.message + " " + d.hint);
    };
    if (!scenario) {
      refuse(scenario.error());
      return answer;
    }
    const auto forecast = forecast::FiguresOf(*scenario);
    if (!forecast) {
      refuse(forecast.error());
      return answer;
    }
    forecast::WarnOfCommunicationSettings(*scenario);
    answer.said = scenario->warnings;
    answer.plan = scenario->plan;
    // Titles contain the settings and so differ.
    auto& keys = std::get<scenario::Resolved::Mapping>(scenario->resolved.value);
    std::erase_if(keys, [](const auto& entry) { return entry.first == "name"; });
    answer.resolved = scenario::ToJson(scenario->resolved);
    scenario->name = "";
    scenario->resolved = {};
    scenario->warnings = {};
    scenario->plan.software = {};
    scenario->torch_assumed = scenario->nccl_assumed = scenario->attention_assumed = false;
    answer.bytes = report::SimulateJson(*scenario, *forecast, 0);
    return answer;
  }

 private:
  scenario::InputCache cache_;
};

bool Names(const std::vector<std::string>& said, const std::string& key) {
  std::string last = key.substr(key.rfind('.') + 1);
  for (const std::string& sentence : said) {
    if (sentence.find(last) != std::string::npos) return true;
  }
  if (std::count(key.begin(), key.end(), '.') > 1)
    return Names(said, key.substr(0, key.rfind('.')));
  return false;
}

// The effect of a setting's value.
enum class Fate : std::uint8_t { kDefault, kRefused, kChanged, kNamed, kSilent };

class Trying {
 public:
  // Tries each setting separately on a plan; numbers may have no effect by chance.
  void TryAll(const Plan& plan) {
    for (const TriedSetting& setting : EachSetting()) {
      bool some = false;
      std::vector<std::string> silent;
      for (const std::string& value : setting.values) {
        std::optional<Fate> fate;
        for (const std::string& size : plan.sizes) {
          const Fate own = Try(plan.name, size, setting, value);
          if (!fate || *fate == Fate::kSilent) fate = own;
        }
        some = some || fate == Fate::kChanged;
        if (fate == Fate::kSilent) silent.push_back(value);
      }
      if (silent.empty() || (some && setting.quantity)) continue;
      if (setting.key == "cluster.network") continue;  // two ways to one answer
      ADD_FAILURE() << plan.name << ": " << setting.key << " changes nothing and says nothing: "
                    << fmt::format("{}", fmt::join(silent, ", "));
    }
  }

  // The same on a random plan, counting settings without effect. Returns false if the plan is
  // refused.
  bool TryOn(const std::string& name, const PlanText& plan) {
    if (asking_.Ask(plan.scenario, plan.settings).refused) return false;
    random_ = true;
    if (std::getenv("STEPCAST_PRINT") != nullptr) {
      std::printf("%s\n%s", name.c_str(), Said(plan).c_str());
    }
    for (const TriedSetting& setting : EachSetting()) {
      const bool given =
          std::any_of(plan.settings.begin(), plan.settings.end(), [&](const std::string& own) {
            return own.starts_with(setting.key + "=") ||
                   setting.key.starts_with(own.substr(0, own.find('=')));
          });
      if (given) continue;
      TriedSetting own = setting;
      own.beside.insert(own.beside.begin(), plan.settings.begin(), plan.settings.end());
      for (const std::string& value : setting.values) {
        if (Try(name, plan.scenario, own, value) != Fate::kSilent) continue;
        ++silent_[fmt::format("{}={}", setting.key, value)];
        if (std::getenv("STEPCAST_PRINT") != nullptr) {
          std::printf("%s: %s=%s\n", name.c_str(), setting.key.c_str(), value.c_str());
        }
      }
    }
    bases_.clear();
    return true;
  }

  void PrintSilent() const {
    int sum = 0;
    for (const auto& [setting, count] : silent_) sum += count;
    std::printf("%d values tried, %d silent\n", values_, sum);
    for (const auto& [setting, count] : silent_) std::printf("  %d %s\n", count, setting.c_str());
  }

  int values() const { return values_; }

 private:
  Fate Try(const std::string& plan, const std::string& text, const TriedSetting& setting,
           const std::string& value) {
    const Answer& base = BaseOf(text, setting.beside);
    if (base.refused) return Fate::kRefused;
    std::vector<std::string> settings = setting.beside;
    settings.push_back(fmt::format("{}={}", setting.key, value));
    SayWhenItEnds({.scenario = text, .settings = settings});
    const Answer answer = asking_.Ask(text, settings);
    ++values_;
    if (answer.refused) {
      // If other settings no longer divide the devices, those are named instead.
      EXPECT_TRUE(random_ || Names(answer.said, setting.key) || setting.key == "cluster.devices")
          << plan << ": " << settings.back() << ": " << answer.said.front();
      return Fate::kRefused;
    }
    const bool changed = answer.bytes != base.bytes;
    for (const std::string& sentence : answer.said) {
      const bool denies =
          sentence.find("no effect") != std::string::npos &&
          sentence.starts_with(setting.key + " ") &&
          std::find(base.said.begin(), base.said.end(), sentence) == base.said.end();
      EXPECT_FALSE(denies && changed) << plan << ": " << settings.back() << ": " << sentence;
    }
    if (IsOf(base.plan, setting.key, value).value_or(answer.resolved == base.resolved)) {
      return Fate::kDefault;
    }
    if (changed) return Fate::kChanged;
    return Names(answer.said, setting.key) ? Fate::kNamed : Fate::kSilent;
  }

  const Answer& BaseOf(const std::string& text, const std::vector<std::string>& beside) {
    std::string key = fmt::format("{}{}", text, fmt::join(beside, "\n"));
    const auto found = bases_.find(key);
    if (found != bases_.end()) return found->second;
    return bases_.emplace(std::move(key), asking_.Ask(text, beside)).first->second;
  }

  Asking asking_;
  std::map<std::string, Answer> bases_;
  std::map<std::string, int> silent_;
  int values_ = 0;
  bool random_ = false;
};

// Random plans of the frameworks in STEPCAST_FRAMEWORKS, or of all. Prints settings without effect
// or warning, which may be by chance: a bucket that holds everything, a stream that waits for
// nothing.
TEST(Settings, AreNotDeniedAnEffectInAnyPlan) {
  const std::uint64_t wanted = NumberFrom("STEPCAST_SCENARIOS", Samples<std::uint64_t>(3, 40));
  const char* const frameworks = std::getenv("STEPCAST_FRAMEWORKS");
  Trying trying;
  std::uint64_t plans = 0;
  for (std::uint64_t seed = NumberFrom("STEPCAST_SEED", 1); plans < wanted; ++seed) {
    const PlanText plan = PlanOf(seed);
    const std::string framework = plan.scenario.substr(plan.scenario.find("framework: ") + 11);
    const std::string name = framework.substr(0, framework.find(','));
    if (frameworks != nullptr && std::string_view(frameworks).find(name) == std::string::npos) {
      continue;
    }
    if (trying.TryOn(fmt::format("seed {} {}", seed, name), plan)) ++plans;
  }
  trying.PrintSilent();
}

TEST(Settings, NoneIsSilent) {
  Trying trying;
  for (const Plan& plan : Plans()) trying.TryAll(plan);
  std::printf("%d values\n", trying.values());
}

}  // namespace
}  // namespace stepcast
