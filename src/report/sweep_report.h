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

// The output of `sweep`: one row per combination in the grid's order. `rows` has the grid's length;
// `target` describes the training.
namespace stepcast::report {

// A table for people, and below it the fastest combination that fits. Headings are the last parts
// of keys.
std::string SweepText(const planner::SweepGrid& grid, const std::vector<planner::SweepRow>& rows,
                      const forecast::TrainingTarget& target = {});

// A heading line with the varied keys and the columns of the JSON rows. Missing values, such as
// those of an illegal combination, are empty.
std::string SweepCsv(const planner::SweepGrid& grid, const std::vector<planner::SweepRow>& rows,
                     const forecast::TrainingTarget& target = {});

// The document of `sweep --json`, version 1. All keys depend only on the input, except the last
// one, `run`. `seconds` is the wall-clock time of the run; `known` is the number of rows from a
// store.
std::string SweepJson(const planner::SweepGrid& grid, const std::vector<planner::SweepRow>& rows,
                      double seconds, std::int64_t known = 0,
                      const forecast::TrainingTarget& target = {});

// Only the rows of that document, one per line; they depend only on the input.
std::string SweepJsonLines(const planner::SweepGrid& grid,
                           const std::vector<planner::SweepRow>& rows,
                           const forecast::TrainingTarget& target = {});

// The number of rows with this status.
std::int64_t Count(const std::vector<planner::SweepRow>& rows, planner::RowStatus status);

// Why a row has no figures, or how much memory it lacks; empty for `ok`.
std::string Reason(const planner::SweepRow& row);

// The last part of an axis's dotted key, or the whole key if another key ends in the same part.
std::string ShortName(const planner::SweepGrid& grid, std::size_t axis);

// Device memory that the row leaves free; negative if it lacks memory.
std::string Left(ByteUnit unit, const planner::SweepRow& row);

// The unit for a table of the rows' memory.
ByteUnit UnitFor(const std::vector<planner::SweepRow>& rows);

// The figures of rows for people, as text or on a page: values of the axes, status, and the common
// columns in a fixed order.
class RowFigures {
 public:
  // Keeps references to both.
  RowFigures(const std::vector<planner::SweepRow>& rows, const forecast::TrainingTarget& target);

  // An illegal row has dashes.
  std::vector<Figure> Of(const planner::SweepGrid& grid, std::size_t index,
                         std::string status) const;

 private:
  const std::vector<planner::SweepRow>& rows_;
  ByteUnit unit_, wire_{"B", 1};
  bool unequal_ = false, mfu_ = false, exposed_ = false;
  const forecast::TrainingTarget& target_;
};

// The figure that compares rows. If all rows have the same tokens, its order is that of step times.
planner::TimePerToken TimePerTokenOf(const planner::SweepRow& row);
// The row's step, for the training.
forecast::TrainedStep StepOf(const planner::SweepRow& row);
double NanosecondsPerToken(const planner::SweepRow& row);
// "12.3 ns (816 ms for 4,194,304 tokens)"
std::string TimeForAToken(const planner::SweepRow& row);

// The first fitting row with the least time per token.
std::optional<std::int64_t> Fastest(const std::vector<planner::SweepRow>& rows);
// The same for each number of GPUs with such a row, fewest first.
std::vector<std::int64_t> FastestByGpus(const std::vector<planner::SweepRow>& rows);

}  // namespace stepcast::report
