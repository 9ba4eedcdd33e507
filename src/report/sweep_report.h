#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/forecast/training_run.h"
#include "src/planner/score.h"
#include "src/planner/sweep.h"
#include "src/planner/sweep_grid.h"
#include "src/report/answer.h"

// The output of `sweep`: one row per combination, in the order of the grid. `rows` must have one
// element per combination. `target` describes the training.
namespace stepcast::report {

// Returns a text table, followed by the fastest combination that fits. Headings of varied keys are
// their ShortName.
std::string SweepText(const planner::SweepGrid& grid, const std::vector<planner::SweepRow>& rows,
                      const forecast::TrainingTarget& target = {});

// Returns CSV: a heading line with the varied keys and the columns of the JSON rows, followed by
// the rows. Missing values, such as the values of an illegal combination, are empty.
std::string SweepCsv(const planner::SweepGrid& grid, const std::vector<planner::SweepRow>& rows,
                     const forecast::TrainingTarget& target = {});

// Returns the document of `sweep --json`, version 1. All keys except the last, `run`, depend only
// on the input. `seconds` is the wall-clock time of the run; `known` is the number of rows that
// were read from a store.
std::string SweepJson(const planner::SweepGrid& grid, const std::vector<planner::SweepRow>& rows,
                      double seconds, std::int64_t known = 0,
                      const forecast::TrainingTarget& target = {});

// Returns only the rows of the document of `sweep --json`, one per line. The rows depend only on
// the input.
std::string SweepJsonLines(const planner::SweepGrid& grid,
                           const std::vector<planner::SweepRow>& rows,
                           const forecast::TrainingTarget& target = {});

// Returns the number of rows with status `status`.
std::int64_t Count(const std::vector<planner::SweepRow>& rows, planner::RowStatus status);

// Returns why a row is illegal, or how much memory the row's plan lacks. Empty if the status is
// `ok`.
std::string Reason(const planner::SweepRow& row);

// Returns a row's settings as text, such as "cluster.nodes=4, training.compile=true".
std::string SettingsText(const planner::SweepGrid& grid, std::int64_t index,
                         const planner::SweepRow& row, const char* equals = "=");

// Returns the last part of an axis's dotted key, or the full key if another key ends in the same
// part.
std::string ShortName(const planner::SweepGrid& grid, std::size_t axis);

// Returns the free device memory of the row's plan. The value is negative if the plan lacks memory.
std::string Left(ByteUnit unit, const planner::SweepRow& row);

// Returns a unit that suits the memory of all rows.
ByteUnit UnitFor(const std::vector<planner::SweepRow>& rows);

// The values of rows in text and on pages: axis values, status, and the common columns in a fixed
// order.
class RowFigures {
 public:
  // The object keeps references to both arguments, which must outlive it.
  RowFigures(const std::vector<planner::SweepRow>& rows, const forecast::TrainingTarget& target);

  // Returns the values of one row. The values of an illegal row are dashes.
  std::vector<Figure> Of(const planner::SweepGrid& grid, std::size_t index,
                         std::string status) const;

 private:
  const std::vector<planner::SweepRow>& rows_;
  ByteUnit unit_, wire_{"B", 1};
  bool unequal_ = false, mfu_ = false, exposed_ = false;
  const forecast::TrainingTarget& target_;
};

// Returns the time per token, by which rows are compared. If all rows have equal tokens per step,
// this order equals the order by step time.
planner::TimePerToken TimePerTokenOf(const planner::SweepRow& row);
// Returns the row's step, from which training time and cost are computed.
forecast::TrainedStep StepOf(const planner::SweepRow& row);
double NanosecondsPerToken(const planner::SweepRow& row);
// Returns the time per token as text, such as "12.3 ns (816 ms for 4,194,304 tokens)".
std::string TimeForAToken(const planner::SweepRow& row);

// Returns the index of the first row with the least time per token among the rows that fit. No
// value if no row fits.
std::optional<std::int64_t> Fastest(const std::vector<planner::SweepRow>& rows);
// Returns the index of the fitting row with the most tokens per second per GPU, or `best` if no row
// has more. The returned row may use fewer GPUs than the fastest row.
std::int64_t MostTokensPerGpu(const std::vector<planner::SweepRow>& rows, std::int64_t best);

}  // namespace stepcast::report
