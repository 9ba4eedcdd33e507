#pragma once

#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/calibrate/campaign.h"
#include "src/runtime/job.h"

// What kernels cost: sections of the profile. All ranks call these together.
namespace stepcast::calibrate {

// The same work again and again through the calibration: what it takes should not change. A
// product, because clocks change its time, and that of memory traffic hardly.
runtime::Attempt<void> MeasureReference(Campaign& campaign);

runtime::Attempt<void> MeasureLaunch(Campaign& campaign);
runtime::Attempt<void> MeasureMemory(Campaign& campaign);
runtime::Attempt<void> MeasureGemm(Campaign& campaign, DataType type, ProductLayout layout);

// Products in a short measurement run at a clock that the board's power does not allow for long.
// What a long run holds, as the draw at full clock that would lead to it (cost::SustainedClock):
// clock = cube root of (limit - idle) / products. Nothing where the device does not tell its draw.
runtime::Attempt<void> MeasureSustainedClock(Campaign& campaign);

// `kind`: kAttention or kAttentionGradient.
runtime::Attempt<void> MeasureAttention(Campaign& campaign, DataType type, KernelKind kind);
runtime::Attempt<void> MeasureOptimizer(Campaign& campaign);

}  // namespace stepcast::calibrate
