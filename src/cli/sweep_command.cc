#include "src/cli/sweep_command.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "src/base/files_read.h"
#include "src/cli/asked_file.h"
#include "src/cli/kept_results.h"
#include "src/cli/page_subject.h"
#include "src/cli/run_facts.h"
#include "src/cli/spread.h"
#include "src/cli/stopwatch.h"
#include "src/cli/varied.h"
#include "src/cli/warnings.h"
#include "src/forecast/forecast.h"
#include "src/planner/evaluations.h"
#include "src/planner/per_thread.h"
#include "src/planner/result_store.h"
#include "src/planner/sweep.h"
#include "src/planner/sweep_grid.h"
#include "src/planner/worker_pool.h"
#include "src/report/sweep_page.h"
#include "src/report/sweep_report.h"
#include "src/scenario/load.h"
#include "src/scenario/variants.h"

namespace stepcast::cli {
namespace {

std::string OptionOf(const std::pair<std::string, std::string>& setting) {
  std::string option;
  option.reserve(setting.first.size() + 1 + setting.second.size());
  option.append(setting.first).push_back('=');
  return option.append(setting.second);
}

std::string OptionThatVaries(const std::pair<std::string, std::string>& setting) {
  return fmt::format("--vary {}={}", setting.first, setting.second);
}

// What varies is set as --set does it; a mistake in it is one of --vary.
Diagnostics WithVaried(Diagnostics faults, const planner::Settings& settings) {
  for (Diagnostic& fault : faults) {
    for (const auto& setting : settings) {
      if (fault.location.file == fmt::format("--set {}={}", setting.first, setting.second)) {
        fault.location.file = OptionThatVaries(setting);
      }
    }
  }
  return faults;
}

bool SameMessage(const Diagnostic& a, const Diagnostic& b) {
  return a.code == b.code && a.message == b.message;
}

// A plain number, or one with a unit of letters: nothing that names a file.
bool IsANumber(const std::string& value) {
  constexpr const char* kDigits = "0123456789";
  const std::size_t unit = value.find_first_not_of(kDigits);
  return unit != 0 &&
         (unit == std::string::npos || value.find_first_of("./{[\"'", unit) == std::string::npos);
}

class Run {
 public:
  explicit Run(const SweepOptions& options)
      : options_(options),
        varied_(options_.scenario, options_.set, cache_),
        workers_([this] { return std::make_unique<Worker>(options_, cache_); }) {}

  // Reads what all rows have in common. An outcome is the end.
  std::optional<Outcome> Prepare() {
    const FilesRead files;
    if (auto made = MakeGrid(); !made) return WrongInput(made.error());
    first_ = scenario::Load(options_.scenario, Overrides(grid_->Row(0)), cache_);
    ReadOtherFiles();
    files_ = files.digests();
    return std::nullopt;
  }

  // What the results depend on besides the settings of their rows.
  std::vector<planner::StoreFact> Facts() const {
    std::vector<planner::StoreFact> facts = RunFacts("sweep", options_.set, files_);
    std::string order;
    for (const planner::SweepAxis& axis : grid_->axes()) {
      facts.push_back({fmt::format("--vary {}", axis.key),
                       fmt::format("{}", fmt::join(axis.values, ",")), false});
      order += fmt::format("{}{}", order.empty() ? "" : ", ", axis.key);
    }
    facts.push_back({"the order of --vary", std::move(order), false});
    return facts;
  }

  Result<forecast::Forecast> Forecast(const planner::Settings& settings) {
    Worker& worker = workers_.Own();
    worker.overrides.clear();
    for (const auto& setting : settings) worker.overrides.push_back(OptionOf(setting));
    const auto scenario = worker.variants.Load(worker.overrides);
    if (!scenario) return tl::unexpected(WithVaried(scenario.error(), settings));
    auto forecast = worker.forecaster.Evaluate(**scenario);
    if (!forecast) return tl::unexpected(WithVaried(std::move(forecast.error()), settings));
    return forecast;
  }

  Outcome Work(planner::WorkerPool& pool) {
    AskedFile page;
    if (auto failed = page.Create(options_.report)) return *failed;
    KeptResults kept;
    if (auto failed = kept.Open(
            options_.store, [this] { return Facts(); }, fmt::format("of {}", Combinations()))) {
      return *failed;
    }
    planner::Progress progress;
    if (options_.progress) {
      progress = [&](std::int64_t done, std::int64_t known) {
        options_.progress(done, known, grid_->rows());
      };
    }
    const auto result = planner::Sweep(*grid_, pool, kept.store(), progress);
    if (!result) {
      Outcome failed = Failed(result.error());
      failed.messages += kept.HowToGoOn();
      return failed;
    }
    Outcome outcome = Report(*result, page);
    // Rows of a scenario that is wrong are of no use to the one that is put right.
    if (outcome.status == kWrongInput) {
      kept.Drop();
    } else {
      outcome.messages += kept.WhatWasKnown(result->known);
    }
    return outcome;
  }

 private:
  // What a thread keeps from one row to the next.
  struct Worker {
    Worker(const SweepOptions& options, scenario::InputCache& cache)
        : variants(options.scenario, options.set, cache) {}

    scenario::Variants variants;
    forecast::Forecaster forecaster;
    std::vector<std::string> overrides;  // of the row
  };

  std::vector<std::string> Overrides(const planner::Settings& settings) const {
    std::vector<std::string> set = options_.set;
    for (const auto& setting : settings) set.push_back(OptionOf(setting));
    return set;
  }

  std::string Combinations() const {
    return fmt::format("{} combination{}", grid_->rows(), grid_->rows() == 1 ? "" : "s");
  }

  Result<void> MakeGrid() {
    std::vector<planner::SweepAxis> axes;
    Diagnostics faults;
    const auto add = [&](Diagnostics more) {
      faults.insert(faults.end(), more.begin(), more.end());
    };
    for (const std::string& text : options_.vary) {
      auto axis = varied_.ReadAxis(text);
      if (axis) {
        axes.push_back(std::move(*axis));
      } else {
        add(std::move(axis.error()));
      }
    }
    if (!faults.empty()) return tl::unexpected(std::move(faults));
    auto grid = planner::SweepGrid::Of(std::move(axes));
    if (!grid) return tl::unexpected(std::move(grid.error()));
    grid_ = std::move(*grid);
    faults = varied_.WrongValues(grid_->axes());
    if (!faults.empty()) return tl::unexpected(std::move(faults));
    return {};
  }

  // The files that other rows than the first read, so that they are among the facts. Only these
  // keys name any.
  void ReadOtherFiles() {
    static_cast<void>(scenario::Load(options_.scenario, options_.set, cache_));
    for (const planner::SweepAxis& axis : grid_->axes()) {
      const std::string& key = axis.key;
      if (!key.starts_with("model") && !key.starts_with("calibration") && key != "cluster" &&
          !key.starts_with("cluster.topology")) {
        continue;
      }
      for (const std::string& value : axis.values) {
        if (IsANumber(value)) continue;
        static_cast<void>(scenario::Load(options_.scenario, Overrides({{key, value}}), cache_));
      }
    }
  }

  Outcome Report(const planner::SweepResult& result, AskedFile& page) {
    // A mistake that every row has, and that the scenario has without --vary too, is not about the
    // combinations.
    if (const Diagnostics common = planner::CommonFaults(result.rows); !common.empty()) {
      const auto base = scenario::Load(options_.scenario, options_.set, cache_);
      if (!base) {
        Diagnostics faults;
        std::copy_if(common.begin(), common.end(), std::back_inserter(faults),
                     [&](const Diagnostic& fault) {
                       return std::any_of(
                           base.error().begin(), base.error().end(),
                           [&](const Diagnostic& other) { return SameMessage(fault, other); });
                     });
        if (!faults.empty()) return WrongInput(faults);
      }
    }
    const Result<scenario::Scenario>& first = *first_;
    if (auto failed = page.Write([&] {
          // The scenario of the first row, if there can be one, says what is varied.
          return report::SweepPage(first ? first->name : options_.scenario,
                                   AskedOf(options_.scenario, options_.set), *grid_, result.rows);
        })) {
      return *failed;
    }
    Outcome outcome;
    outcome.output =
        options_.json ? report::SweepJson(*grid_, result.rows, stopwatch_.Seconds(), result.known)
        : options_.jsonl ? report::SweepJsonLines(*grid_, result.rows)
        : options_.csv   ? report::SweepCsv(*grid_, result.rows)
                         : report::SweepText(*grid_, result.rows);
    if (first) outcome.messages = Warnings(*first);
    return outcome;
  }

  const SweepOptions& options_;
  const Stopwatch stopwatch_;
  scenario::InputCache cache_;
  Varied varied_;
  std::optional<planner::SweepGrid> grid_;
  std::optional<Result<scenario::Scenario>> first_;
  std::map<std::string, std::string> files_;
  planner::PerThread<Worker> workers_;
};

}  // namespace

Outcome Sweep(const SweepOptions& options) {
  const auto run = std::make_shared<Run>(options);
  return RunSpread({
      .scenario = options.scenario,
      .threads = options.threads,
      .prepare = [run] { return run->Prepare(); },
      .fingerprint = [run] { return ToText(run->Facts()); },
      .work = planner::WorkOf(
          [run](const planner::Settings& settings) { return run->Forecast(settings); }),
      .run = [run](planner::WorkerPool& pool) { return run->Work(pool); },
  });
}

}  // namespace stepcast::cli
