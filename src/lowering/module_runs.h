#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "src/model/layer_work.h"

// Modules as frameworks with hooks see them: a module's hooks run before the first and after the
// last of its kernels. Only modules that have parameters of their own count.
namespace stepcast::lowering {

struct ModuleRun {
  std::size_t first = 0, last = 0;  // operators
  std::vector<int> parameters{};    // positions in Layer::tensors, ascending
};

// The runs of one list of operators (LayerWork::forward, recompute or backward), in order.
std::vector<ModuleRun> ModuleRunsOf(std::span<const model::Operation> operators);

}  // namespace stepcast::lowering
