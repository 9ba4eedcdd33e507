#pragma once

#include "src/memory/account.h"
#include "src/memory/deferred_frees.h"
#include "src/memory/steps.h"
#include "src/program/program.h"
#include "src/program/timeline.h"

namespace stepcast::memory {

// The replay of any program, change by change, at the times of a run. `deferred`: the program's.
// `account`: null, or where to note every change.
Usage ReplayTimed(const program::Program& program, const program::Timeline& timeline,
                  const DeferredFrees& deferred, const Device& device, const Steps& steps,
                  Account* account);

}  // namespace stepcast::memory
