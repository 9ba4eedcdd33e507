#include "src/study/plan_base.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/scenario/key_values.h"
#include "src/scenario/load.h"
#include "src/scenario/variants.h"

namespace stepcast::study {
namespace {

// What stands in for settings that a scenario must have and a question need not. The framework says
// which plan is looked at first; the search tries the others, too.
constexpr std::pair<const char*, const char*> kAssumed[] = {
    {"training.micro_batch_size", "1"},
    {"training.precision", "bf16"},
    {"training.optimizer", "adamw"},
    {"data_parallel.framework", "megatron"},
    {"data_parallel.zero_stage", "1"}};

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
        if (Has(key)) continue;
        base_.assumed.push_back(fmt::format("{}={}", key, value));
        base_.set.push_back(base_.assumed.back());
      }
      if (!base_.assumed.empty()) loaded = scenario::Load(path_, base_.set, cache_);
    }
    if (!loaded) {
      Diagnostics faults = std::move(loaded.error());
      if (!LeaveOutWhatRulesRefuse()) return tl::unexpected(std::move(faults));
      loaded = scenario::Load(path_, base_.set, cache_);
      if (!loaded) return tl::unexpected(std::move(faults));
    }
    base_.scenario = *std::move(loaded);
    return std::move(base_);
  }

 private:
  bool Has(const std::string& key) const {
    return scenario::WrittenValue(key, path_, base_.set, cache_).has_value();
  }

  // First the settings that break a rule get their defaults, one after the other; if that does not
  // help, all settings of how ranks share out the work. False: no rule is broken, or no legal
  // scenario is found so.
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
    return false;
  }

  // Settings of the job itself are not the search's to choose.
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

}  // namespace stepcast::study
