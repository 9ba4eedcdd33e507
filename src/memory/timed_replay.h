#pragma once

#include "src/memory/account.h"
#include "src/memory/deferred_frees.h"
#include "src/memory/steps.h"
#include "src/program/program.h"
#include "src/program/timeline.h"

namespace stepcast::memory {

// Replays any program change by change, at the times at which a run's host issued the changes.
// `deferred` must be the deferred frees of `program`. When `account` is not null, every change is
// noted there.
Usage ReplayTimed(const program::Program& program, const program::Timeline& timeline,
                  const DeferredFrees& deferred, const Device& device, const Steps& steps,
                  Account* account);

}  // namespace stepcast::memory
