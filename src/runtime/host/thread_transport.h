#pragma once

#include <memory>
#include <string>

#include "src/runtime/host/transport.h"
#include "src/runtime/job.h"

namespace stepcast::runtime::host {

// A transport between ranks that are threads of this process. All ranks of the job call this
// together; all get null when they turn out to be in different processes.
//
// Every member reduces its share of the elements for all, straight from the others' buffers into
// the others' buffers, in FP32, rounded once; waiting threads sleep.
Attempt<std::unique_ptr<Transport>> ConnectThreads(Job& job);

}  // namespace stepcast::runtime::host
