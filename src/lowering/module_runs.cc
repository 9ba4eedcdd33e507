#include "src/lowering/module_runs.h"

#include <algorithm>
#include <utility>

namespace stepcast::lowering {

std::vector<ModuleRun> ModuleRunsOf(std::span<const model::Operation> operators) {
  std::vector<ModuleRun> runs;
  for (std::size_t op = 0; op < operators.size(); ++op) {
    std::vector<int> parameters = operators[op].parameters;
    if (parameters.empty()) continue;
    std::sort(parameters.begin(), parameters.end());
    if (!runs.empty() && runs.back().parameters == parameters) {
      runs.back().last = op;
    } else {
      runs.push_back({.first = op, .last = op, .parameters = std::move(parameters)});
    }
  }
  return runs;
}

}  // namespace stepcast::lowering
