#pragma once

#include <memory>
#include <vector>

#include "src/runtime/job.h"

// A job whose ranks are threads of this process: what runs where nothing launched several
// processes.
namespace stepcast::runtime {

// One job for each rank, by rank; each is for one thread. Destroying a job says that its rank is
// gone: ranks that wait for it then, or later, get a Failure that names it.
std::vector<std::unique_ptr<Job>> MakeThreadJobs(int ranks);

}  // namespace stepcast::runtime
