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
#include "src/scenario/load.h"
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
  // Told how many of all rows are done, and how many of those the store had; from several threads,
  // one at a time. May be empty.
  std::function<void(std::int64_t done, std::int64_t known, std::int64_t rows)> progress;
};

// Forecasts of every combination of values. Prepare comes first; then any number of threads may
// make rows, and one may Run.
//
// Where parallelism.data varies and nothing says cluster.devices, combinations of fewer GPUs than
// the topology has leave the others idle: their rows have cluster.devices: plan beside their
// values.
class SweepRun {
 public:
  explicit SweepRun(SweepQuestion question);

  // Reads what all rows have in common. Errors: wrong input is what no combination cures: a file
  // that cannot be read, a key that does not exist.
  Result<void> Prepare();
  // What the results depend on besides the settings of their rows. `code`: a digest of the
  // program's.
  std::vector<planner::StoreFact> Facts(const std::string& code) const;
  planner::SweepRow Row(const planner::Settings& settings);
  // The forecast of a row's settings, with all that was recorded on the way.
  Result<forecast::Run> Simulate(const planner::Settings& settings);

  // Of a row that can be forecast: forecast::UnknownHostOf.
  std::optional<forecast::UnknownHost> UnknownHostOf(const planner::Settings& settings);

  // The rows, in the grid's order. Combinations that are illegal by themselves are rows; a mistake
  // that is there without `vary` too is wrong input. `store` may be null.
  Answer<planner::SweepResult> Run(planner::WorkerPool& pool, planner::ResultStore* store);

  const planner::SweepGrid& grid() const { return *grid_; }
  const forecast::TrainingTarget& training() const { return training_; }
  // The scenario of the first row; null where there can be none.
  const scenario::Scenario* first() const { return *first_ ? &**first_ : nullptr; }

 private:
  // What a thread keeps from one row to the next.
  struct Worker {
    Worker(const SweepQuestion& question, scenario::InputCache& cache)
        : variants(question.scenario, question.set, cache) {}

    scenario::Variants variants;
    forecast::Forecaster forecaster;
    std::vector<std::string> overrides;     // of the row
    std::optional<planner::SweepRow> last;  // the row before
  };

  // Of sweeps of at most so many rows, each row says how long communication is exposed: recording
  // it takes half as long again.
  static constexpr std::int64_t kMostWithTimes = 1000;

  planner::SweepRow Forecast(const planner::Settings& settings);
  std::vector<std::string> Overrides(const planner::Settings& settings) const;
  Result<void> MakeGrid();
  void ReadOtherFiles();

  const SweepQuestion question_;
  scenario::InputCache cache_;
  Varied varied_;
  std::optional<planner::SweepGrid> grid_;
  forecast::TrainingTarget training_;
  bool may_leave_idle_ = false;  // rows may have cluster.devices: plan beside their values
  std::optional<Result<scenario::Scenario>> first_;
  std::map<std::string, std::string> files_;
  planner::PerThread<Worker> workers_;
};

}  // namespace stepcast::study
