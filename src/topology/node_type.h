#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/bytes.h"
#include "src/base/rates.h"
#include "src/base/time.h"

// Descriptions from which a cluster's graph is built: topologies/*.yaml as values.
namespace stepcast::topology {

struct LinkSpec {
  Time latency;
  Bandwidth bandwidth;  // one direction
};

struct FlatCluster {
  int devices = 0;
  Bytes memory;
  std::string gpu;               // empty: none
  std::optional<LinkSpec> link;  // absent: collectives come from the profile's tables alone
};

}  // namespace stepcast::topology
