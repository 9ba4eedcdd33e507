#pragma once

#include <string>
#include <vector>

#include "src/forecast/training_run.h"
#include "src/report/answer.h"

// Reports the time and cost of a complete training, for `simulate`, `sweep` and `plan`. Internal to
// this package.
namespace stepcast::report {

// Returns a duration such as "31.25 d".
std::string Duration(double seconds);
inline constexpr double kJoulesPerKilowattHour = 3.6e6;
// Returns an energy such as "12.33 GWh", "18,253 kWh" or "0.012 kWh".
std::string EnergyText(double joules);

// Returns the target as text, such as "15T tokens within 40.00 d, $2.5 per GPU hour; availability
// 90 %".
std::string TargetText(const forecast::TrainingTarget& target);

// Returns the time and the cost of the training with this step, as the labeled lines that
// `simulate` prints. Empty if the target is empty.
std::string TrainingText(const forecast::TrainingTarget& target, const forecast::TrainedStep& step);

// Returns the time and the cost of the training. Values that the target does not determine are
// omitted.
std::vector<Figure> TrainingFigures(const forecast::TrainingTarget& target,
                                    const forecast::TrainedStep& step);
// Adds the time and the cost of the training as keys of a document.
void AddTraining(const forecast::TrainingTarget& target, const forecast::TrainedStep& step,
                 Json& document);

// Returns the target as JSON, or null without a target.
Json TargetJson(const forecast::TrainingTarget& target);
// The best plan for one number of GPUs.
struct SizeRow {
  forecast::TrainedStep step;
  double tokens_per_second_per_gpu = 0;
  std::string settings;  // settings of the plan
};
// Returns a table of the rows, fewest GPUs first. Empty if there are fewer than two rows.
std::string SizesText(const forecast::TrainingTarget& target, std::vector<SizeRow> rows);

}  // namespace stepcast::report
