#pragma once

#include "src/calibrate/campaign.h"
#include "src/runtime/job.h"

// What collectives cost, alone and beside kernels. All ranks call these together.
namespace stepcast::calibrate {

// Each kind over each shape of group, as far as the time reaches.
runtime::Attempt<void> MeasureCollectives(Campaign& campaign);
// How much longer kernels and collectives take beside each other.
runtime::Attempt<void> MeasureInterference(Campaign& campaign);

}  // namespace stepcast::calibrate
