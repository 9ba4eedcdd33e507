#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/forecast/training_run.h"
#include "src/report/json.h"
#include "src/report/table.h"

// The training that a step is one of, as `simulate`, `sweep` and `plan` show it. For the .cc files
// of this package only.
namespace stepcast::report {

// "31.25 d"
std::string Duration(double seconds);

// "15T tokens within 40.00 d, $2.5 for a GPU hour; availability 100 % is assumed (--availability
// 0.9 says otherwise)"
std::string TargetText(const forecast::TrainingTarget& target);

// What the training with this step takes, lines that begin with a label as those of `simulate` do;
// empty where nothing is said of it.
std::string TrainingText(const forecast::TrainingTarget& target, const forecast::TrainedStep& step);

// The same as columns of a table, and their cells.
void AddTrainingColumns(const forecast::TrainingTarget& target, std::vector<Column>& columns);
void AddTrainingCells(const forecast::TrainingTarget& target, const forecast::TrainedStep& step,
                      std::vector<std::string>& cells);

// What is said of the training, for a document; null where nothing is.
Json TargetJson(const forecast::TrainingTarget& target);
// The figures of a step as keys of a document or columns of CSV: `training_s` and so on, which of
// them the target says.
std::vector<std::pair<const char*, Json>> TrainingFigures(const forecast::TrainingTarget& target,
                                                          const forecast::TrainedStep& step);

// The best of each number of GPUs.
struct SizeRow {
  forecast::TrainedStep step;
  double tokens_per_second_per_gpu = 0;
  std::string settings;  // that make it
};
// A table of them, the fewest GPUs first; empty for less than two.
std::string SizesText(const forecast::TrainingTarget& target, std::vector<SizeRow> rows);

}  // namespace stepcast::report
