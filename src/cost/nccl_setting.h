#pragma once

#include <optional>

#include "src/cost/nccl_price.h"
#include "src/scenario/scenario.h"

namespace stepcast::cost {

// How a scenario runs NCCL; pointers into the scenario, which must outlive it. None where NCCL is
// not modelled: on flat clusters, on devices that are not CUDA's, with profiles without `links` or
// `collective_law`.
//
// software.nccl: the newest known release that is not newer; 2.21 for those before it.
// software.driver: from 530 on (CUDA 12.1) there is multicast through NVSwitch.
// cluster.collective_algorithm: `ring` allows rings alone, `tree` trees for all-reduce; where
// communication.nccl_algo is given, that counts instead.
std::optional<NcclSetting> NcclSettingOf(const scenario::Scenario& scenario);

}  // namespace stepcast::cost
