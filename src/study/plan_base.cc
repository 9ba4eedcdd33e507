#include "src/study/plan_base.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/scenario/key_values.h"
#include "src/scenario/load.h"

namespace stepcast::study {
namespace {

// Defaults of required settings that a question may leave out. The framework determines the first
// plan; the search tries others too.
constexpr std::pair<const char*, const char*> kAssumed[] = {
    {"training.micro_batch_size", "1"},
    {"training.precision", "bf16"},
    {"training.optimizer", "adamw"},
    {"data_parallel.framework", "megatron"}};

// ZeRO's stage, likewise: the first that the framework has.
constexpr const char* kStage = "data_parallel.zero_stage";
constexpr const char* kAssumedStages[] = {"1", "3", "0"};

class BaseLoader {
 public:
  BaseLoader(const std::string& scenario, const std::vector<std::string>& set,
             scenario::InputCache& cache)
      : path_(scenario), cache_(cache) {
    base_.set = set;
  }

  Result<PlanBase> Run() {
    auto loaded = scenario::Load(path_, base_.set, cache_);
    if (!loaded) {
      for (const auto& [key, value] : kAssumed) {
        if (!Has(key)) Assume(key, value);
      }
      if (!Has(kStage)) {
        AssumeStage(loaded);
      } else if (!base_.assumed.empty()) {
        loaded = scenario::Load(path_, base_.set, cache_);
      }
    }
    if (!loaded) {
      Diagnostics faults = std::move(loaded.error());
      // Without a plan of its own, nothing is refused.
      const bool has_plan = base_.assumed.empty();
      if (!LeaveOutWhatRulesRefuse()) return tl::unexpected(std::move(faults));
      loaded = scenario::Load(path_, base_.set, cache_);
      if (!loaded) return tl::unexpected(std::move(faults));
      if (!has_plan) base_.refused.clear();
    }
    base_.scenario = *std::move(loaded);
    return std::move(base_);
  }

 private:
  void Assume(const std::string& key, const std::string& value) {
    base_.assumed.push_back(fmt::format("{}={}", key, value));
    base_.set.push_back(base_.assumed.back());
  }

  void AssumeStage(Result<scenario::Scenario>& loaded) {
    const PlanBase without = base_;
    for (const char* stage : kAssumedStages) {
      base_ = without;
      Assume(kStage, stage);
      loaded = scenario::Load(path_, base_.set, cache_);
      if (loaded || loaded.error().front().code != "plan.stage-not-of-framework") return;
    }
  }

  bool Has(const std::string& key) const {
    return scenario::WrittenValue(key, path_, base_.set, cache_).has_value();
  }

  // Resets settings that break a rule to their defaults, one by one; if that does not suffice,
  // resets all settings of the division of work. Returns false if no rule is broken, or if no legal
  // scenario is found.
  bool LeaveOutWhatRulesRefuse() {
    scenario::Variants variants(path_, base_.set, cache_);
    std::vector<std::string> more;
    constexpr int kMostSettings = 16;
    for (int left = kMostSettings; left > 0; --left) {
      const scenario::Variants::Tried tried = variants.Try(more);
      if (tried.scenario != nullptr) return Take(more);
      if (tried.broken == nullptr) return false;
      const plan::Violation& broken = tried.broken->front();
      if (base_.refused.empty()) base_.refused.push_back(broken.message);
      std::string option = broken.key + "=null";
      if (!IsChoice(broken.key) || !Has(broken.key) || Contains(more, option)) break;
      more.push_back(std::move(option));
    }
    for (const char* bare : {"parallelism=null", "training.micro_batch_size=1", "experts=null"}) {
      more.emplace_back(bare);
      if (variants.Try(more).scenario != nullptr) return Take(more);
    }
    // Limits for fewer data-parallel ranks, if the global batch is not divisible by the number of
    // devices.
    constexpr int kMostTensor = 8, kMostPipeline = 64;
    for (int pipeline = 1; pipeline <= kMostPipeline; pipeline *= 2) {
      for (int tensor = 1; tensor <= kMostTensor; tensor *= 2) {
        more.push_back(fmt::format("parallelism={{tensor: {}, pipeline: {}}}", tensor, pipeline));
        if (variants.Try(more).scenario != nullptr) return Take(more);
        more.pop_back();
      }
    }
    return false;
  }

  // Whether the search chooses the setting; settings of the job itself are fixed.
  static bool IsChoice(std::string_view key) {
    return key.starts_with("parallelism.") || key.starts_with("experts.") ||
           (key.starts_with("data_parallel.") && key != "data_parallel.framework" &&
            key != "data_parallel.zero_stage");
  }

  static bool Contains(const std::vector<std::string>& options, const std::string& option) {
    return std::find(options.begin(), options.end(), option) != options.end();
  }

  bool Take(const std::vector<std::string>& more) {
    base_.set.insert(base_.set.end(), more.begin(), more.end());
    return true;
  }

  const std::string& path_;
  scenario::InputCache& cache_;
  PlanBase base_;
};

}  // namespace

Result<PlanBase> LoadPlanBase(const std::string& scenario, const std::vector<std::string>& set,
                              scenario::InputCache& cache) {
  return BaseLoader(scenario, set, cache).Run();
}

std::vector<std::string> RefusedBy(plan::Framework framework, int zero_stage,
                                   const scenario::Scenario& base, scenario::Variants& variants) {
  const auto refused = [&](plan::Framework of, int stage) {
    std::vector<std::string> keys;
    const scenario::Variants::Tried tried =
        variants.Try({"parallelism=null", fmt::format("data_parallel={{framework: {}, zero_stage: {}}}",
                                                      plan::Name(of), stage)});
    if (tried.broken == nullptr) return keys;
    for (const plan::Violation& broken : *tried.broken) keys.push_back(broken.key);
    return keys;
  };
  std::vector<std::string> keys = refused(framework, zero_stage);
  if (keys.empty()) return keys;
  const plan::DataParallel& own = base.plan.data_parallel;
  const std::vector<std::string> anyway = refused(own.framework, own.zero_stage);
  std::erase_if(keys, [&](const std::string& key) {
    return std::find(anyway.begin(), anyway.end(), key) != anyway.end();
  });
  return keys;
}

}  // namespace stepcast::study
