#include "src/study/plan_base.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/planner/search_table.h"
#include "src/scenario/key_values.h"
#include "src/scenario/load.h"

namespace stepcast::study {
namespace {

constexpr const char* kMicroBatch = "training.micro_batch_size";

// Defaults of required settings that a question may leave out. The precision is the first that the
// GPU has. The framework determines the first plan; the search tries others too.
constexpr const char* kOptimizer = "training.optimizer";
constexpr const char* kPrecision = "training.precision";
constexpr const char* kAssumedPrecisions[] = {"bf16", "fp16", "fp32"};

// The framework and ZeRO's stage, likewise: the first that can train the model. A framework takes
// the first stage that it has.
constexpr const char* kFramework = "data_parallel.framework";
constexpr const char* kStage = "data_parallel.zero_stage";
constexpr const char* kAssumedFrameworks[] = {"megatron", "fsdp2", "ddp"};
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
      if (!Has(kMicroBatch)) Assume(kMicroBatch, "1");
      if (!Has(kPrecision)) AssumePrecision();
      if (!Has(kOptimizer)) Assume(kOptimizer, "adamw");
      if (!Has(kFramework)) {
        AssumeFramework(loaded);
      } else if (!Has(kStage)) {
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

  void AssumePrecision() {
    const PlanBase without = base_;
    for (const char* precision : kAssumedPrecisions) {
      base_ = without;
      Assume(kPrecision, precision);
      const auto loaded = scenario::Load(path_, base_.set, cache_);
      const bool refused =
          !loaded &&
          std::any_of(loaded.error().begin(), loaded.error().end(), [](const Diagnostic& fault) {
            return fault.code == "plan.precision-not-of-device";
          });
      if (!refused) return;
    }
  }

  // The first framework with which the scenario is legal; if there is none, the framework with the
  // fewest mistakes.
  void AssumeFramework(Result<scenario::Scenario>& loaded) {
    const PlanBase without = base_;
    std::optional<PlanBase> best;
    std::optional<Diagnostics> fewest;
    for (const char* framework : kAssumedFrameworks) {
      base_ = without;
      Assume(kFramework, framework);
      if (Has(kStage)) {
        loaded = scenario::Load(path_, base_.set, cache_);
      } else {
        AssumeStage(loaded);
      }
      if (loaded) return;
      if (best && loaded.error().size() >= fewest->size()) continue;
      best = base_;
      fewest = loaded.error();
    }
    base_ = *std::move(best);
    loaded = tl::unexpected(*std::move(fewest));
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
    std::vector<std::string> more = BatchAsWritten();
    if (TryLargerMicroBatches(variants, more)) return true;
    constexpr int kMostSettings = 16;
    for (int left = kMostSettings; left > 0; --left) {
      const scenario::Variants::Tried tried = variants.Try(more);
      if (tried.scenario != nullptr) return Take(more);
      if (tried.broken == nullptr) return false;
      const plan::Violation& broken = tried.broken->front();
      if (base_.refused.empty()) base_.refused.push_back(broken.message);
      std::string option = broken.key + (broken.key == kMicroBatch ? "=1" : "=null");
      if (!IsChoice(broken.key) || !Has(broken.key) || Contains(more, option)) break;
      more.push_back(std::move(option));
    }
    for (const char* bare : {"parallelism=null", "training.micro_batch_size=1", "experts=null"}) {
      more.emplace_back(bare);
      if (variants.Try(more).scenario != nullptr) return Take(more);
    }
    if (!IsBroken(variants.Try(more), "plan.batch")) return false;
    if (TryFewerDataRanks(variants, more)) return true;
    const bool assumed =
        std::any_of(base_.assumed.begin(), base_.assumed.end(),
                    [](const std::string& setting) { return setting.starts_with(kFramework); });
    if (!assumed) return false;
    // Its stages may have different numbers of blocks.
    more.emplace_back("data_parallel={framework: fsdp2, zero_stage: 3}");
    return TryFewerDataRanks(variants, more);
  }

  static bool IsBroken(const scenario::Variants::Tried& tried, std::string_view code) {
    return tried.broken != nullptr && tried.broken->front().code == code;
  }

  // Takes the smallest legal micro-batch, if the step has too many micro-batches of one sequence.
  bool TryLargerMicroBatches(scenario::Variants& variants, std::vector<std::string> more) {
    constexpr std::int64_t kMost = 1 << 16;
    for (std::int64_t size = 1; size <= kMost; size *= 2) {
      if (size > 1) more.push_back(fmt::format("{}={}", kMicroBatch, size));
      const scenario::Variants::Tried tried = variants.Try(more);
      if (tried.scenario != nullptr) return Take(more);
      const bool indivisible = size > 1 && IsBroken(tried, "plan.batch");
      if (!indivisible && !IsBroken(tried, "plan.too-many-micro-batches")) return false;
    }
    return false;
  }

  // Takes the first legal layout with fewer data-parallel ranks, if the global batch is not
  // divisible by the number of devices. Returns false if there is none.
  bool TryFewerDataRanks(scenario::Variants& variants, std::vector<std::string> more) {
    constexpr int kMostRanks = 64, kMostTensor = 8;  // of a replica
    for (int ranks = 2; ranks <= kMostRanks; ++ranks) {
      for (int context = 1; context <= ranks; ++context) {
        if (ranks % context != 0) continue;
        for (int tensor = 1; tensor <= std::min(kMostTensor, ranks / context); ++tensor) {
          if (ranks / context % tensor != 0) continue;
          const int pipeline = ranks / context / tensor;
          // Embedding and head may count as blocks, so that stages are equal.
          for (const char* ends : {"",
                                   ", account_for_embedding_in_pipeline_split: true, "
                                   "account_for_loss_in_pipeline_split: true"}) {
            if (*ends != 0 && pipeline == 1) continue;
            more.push_back(fmt::format("parallelism={{tensor: {}, context: {}, pipeline: {}{}}}",
                                       tensor, context, pipeline, ends));
            if (variants.Try(more).scenario != nullptr) return Take(more);
            more.pop_back();
          }
        }
      }
    }
    return false;
  }

  // The global batch that the written plan has, if the file gives it by micro-batches of a number
  // of data-parallel ranks. Other plans keep it.
  std::vector<std::string> BatchAsWritten() const {
    if (Has("training.global_batch_size")) return {};
    std::int64_t batch = 1;
    for (const char* key : {kMicroBatch, "training.gradient_accumulation", "parallelism.data"}) {
      const auto written = scenario::WrittenValue(key, path_, base_.set, cache_);
      const std::int64_t number = written ? std::atoll(written->c_str()) : 0;
      if (number < 1) return {};
      batch *= number;
    }
    return {"training.gradient_accumulation=null",
            fmt::format("training.global_batch_size={}", batch)};
  }

  // Whether the search chooses the setting; settings of the job itself are fixed.
  static bool IsChoice(std::string_view key) {
    const std::span<const planner::SearchRow> rows = planner::SearchTable();
    const bool searched = std::any_of(
        rows.begin(), rows.end(), [key](const planner::SearchRow& row) { return row.key == key; });
    return searched || key.starts_with("parallelism.") || key.starts_with("experts.") ||
           (key.starts_with("data_parallel.") && key != "data_parallel.framework" &&
            key != "data_parallel.zero_stage");
  }

  static bool Contains(const std::vector<std::string>& options, const std::string& option) {
    return std::find(options.begin(), options.end(), option) != options.end();
  }

  bool Take(const std::vector<std::string>& more) {
    for (const std::string& option : more) {
      const std::string key = option.substr(0, option.find('=') + 1);
      for (std::string& assumed : base_.assumed) {
        if (assumed.starts_with(key) && !option.ends_with("=null")) assumed = option;
      }
    }
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
    const scenario::Variants::Tried tried = variants.Try(
        {"parallelism=null",
         fmt::format("data_parallel={{framework: {}, zero_stage: {}}}", plan::Name(of), stage)});
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
