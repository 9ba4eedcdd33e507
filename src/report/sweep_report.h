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

// The output of `sweep`: one row per combination, in the order of the grid. `rows` must have as
// many elements as the grid; `target` describes the training.
namespace stepcast::report {

// Returns a table for people, followed by the fastest combination that fits. Headings are the last
// parts of keys.
std::string SweepText(const planner::SweepGrid& grid, const std::vector<planner::SweepRow>& rows,
                      const forecast::TrainingTarget& target = {});

// Returns a heading line with the varied keys and the columns of the JSON rows, followed by the
// rows. Missing values, such as those of an illegal combination, are empty.
std::string SweepCsv(const planner::SweepGrid& grid, const std::vector<planner::SweepRow>& rows,
                     const forecast::TrainingTarget& target = {});

// Returns the document of `sweep --json`, version 1. All keys depend only on the input, except the
// last one, `run`. `seconds` is the wall-clock time of the run; `known` is the number of rows that
// were read from a store.
std::string SweepJson(const planner::SweepGrid& grid, const std::vector<planner::SweepRow>& rows,
                      double seconds, std::int64_t known = 0,
                      const forecast::TrainingTarget& target = {});

// Returns only the rows of that document, one per line. They depend only on the input.
std::string SweepJsonLines(const planner::SweepGrid& grid,
                           const std::vector<planner::SweepRow>& rows,
                           const forecast::TrainingTarget& target = {});

// Returns the number of rows with this status.
std::int64_t Count(const std::vector<planner::SweepRow>& rows, planner::RowStatus status);

// Returns why a row has no figures, or how much memory it lacks. The text is empty if the status is
// `ok`.
std::string Reason(const planner::SweepRow& row);

// Returns the last part of an axis's dotted key, or the whole key if another key ends in the same
// part.
std::string ShortName(const planner::SweepGrid& grid, std::size_t axis);

// Returns the device memory that the row's plan leaves free; negative if the plan lacks memory.
std::string Left(ByteUnit unit, const planner::SweepRow& row);

// Returns the unit for a table of the rows' memory.
ByteUnit UnitFor(const std::vector<planner::SweepRow>& rows);

// The figures of rows for people, as text or on a page: values of the axes, status, and the common
// columns in a fixed order.
class RowFigures {
 public:
  // Keeps references to both arguments, which must outlive this object.
  RowFigures(const std::vector<planner::SweepRow>& rows, const forecast::TrainingTarget& target);

  // Returns the figures of one row. Those of an illegal row are dashes.
  std::vector<Figure> Of(const planner::SweepGrid& grid, std::size_t index,
                         std::string status) const;

 private:
  const std::vector<planner::SweepRow>& rows_;
  ByteUnit unit_, wire_{"B", 1};
  bool unequal_ = false, mfu_ = false, exposed_ = false;
  const forecast::TrainingTarget& target_;
};

// Returns the figure that compares rows. If all rows have the same tokens per step, this figure
// orders them as step time does.
planner::TimePerToken TimePerTokenOf(const planner::SweepRow& row);
// Returns the row's step in the form that training time and cost are computed from.
forecast::TrainedStep StepOf(const planner::SweepRow& row);
double NanosecondsPerToken(const planner::SweepRow& row);
// Returns a text such as "12.3 ns (816 ms for 4,194,304 tokens)".
std::string TimeForAToken(const planner::SweepRow& row);

// Returns the index of the fitting row with the least time per token, the first one if several are
// equal; none if no row fits.
std::optional<std::int64_t> Fastest(const std::vector<planner::SweepRow>& rows);
// Returns the fastest fitting row for each number of GPUs that has one, fewest GPUs first.
std::vector<std::int64_t> FastestByGpus(const std::vector<planner::SweepRow>& rows);

}  // namespace stepcast::report
