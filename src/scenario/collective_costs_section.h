#pragma once

#include "src/base/diagnostic.h"
#include "src/calibration/calibration.h"
#include "src/scenario/document.h"

// What a profile says of collectives (calibration_file.h, docs/formats.md).
namespace stepcast::scenario {

// An entry of `collectives`, the one at `index`: measured times by size. As far as it can be read:
// what cannot be stands as something plausible, so that the rest can still be checked; the
// diagnostics keep the profile from being used.
calibration::CollectiveTable ReadCollectiveTable(const Node& node, int index,
                                                 Diagnostics& diagnostics);

// The section `collective_law`: how long they take where nothing was measured.
calibration::CollectiveLaw ReadCollectiveLaw(MappingReader& section);

}  // namespace stepcast::scenario
