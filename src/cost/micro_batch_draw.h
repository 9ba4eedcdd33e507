#pragma once

#include <span>

#include "src/cost/kernel_memo.h"
#include "src/cost/kernel_price.h"
#include "src/cost/sustained_clock.h"
#include "src/model/layer_work.h"
#include "src/scenario/scenario.h"

namespace stepcast::cost {

// What the kernels of a micro-batch ask of a device: of all layers, forward, recomputation and
// backward. `works`: model::BuildWork of the plan's options. The setting has no limit of power;
// prices are found in `full_clock`, or added to it. Kernels without a price count for nothing.
MicroBatchDraw DrawOf(const scenario::Scenario& scenario, std::span<const model::LayerWork> works,
                      const KernelSetting& setting, KernelMemo& full_clock);

}  // namespace stepcast::cost
