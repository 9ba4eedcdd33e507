#pragma once

#include <vector>

#include "src/forecast/values.h"
#include "src/model/model.h"
#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// Tokens per second and the share of the devices' peak that is used, from the step time that
// `forecast` has, be it forecast or measured.
void FillThroughput(const scenario::Scenario& scenario, Forecast& forecast);

// Of a micro-batch: what MFU counts, which is done once, and what is done again for lack of memory,
// both as if attention had no mask; and what matrix products and attention's cores execute.
struct MicroBatchFlops {
  double once = 0, recomputed = 0;
  double executed = 0;
};
// `works` is model::BuildWork of the scenario; numbers of ranks and of micro-batches do not matter.
MicroBatchFlops FlopsOf(const scenario::Scenario& scenario,
                        const std::vector<model::LayerWork>& works);
// The same where these are known.
void FillThroughput(const scenario::Scenario& scenario, const MicroBatchFlops& flops,
                    Forecast& forecast);

}  // namespace stepcast::forecast
