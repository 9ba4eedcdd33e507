#pragma once

#include <memory>
#include <string>

#include "src/runtime/host/transport.h"
#include "src/runtime/job.h"

namespace stepcast::runtime::host {

// A transport between ranks that are threads of this process. All ranks of the job call this
// together. All ranks get null if some of them are in other processes. Every member reduces its
// share of the elements for all members. It reads from and writes to the other members' buffers
// directly, in FP32, with one rounding. Waiting threads sleep.
Attempt<std::unique_ptr<Transport>> ConnectThreads(Job& job);

}  // namespace stepcast::runtime::host
