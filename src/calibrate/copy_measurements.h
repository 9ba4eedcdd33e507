#pragma once

#include "src/calibrate/campaign.h"
#include "src/calibration/calibration.h"
#include "src/program/program.h"
#include "src/runtime/job.h"

// What copies between host and device cost. All ranks call these together.
namespace stepcast::calibrate {

runtime::Attempt<void> MeasureCopies(Campaign& campaign, program::CopyDirection direction,
                                     calibration::Curve& curve);
// Both directions at once, against each alone.
runtime::Attempt<void> MeasureBothWays(Campaign& campaign);

}  // namespace stepcast::calibrate
