#pragma once

#include <string>
#include <vector>

#include "src/runtime/job.h"

namespace stepcast::runtime {

// What a rank knows about its placement before it is connected to the other ranks.
struct RankPlacement {
  std::string host;
  int local_rank = -1;  // from its launcher; -1: unknown
};

// This machine's host name.
std::string HostName();

// The places of all ranks, by rank. Ranks on one host share a node. Local ranks given by the
// launcher are kept. Two ranks on one host with the same local rank are assigned to two nodes,
// because containers may share a host name.
std::vector<Place> PlacesOf(const std::vector<RankPlacement>& ranks);

}  // namespace stepcast::runtime
