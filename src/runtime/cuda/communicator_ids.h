#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/program/program.h"
#include "src/runtime/device.h"
#include "src/runtime/job.h"

// How the ranks of a job agree on NCCL's unique ids. A program communicator is one NCCL
// communicator in each of the groups that its index stands for on different ranks (two shard
// groups: two NCCL communicators), so ids are kept by (first rank of the group, communicator).
namespace stepcast::runtime::cuda {

// The id of each of the program's communicators, by index; empty where every member of its group
// holds one from before (`held`, by index). The first rank of a group makes the id with `make` and
// the others get it through rank 0. All ranks call this together, with programs that have the same
// communicators; groups may differ.
Attempt<std::vector<std::string>> ExchangeCommunicatorIds(
    const program::Program& program, Job& job, const std::vector<bool>& held,
    const std::function<Attempt<std::string>()>& make);

// This rank's number in the communicator's group; -1 if it is not in it.
int RankInGroup(const program::Program& program, program::Index communicator, int rank);

}  // namespace stepcast::runtime::cuda
