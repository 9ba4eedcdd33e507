#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/forecast/forecast.h"
#include "src/forecast/training_run.h"
#include "src/planner/per_thread.h"
#include "src/planner/result_store.h"
#include "src/planner/sweep.h"
#include "src/planner/sweep_grid.h"
#include "src/planner/worker_pool.h"
#include "src/report/command_text.h"
#include "src/scenario/variants.h"
#include "src/study/failure.h"
#include "src/study/training_question.h"
#include "src/study/varied.h"

namespace stepcast::study {

struct SweepQuestion {
  std::string scenario;
  std::vector<std::string> set;   // "KEY=VALUE"
  std::vector<std::string> vary;  // "KEY=V1,V2,...", ranges, "KEY=all"
  TrainingQuestion training;
  // The command for the same question without `vary`, for hints. Empty if the question does not
  // come from a command.
  report::CommandWords command;
  // Receives three numbers: finished rows, finished rows that came from the store, and all rows.
  // Called from several threads, but never from two at once. May be empty.
  std::function<void(std::int64_t done, std::int64_t known, std::int64_t rows)> progress;
};

// Forecasts every combination of values. Call Prepare first. Then any number of threads may compute
// rows, and one thread may call Run. If parallelism.data varies and cluster.devices is not set,
// combinations that use only some GPUs also have the setting cluster.devices: plan.
class SweepRun {
 public:
  explicit SweepRun(SweepQuestion question);

  // Reads the input that all rows share. Fails only on mistakes that every combination has: an
  // unreadable file, an unknown key, or a key that the framework does not support.
  Result<void> Prepare();
  // Returns the inputs on which the results depend, except the settings of rows. `code` is a digest
  // of the program.
  std::vector<planner::StoreFact> Facts(const std::string& code) const;
  planner::SweepRow Row(const planner::Settings& settings);
  // Forecasts one row. The result includes all records of the simulation.
  Result<forecast::Run> Simulate(const planner::Settings& settings);

  // Returns forecast::UnknownHostOf for a row that can be forecast.
  std::optional<forecast::UnknownHost> UnknownHostOf(const planner::Settings& settings);

  // Forecasts the rows, in the grid's order. An illegal combination becomes a row with its
  // mistakes. Mistakes that also exist without `vary` are errors. `store` may be null.
  Answer<planner::SweepResult> Run(planner::WorkerPool& pool, planner::ResultStore* store);

  const planner::SweepGrid& grid() const { return *grid_; }
  const forecast::TrainingTarget& training() const { return training_; }
  // Returns the scenario of the first row, or null if this row is illegal.
  const scenario::Scenario* first() const { return *first_ ? &**first_ : nullptr; }

 private:
  // The state that a thread keeps from row to row.
  struct Worker {
    Worker(const SweepQuestion& question, scenario::InputCache& cache)
        : variants(question.scenario, question.set, cache) {}

    scenario::Variants variants;
    forecast::Forecaster forecaster;
    std::vector<std::string> overrides;     // overrides of the current row
    std::optional<planner::SweepRow> last;  // the previous row
  };

  // Sweeps of at most this number of rows record exposed communication. Recording makes forecasts
  // 1.5 times slower.
  static constexpr std::int64_t kMostWithTimes = 1000;

  planner::SweepRow Forecast(const planner::Settings& settings);
  std::vector<std::string> Overrides(const planner::Settings& settings) const;
  Result<void> MakeGrid();
  Diagnostics KeysNotOfFramework();
  std::string InsteadOf(const planner::SweepAxis& axis);
  void ReadOtherFiles();

  const SweepQuestion question_;
  scenario::InputCache cache_;
  Varied varied_;
  std::optional<planner::SweepGrid> grid_;
  forecast::TrainingTarget training_;
  bool may_leave_idle_ = false;  // rows may add `cluster.devices: plan`
  std::optional<Result<scenario::Scenario>> first_;
  std::map<std::string, std::string> files_;
  planner::PerThread<Worker> workers_;
};

}  // namespace stepcast::study
