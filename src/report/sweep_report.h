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
#include "src/report/table.h"

// The output of `sweep`, one row per combination in the grid's order. `rows` has the grid's length;
// `target` is what is said of the training.
namespace stepcast::report {

// A table for people, with the fastest combination that fits below it. Keys are headings by their
// last words.
std::string SweepText(const planner::SweepGrid& grid, const std::vector<planner::SweepRow>& rows,
                      const forecast::TrainingTarget& target = {});

// A heading line of the varied keys and the columns of the JSON rows; fields without a value (an
// illegal combination has no figures) are empty.
std::string SweepCsv(const planner::SweepGrid& grid, const std::vector<planner::SweepRow>& rows,
                     const forecast::TrainingTarget& target = {});

// The document of `sweep --json`, version 1. Everything but its last key, `run`, depends on the
// input alone; `seconds` is the wall-clock time of the run, `known` how many rows were in a store.
std::string SweepJson(const planner::SweepGrid& grid, const std::vector<planner::SweepRow>& rows,
                      double seconds, std::int64_t known = 0,
                      const forecast::TrainingTarget& target = {});

// The rows of that document, one a line, and nothing else: it depends on the input alone.
std::string SweepJsonLines(const planner::SweepGrid& grid,
                           const std::vector<planner::SweepRow>& rows,
                           const forecast::TrainingTarget& target = {});

// How many of the rows have that status.
std::int64_t Count(const std::vector<planner::SweepRow>& rows, planner::RowStatus status);

// Why a row has no figures, or that it does not fit and by how much; empty for `ok`.
std::string Reason(const planner::SweepRow& row);

// The last part of an axis's dotted key, unless another key ends alike.
std::string ShortName(const planner::SweepGrid& grid, std::size_t axis);

// Device memory that the row leaves free, negative where it lacks some.
std::string Left(ByteUnit unit, const planner::SweepRow& row);

// The unit of a table of the rows' memory.
ByteUnit UnitFor(const std::vector<planner::SweepRow>& rows);

// The figures of rows in a table for people, text or page: what all of them have, in one order.
class RowColumns {
 public:
  // Refers to `target`.
  RowColumns(const std::vector<planner::SweepRow>& rows, const forecast::TrainingTarget& target);
  void AddTo(std::vector<Column>& columns) const;
  // The cells of these columns; of an illegal row a dash each.
  void AddTo(const planner::SweepRow& row, std::vector<std::string>& cells) const;

 private:
  ByteUnit unit_, wire_{"B", 1};
  bool unequal_ = false, mfu_ = false, exposed_ = false;
  const forecast::TrainingTarget& target_;
};

// By it rows are compared: the order is that of step times where all rows have as many tokens.
planner::TimePerToken TimePerTokenOf(const planner::SweepRow& row);
// Of the training.
forecast::TrainedStep StepOf(const planner::SweepRow& row);
double NanosecondsPerToken(const planner::SweepRow& row);
// "12.3 ns (816 ms for 4,194,304 tokens)"
std::string TimeForAToken(const planner::SweepRow& row);

// The first of the rows that fit with the least time for a token.
std::optional<std::int64_t> Fastest(const std::vector<planner::SweepRow>& rows);
// The same of each number of GPUs that has such a row, the fewest first.
std::vector<std::int64_t> FastestByGpus(const std::vector<planner::SweepRow>& rows);

}  // namespace stepcast::report
