#pragma once

#include <optional>

#include "src/cli/outcome.h"
#include "src/forecast/values.h"

namespace stepcast::cli {

// Whether the plan fits, as exit status and messages: kAnswerIsNo where it does not; kMayNotFit
// where it does with a probability below `least` (--fit-probability); else kDone, with a warning
// where it may not and no probability is asked for.
void AnswerFit(forecast::MemoryVerdict verdict, double probability, std::optional<double> least,
               Outcome& outcome);

}  // namespace stepcast::cli
