#pragma once

#include <memory>

#include "src/base/diagnostic.h"
#include "src/network/cluster_network.h"
#include "src/network/network.h"
#include "src/scenario/scenario.h"

namespace stepcast::cost {

// The links of a scenario's cluster, with its slow and failed ones. Errors: cost.no-network.
Result<std::unique_ptr<const network::ClusterNetwork>> NetworkOf(
    const scenario::Scenario& scenario);

// That something has no links to go over: cost.no-network.
Diagnostics NoNetwork(const scenario::Scenario& scenario, const network::Fault& fault);

}  // namespace stepcast::cost
