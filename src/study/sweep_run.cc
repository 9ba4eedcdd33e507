#include "src/study/sweep_run.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/files.h"
#include "src/plan/framework.h"
#include "src/plan/settings.h"
#include "src/planner/answers.h"
#include "src/study/run_facts.h"

namespace stepcast::study {
namespace {

constexpr const char* kIdleKey = "cluster.devices";

std::string OptionThatVaries(const std::pair<std::string, std::string>& setting) {
  return fmt::format("--vary {}={}", setting.first, setting.second);
}

// Varied values are set like --set, but their mistakes are located at --vary.
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

bool HasFault(const planner::SweepRow& row, std::string_view code) {
  return std::any_of(row.faults.begin(), row.faults.end(),
                     [&](const Diagnostic& fault) { return fault.code == code; });
}

// Whether the value is a number, or a number with an alphabetic unit, and so no file name.
bool IsANumber(const std::string& value) {
  constexpr const char* kDigits = "0123456789";
  const std::size_t unit = value.find_first_not_of(kDigits);
  return unit != 0 &&
         (unit == std::string::npos || value.find_first_of("./{[\"'", unit) == std::string::npos);
}

}  // namespace

SweepRun::SweepRun(SweepQuestion question)
    : question_(std::move(question)),
      varied_(question_.scenario, question_.set, cache_),
      workers_([this] { return std::make_unique<Worker>(question_, cache_); }) {}

Result<void> SweepRun::Prepare() {
  const FilesRead files;
  if (auto made = MakeGrid(); !made) return made;
  first_ = scenario::Load(question_.scenario, Overrides(grid_->Row(0)), cache_);
  if (!*first_ && may_leave_idle_) {
    planner::Settings with_idle = grid_->Row(0);
    with_idle.emplace_back(kIdleKey, "plan");
    first_ = scenario::Load(question_.scenario, Overrides(with_idle), cache_);
  }
  if (Diagnostics faults = KeysNotOfFramework(); !faults.empty()) {
    return tl::unexpected(std::move(faults));
  }
  ReadOtherFiles();
  files_ = files.digests();
  return {};
}

std::vector<planner::StoreFact> SweepRun::Facts(const std::string& code) const {
  std::vector<planner::StoreFact> facts =
      RunFacts("sweep", code, question_.scenario, question_.set, files_);
  std::string order;
  for (const planner::SweepAxis& axis : grid_->axes()) {
    facts.push_back({fmt::format("--vary {}", axis.key),
                     fmt::format("{}", fmt::join(axis.values, ",")), false});
    order += fmt::format("{}{}", order.empty() ? "" : ", ", axis.key);
  }
  facts.push_back({"the order of --vary", std::move(order), false});
  return facts;
}

planner::SweepRow SweepRun::Row(const planner::Settings& settings) {
  planner::SweepRow row = Forecast(settings);
  if (!may_leave_idle_ || !HasFault(row, "plan.device-count")) return row;
  const planner::Settings idle = {{kIdleKey, "plan"}};
  planner::Settings all = settings;
  all.insert(all.end(), idle.begin(), idle.end());
  planner::SweepRow with_idle = Forecast(all);
  // The combination needs more GPUs than exist, or the topology is flat: the row reports that.
  if (HasFault(with_idle, "plan.device-count") || HasFault(with_idle, "scenario.devices-of-flat")) {
    return row;
  }
  if (with_idle.status != planner::RowStatus::kIllegal) with_idle.added = idle;
  return with_idle;
}

planner::SweepRow SweepRun::Forecast(const planner::Settings& settings) {
  Worker& worker = workers_.Own();
  worker.overrides.clear();
  for (const auto& setting : settings)
    worker.overrides.push_back(Override(setting.first, setting.second));
  const auto scenario = worker.variants.Load(worker.overrides);
  if (!scenario) return planner::RowOf(WithVaried(scenario.error(), settings));
  if (worker.last && worker.variants.same_as_before()) return *worker.last;
  worker.last.reset();
  const bool times = grid_->rows() <= kMostWithTimes;
  auto forecast = worker.forecaster.Evaluate(
      **scenario, times ? forecast::Detail::kTimes : forecast::Detail::kStep);
  if (!forecast) return planner::RowOf(WithVaried(std::move(forecast.error()), settings));
  worker.last = planner::RowOf(*forecast, (*scenario)->plan.training, times);
  return *worker.last;
}

Result<forecast::Run> SweepRun::Simulate(const planner::Settings& settings) {
  const auto scenario = scenario::Load(question_.scenario, Overrides(settings), cache_);
  if (!scenario) return tl::unexpected(WithVaried(scenario.error(), settings));
  return forecast::Simulate(*scenario);
}

std::optional<forecast::UnknownHost> SweepRun::UnknownHostOf(const planner::Settings& settings) {
  const auto scenario = scenario::Load(question_.scenario, Overrides(settings), cache_);
  return scenario ? forecast::UnknownHostOf(*scenario) : std::nullopt;
}

Answer<planner::SweepResult> SweepRun::Run(planner::WorkerPool& pool, planner::ResultStore* store) {
  planner::Progress progress;
  if (question_.progress) {
    progress = [&](std::int64_t done, std::int64_t known) {
      question_.progress(done, known, grid_->rows());
    };
  }
  auto result = planner::Sweep(*grid_, pool, store, progress);
  if (!result) return Failed(result.error());
  // A mistake that all rows share, and that exists without --vary too, is not about combinations.
  if (const Diagnostics common = planner::CommonFaults(result->rows); !common.empty()) {
    const auto base = scenario::Load(question_.scenario, question_.set, cache_);
    if (!base) {
      Diagnostics faults;
      std::copy_if(
          common.begin(), common.end(), std::back_inserter(faults), [&](const Diagnostic& fault) {
            return std::any_of(base.error().begin(), base.error().end(),
                               [&](const Diagnostic& other) { return SameMessage(fault, other); });
          });
      if (!faults.empty()) return WrongInput(std::move(faults));
    }
  }
  return *std::move(result);
}

std::vector<std::string> SweepRun::Overrides(const planner::Settings& settings) const {
  std::vector<std::string> set = question_.set;
  for (const auto& setting : settings) set.push_back(Override(setting.first, setting.second));
  return set;
}

Result<void> SweepRun::MakeGrid() {
  std::vector<planner::SweepAxis> axes;
  Diagnostics faults;
  training_ = ReadTraining(question_.training, faults);
  const auto add = [&](Diagnostics more) { faults.insert(faults.end(), more.begin(), more.end()); };
  for (const std::string& text : question_.vary) {
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
  const auto varies = [&](std::string_view key) {
    return std::any_of(grid_->axes().begin(), grid_->axes().end(),
                       [&](const planner::SweepAxis& axis) { return axis.key == key; });
  };
  may_leave_idle_ = varies("parallelism.data") && !varies(kIdleKey) && !varied_.ValueOf(kIdleKey);
  return {};
}

// Varied keys that no combination may have, because the one framework does not have them. Only the
// first row is looked at: the others have the same keys.
Diagnostics SweepRun::KeysNotOfFramework() {
  Diagnostics faults;
  if (*first_) return faults;
  const auto& axes = grid_->axes();
  const bool one_framework = std::none_of(axes.begin(), axes.end(), [](const auto& axis) {
    return axis.key == "data_parallel" || axis.key == "data_parallel.framework";
  });
  if (!one_framework) return faults;
  for (const planner::SweepAxis& axis : axes) {
    const bool may_be_left_out =
        std::find(axis.values.begin(), axis.values.end(), "null") != axis.values.end();
    const std::string option = fmt::format("--set {}={}", axis.key, axis.values.front());
    for (Diagnostic fault : first_->error()) {
      if (may_be_left_out || fault.code != "plan.key-not-of-framework" ||
          fault.location.file != option) {
        continue;
      }
      fault.location.file = fmt::format("--vary {}={}", axis.key, fmt::join(axis.values, ","));
      if (std::string hint = InsteadOf(axis); !hint.empty()) fault.hint = std::move(hint);
      faults.push_back(std::move(fault));
    }
  }
  return faults;
}

// The command that varies what the framework has for this; empty if it has nothing.
std::string SweepRun::InsteadOf(const planner::SweepAxis& axis) {
  constexpr std::string_view kSection = "data_parallel.";
  if (!axis.key.starts_with(kSection) || question_.command.words.empty()) return "";
  const auto rows = plan::DataParallelSettings();
  const auto* setting = plan::FindSetting(rows, axis.key.substr(kSection.size()));
  const auto* instead = setting == nullptr ? nullptr : plan::FindSetting(rows, setting->elsewhere);
  const std::string name = varied_.ValueOf("data_parallel.framework").value_or("");
  const auto traits =
      std::find_if(std::begin(plan::kFrameworkTraits), std::end(plan::kFrameworkTraits),
                   [&](const plan::FrameworkTraits& one) { return one.name == name; });
  if (instead == nullptr || traits == std::end(plan::kFrameworkTraits)) return "";
  const auto framework =
      plan::kFrameworks[static_cast<std::size_t>(traits - std::begin(plan::kFrameworkTraits))];
  if (!instead->uses.Has(framework)) return "";
  report::CommandWords command = question_.command;
  const auto vary = [&command](const std::string& text) {
    command.words.emplace_back("--vary");
    command.words.push_back(text);
  };
  using Count = plan::CountSetting<plan::DataParallelRequest, plan::DataParallel>;
  const bool count = std::holds_alternative<Count>(instead->type);
  for (std::size_t i = 0; i < grid_->axes().size(); ++i) {
    const planner::SweepAxis& other = grid_->axes()[i];
    if (other.key == axis.key) {
      vary(fmt::format("{}{}={}", kSection, instead->key, count ? "1,2,4" : "all"));
    } else {
      vary(question_.vary[i]);
    }
  }
  return fmt::format("{} uses {} instead: {}", name, instead->key, report::CommandLine(command));
}

// Reads files that rows other than the first use, to make them part of the facts. Only these keys
// name files.
void SweepRun::ReadOtherFiles() {
  static_cast<void>(scenario::Load(question_.scenario, question_.set, cache_));
  for (const planner::SweepAxis& axis : grid_->axes()) {
    const std::string& key = axis.key;
    if (!key.starts_with("model") && !key.starts_with("calibration") && key != "cluster" &&
        !key.starts_with("cluster.topology")) {
      continue;
    }
    for (const std::string& value : axis.values) {
      if (IsANumber(value)) continue;
      static_cast<void>(scenario::Load(question_.scenario, Overrides({{key, value}}), cache_));
    }
  }
}

}  // namespace stepcast::study
