#include "src/cost/nccl_setting.h"

#include <algorithm>
#include <bitset>
#include <map>
#include <mutex>

#include "fmt/format.h"
#include "src/nccl/graphs.h"
#include "src/nccl/overrides.h"
#include "src/nccl/terms.h"
#include "src/nccl/version.h"

namespace stepcast::cost {
namespace {

// A machine as numbers: everything that the search's result depends on.
std::vector<double> KeyOf(const nccl::Node& node, bool several_nodes, nccl::Version version) {
  std::vector<double> key = {static_cast<double>(several_nodes),
                             static_cast<double>(version),
                             static_cast<double>(node.cpu),
                             static_cast<double>(node.gpus.size()),
                             static_cast<double>(node.nvlinks.size()),
                             static_cast<double>(node.switches.size())};
  const auto add_slot = [&](const nccl::PcieSlot& slot) {
    key.push_back(slot.pcie_switch);
    key.push_back(slot.socket);
    key.push_back(slot.bandwidth);
  };
  for (const nccl::Gpu& gpu : node.gpus) {
    key.push_back(gpu.compute_capability);
    key.push_back(gpu.nvswitch_links);
    add_slot(gpu.slot);
  }
  for (const nccl::NvlinkBundle& bundle : node.nvlinks) {
    key.push_back(bundle.a);
    key.push_back(bundle.b);
    key.push_back(bundle.links);
  }
  for (const nccl::PcieSwitch& pcie : node.switches) {
    key.push_back(pcie.socket);
    key.push_back(pcie.bandwidth);
  }
  for (const nccl::Nic& nic : node.nics) {
    key.push_back(nic.bandwidth);
    key.push_back(nic.latency);
    key.push_back(static_cast<double>(nic.reduces));
    add_slot(nic.slot);
  }
  return key;
}

void DropPaths(nccl::Graphs& graphs) {
  for (nccl::Graph* graph :
       {&graphs.ring, &graphs.tree, &graphs.collnet_chain, &graphs.collnet_direct, &graphs.nvls}) {
    graph->paths.clear();
  }
}

}  // namespace

nccl::Communicator FindCommunicator(const nccl::Node& node, int nodes, nccl::Version version) {
  static std::mutex mutex;
  static auto& known = *new std::map<std::vector<double>, nccl::Communicator>();
  const std::vector<double> key = KeyOf(node, nodes > 1, version);
  nccl::Communicator result;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    auto found = known.find(key);
    if (found == known.end()) {
      nccl::Communicator made = nccl::MakeCommunicator(node, nodes > 1 ? 2 : 1, version);
      DropPaths(made.graphs);
      found = known.emplace(key, std::move(made)).first;
    }
    result = found->second;
  }
  result.nodes = nodes;
  result.ranks = nodes * result.most_local_ranks;
  // Both values depend only on whether there are several nodes, not on the number of nodes.
  result.compute_channels =
      nccl::ComputeChannels(result.graphs, nodes, result.min_compute_capability);
  result.nvls_channels = nccl::NvlsChannels(result.graphs, nodes, result.min_compute_capability);
  return result;
}

namespace {

void AllowOnly(nccl::Function function, nccl::Algorithm algorithm, nccl::Overrides& overrides) {
  std::bitset<nccl::kAlgorithms.size()> only;
  only.set(static_cast<std::size_t>(algorithm));
  overrides.algorithms.Set(function, only);
}

}  // namespace

// Orders curves: the running release first, then newer ones, nearest first, then older ones,
// because features usually stay in later releases. Within a release, the profile's order is kept.
std::vector<std::shared_ptr<const calibration::CurveFile>> ByRelease(
    std::vector<std::shared_ptr<const calibration::CurveFile>> curves, Version version) {
  constexpr int kOlder = 1000;
  const auto distance = [&](const std::shared_ptr<const calibration::CurveFile>& file) {
    const int releases = file->nccl.minor - version.minor;
    return releases >= 0 ? releases : kOlder - releases;
  };
  std::stable_sort(curves.begin(), curves.end(),
                   [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  return curves;
}

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
  const Version& version = scenario.plan.software.nccl;
  setting.curves = ByRelease(scenario.calibration->curves, version);
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
