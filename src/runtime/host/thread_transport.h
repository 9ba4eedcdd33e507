#pragma once

#include <memory>
#include <string>

#include "src/runtime/host/transport.h"
#include "src/runtime/job.h"

namespace stepcast::runtime::host {

// Creates a transport between ranks that are threads of this process. All ranks of the job call
// this function together. Returns null if some ranks are in other processes. Every member reduces a
// part of the elements for all members. The member reads and writes the other members' buffers
// directly, and computes in FP32 with one rounding. Waiting threads sleep.
Attempt<std::unique_ptr<Transport>> ConnectThreads(Job& job);

}  // namespace stepcast::runtime::host
