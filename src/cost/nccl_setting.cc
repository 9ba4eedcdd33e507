#include "src/cost/nccl_setting.h"

#include <bitset>

#include "fmt/format.h"
#include "src/nccl/overrides.h"
#include "src/nccl/terms.h"
#include "src/nccl/version.h"

namespace stepcast::cost {
namespace {

void AllowOnly(nccl::Function function, nccl::Algorithm algorithm, nccl::Overrides& overrides) {
  std::bitset<nccl::kAlgorithms.size()> only;
  only.set(static_cast<std::size_t>(algorithm));
  overrides.algorithms.Set(function, only);
}

}  // namespace

std::optional<NcclSetting> NcclSettingOf(const scenario::Scenario& scenario) {
  if (scenario.cluster == nullptr || scenario.cluster->flat() || !scenario.gpu ||
      scenario.gpu->compute_capability == 0 || scenario.calibration == nullptr ||
      !scenario.calibration->links || !scenario.calibration->collective_law) {
    return std::nullopt;
  }
  NcclSetting setting;
  setting.cluster = scenario.cluster.get();
  setting.gpu = &*scenario.gpu;
  setting.links = &*scenario.calibration->links;
  setting.law = &*scenario.calibration->collective_law;
  setting.curves = scenario.calibration->curves;
  const Version& version = scenario.plan.software.nccl;
  setting.version = nccl::VersionFromName(fmt::format("{}.{}", version.major, version.minor))
                        .value_or(nccl::kVersions.front());
  setting.overrides = scenario.nccl_overrides;
  setting.collnet = scenario.nccl_collnet;
  // src/transport/nvls.cc: "NVLS Multicast support requires CUDA12.1 UMD + KMD", which is 530.
  setting.multicast = scenario.plan.software.driver >= Version{530, 0};
  if (scenario.nccl_algo.empty()) {
    if (scenario.algorithm == scenario::CollectiveAlgorithm::kRing) {
      for (nccl::Function function : nccl::kFunctions) {
        AllowOnly(function, nccl::Algorithm::kRing, setting.overrides);
      }
    } else if (scenario.algorithm == scenario::CollectiveAlgorithm::kTree) {
      AllowOnly(nccl::Function::kAllReduce, nccl::Algorithm::kTree, setting.overrides);
    }
  }
  return setting;
}

}  // namespace stepcast::cost
