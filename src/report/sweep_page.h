#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/forecast/training_run.h"
#include "src/planner/sweep.h"
#include "src/planner/sweep_grid.h"
#include "src/report/stage_rows.h"

namespace stepcast::report {

// A sweep as one HTML page: its best row, figures along an axis as lines, two axes as a heat map,
// step time against memory, and the rows. `about`: of the scenario that was varied, "model" and
// what it is, and so on; may be empty. `stages`: of rows to draw one above the other; may be empty.
// `target`: what is said of the training.
std::string SweepPage(const std::string& title,
                      const std::vector<std::pair<std::string, std::string>>& about,
                      const planner::SweepGrid& grid, const std::vector<planner::SweepRow>& rows,
                      const std::vector<StageRows>& stages = {},
                      const forecast::TrainingTarget& target = {});

}  // namespace stepcast::report
