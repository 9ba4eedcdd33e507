#pragma once

#include <string>
#include <vector>

#include "src/runtime/job.h"

namespace stepcast::runtime {

// What a rank knows of its placement before it is connected to the others.
struct RankPlacement {
  std::string host;
  int local_rank = -1;  // as its launcher says; -1: it does not say
};

// This machine's host name.
std::string HostName();

// The places of all ranks, by rank: those on one host are one node. Where launchers say local
// ranks, they hold, and two ranks of one host with the same local rank are on two nodes (containers
// may share a name).
std::vector<Place> PlacesOf(const std::vector<RankPlacement>& ranks);

}  // namespace stepcast::runtime
