#pragma once

#include <optional>

#include "src/base/diagnostic.h"
#include "src/scenario/document.h"

namespace stepcast::scenario {

// Says which file a document is that was named as a scenario and is none: another program's
// configuration (DeepSpeed's, accelerate's), a model, a topology or a calibration profile of ours,
// or what has no section of a scenario (file.not-a-scenario). Nothing where it has one.
std::optional<Diagnostic> OtherFile(const Node& document);

}  // namespace stepcast::scenario
