#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/forecast/training_run.h"
#include "src/report/answer.h"

// The training of which the step is a part, as `simulate`, `sweep` and `plan` show it. Internal to
// this package.
namespace stepcast::report {

// "31.25 d"
std::string Duration(double seconds);

// "15T tokens within 40.00 d, $2.5 for a GPU hour; availability 100 % is assumed (--availability
// 0.9 says otherwise)"
std::string TargetText(const forecast::TrainingTarget& target);

// Time and cost of the training with this step, in labeled lines as in `simulate`; empty without a
// target.
std::string TrainingText(const forecast::TrainingTarget& target, const forecast::TrainedStep& step);

// The same as figures, as far as the target determines them.
std::vector<Figure> TrainingFigures(const forecast::TrainingTarget& target,
                                    const forecast::TrainedStep& step);
// As keys of a document.
void AddTraining(const forecast::TrainingTarget& target, const forecast::TrainedStep& step,
                 Json& document);

// The target as JSON; null without one.
Json TargetJson(const forecast::TrainingTarget& target);
// The best plan for a number of GPUs.
struct SizeRow {
  forecast::TrainedStep step;
  double tokens_per_second_per_gpu = 0;
  std::string settings;  // its settings
};
// A table of them, fewest GPUs first; empty for fewer than two.
std::string SizesText(const forecast::TrainingTarget& target, std::vector<SizeRow> rows);

}  // namespace stepcast::report
