#pragma once

#include <memory>
#include <vector>

#include "src/runtime/job.h"

// A job whose ranks are threads of this process, used if no launcher started several processes.
namespace stepcast::runtime {

// Creates one job for each rank, by rank; each is for one thread. Destroying a job announces that
// its rank is gone: ranks that wait for this rank, then or later, get a Failure that names it.
std::vector<std::unique_ptr<Job>> MakeThreadJobs(int ranks);

}  // namespace stepcast::runtime
