#pragma once

#include <string>
#include <vector>

#include "src/runtime/job.h"

namespace stepcast::runtime {

// A rank's knowledge of its placement before it is connected to the other ranks.
struct RankPlacement {
  std::string host;
  int local_rank = -1;  // from its launcher; -1: unknown
};

// This machine's host name.
std::string HostName();

// The places of all ranks, by rank. Ranks on one host share a node. Local ranks from the launcher
// are kept. Two ranks of one host with the same local rank are on two nodes, since containers may
// share a host name.
std::vector<Place> PlacesOf(const std::vector<RankPlacement>& ranks);

}  // namespace stepcast::runtime
