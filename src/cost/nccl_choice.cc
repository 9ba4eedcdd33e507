#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/cost/collective_price.h"
#include "src/cost/nccl_estimate.h"
#include "src/cost/nccl_price.h"
#include "src/cost/nccl_setting.h"
#include "src/nccl/bandwidth.h"
#include "src/nccl/communicator_model.h"
#include "src/nccl/node.h"
#include "src/nccl/terms.h"
#include "src/topology/device.h"
#include "src/topology/node_type.h"

// NCCL's choice of algorithm, protocol and channels, and its time by the law.
namespace stepcast::cost {
namespace {

using calibration::WireClass;
using topology::CommunicationPath;

nccl::Exchange ExchangeOfKind(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllToAll:
      return nccl::Exchange::kAllToAll;
    case CollectiveKind::kScatter:
      return nccl::Exchange::kScatter;
    case CollectiveKind::kGather:
      return nccl::Exchange::kGather;
    default:
      return nccl::Exchange::kShift;
  }
}

// The communicator with NVLinks `speed` times as fast as NCCL assumes. Across nodes, rings and
// trees are limited by the cards, which faster NVLinks do not change.
nccl::Communicator OverNvlinks(nccl::Communicator communicator, double speed) {
  nccl::Graphs& graphs = communicator.graphs;
  for (nccl::Graph* graph :
       {&graphs.ring, &graphs.tree, &graphs.collnet_chain, &graphs.collnet_direct, &graphs.nvls}) {
    if (graph->type_intra > nccl::PathType::kNvlinkBridge) continue;
    if (communicator.nodes == 1) {
      graph->bw_intra *= speed;
      graph->bw_inter *= speed;
    } else {
      graph->bw_intra *= graph == &graphs.nvls ? speed : std::min(speed, 1.0);
    }
  }
  return communicator;
}

}  // namespace

nccl::Function FunctionOf(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return nccl::Function::kAllReduce;
    case CollectiveKind::kReduceScatter:
      return nccl::Function::kReduceScatter;
    case CollectiveKind::kAllGather:
      return nccl::Function::kAllGather;
    case CollectiveKind::kBroadcast:
      return nccl::Function::kBroadcast;
    case CollectiveKind::kReduce:
      return nccl::Function::kReduce;
    default:
      STEPCAST_CHECK(false, "NCCL's tuner does not handle point-to-point exchanges");
  }
  return nccl::Function::kAllReduce;
}

WireClass WireClassOf(nccl::Algorithm algorithm, nccl::Protocol protocol) {
  if (algorithm == nccl::Algorithm::kNvls || algorithm == nccl::Algorithm::kNvlsTree) {
    return WireClass::kSwitch;
  }
  switch (protocol) {
    case nccl::Protocol::kLl:
      return WireClass::kLl;
    case nccl::Protocol::kLl128:
      return WireClass::kLl128;
    case nccl::Protocol::kSimple:
      return WireClass::kSimple;
  }
  return WireClass::kSimple;
}

const char* AlgorithmName(nccl::Algorithm algorithm) {
  constexpr const char* kNames[] = {"tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
                                    "nvls_tree", "pat"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

GroupShape ShapeOf(std::span<const int> ranks, int gpus_per_node) {
  std::map<int, std::vector<int>> by_node;
  for (int rank : ranks) by_node[rank / gpus_per_node].push_back(rank % gpus_per_node);
  GroupShape shape{.ranks = static_cast<int>(ranks.size()),
                   .nodes = static_cast<int>(by_node.size()),
                   .gpus = {}};
  for (const auto& [node, gpus] : by_node) {
    if (gpus.size() > shape.gpus.size()) shape.gpus = gpus;
  }
  std::sort(shape.gpus.begin(), shape.gpus.end());
  return shape;
}

NcclPricer::NcclPricer(NcclSetting setting) : setting_(std::move(setting)) {
  STEPCAST_CHECK(setting_.cluster != nullptr && setting_.gpu != nullptr &&
                     setting_.links != nullptr && setting_.law != nullptr,
                 "to choose an algorithm, NCCL's tuner needs a machine and the costs of this "
                 "machine");
  const topology::NodeType& node = *setting_.cluster->node_type();
  const GpuLinks nvlinks = LinksOfAGpu(node, topology::LinkKind::kNvLink);
  nvlink_ = nvlinks.bandwidth;
  pcie_ = LinksOfAGpu(node, topology::LinkKind::kPcie).bandwidth;
  if (nvlinks.count > 0) {
    own_.nvlink = nvlink_.gigabytes_per_second() /
                  (nvlinks.count * nccl::NvlinkRate(setting_.gpu->compute_capability));
  }
}

nccl::Node NcclPricer::NodeOf(const Machine& machine) const {
  const auto& [shape, speeds] = machine;
  const topology::Fabric* fabric = setting_.cluster->fabric();
  const Bandwidth port = fabric != nullptr && shape.nodes > 1
                             ? Faster(fabric->link.bandwidth, speeds.network)
                             : Bandwidth();
  nccl::Node node =
      NcclNode(*setting_.cluster->node_type(), setting_.gpu->compute_capability, port, shape.gpus);
  for (nccl::Nic& nic : node.nics) nic.reduces = setting_.collnet && fabric->sharp;
  return node;
}

const NcclPricer::Communicator& NcclPricer::CommunicatorOf(const Machine& machine) {
  const auto found = communicators_.find(machine);
  if (found != communicators_.end()) return found->second;
  const auto& [shape, speeds] = machine;
  nccl::Communicator communicator =
      FindCommunicator(NodeOf(machine), shape.nodes, setting_.version);
  communicator.ranks = shape.ranks;  // nodes may hold fewer than the fullest
  if (!setting_.multicast) communicator.nvls_channels = 0;
  return communicators_
      .emplace(machine,
               Communicator{nccl::CommunicatorModel(communicator, setting_.overrides),
                            nccl::CommunicatorModel(OverNvlinks(communicator, speeds.nvlink),
                                                    setting_.overrides),
                            communicator.graphs.ring.type_intra, communicator.compute_channels})
      .first->second;
}

const nccl::ExchangeModel& NcclPricer::ExchangeOf(const Machine& machine,
                                                  const GroupShape* communicator) {
  const auto& [shape, speeds] = machine;
  std::vector<int> gpus;  // of the node, where others than the group's may relay
  if (communicator != nullptr && shape.nodes == 1) {
    std::set_union(shape.gpus.begin(), shape.gpus.end(), communicator->gpus.begin(),
                   communicator->gpus.end(), std::back_inserter(gpus));
    if (gpus == shape.gpus) gpus.clear();
  }
  const auto found = exchanges_.find({machine, gpus});
  if (found != exchanges_.end()) return found->second;
  Machine around = machine;
  std::vector<std::size_t> members;
  if (!gpus.empty()) {
    around.first = {.ranks = static_cast<int>(gpus.size()), .nodes = 1, .gpus = gpus};
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      if (std::binary_search(shape.gpus.begin(), shape.gpus.end(), gpus[i])) members.push_back(i);
    }
  }
  return exchanges_
      .emplace(
          std::pair(machine, std::move(gpus)),
          nccl::ExchangeModel(NodeOf(around), shape.nodes, CommunicatorOf(around).compute_channels,
                              setting_.version, speeds.nvlink, std::move(members)))
      .first->second;
}

CommunicationPath NcclPricer::LinksOf(const Asked& asked, const GroupShape* communicator) {
  CommunicationPath links = asked.path;
  if (links.ranks_per_node == 1 || links.intra_is_nvlink) return links;
  const bool nvlink = communicator == nullptr
                          ? CommunicatorOf(asked.shape).nvlink()
                          : ExchangeOf(Machine(asked.shape, own_), communicator).nvlink();
  if (nvlink) {
    links.intra_is_nvlink = true;
    links.intra_bandwidth = Bandwidth();
    links.intra_latency = Time();
  }
  return links;
}

NcclPricer::Estimate NcclPricer::EstimateExchange(CollectiveKind kind, Bytes bytes,
                                                  const Machine& machine,
                                                  const GroupShape* communicator) {
  const nccl::ExchangeModel& model = ExchangeOf(machine, communicator);
  const nccl::PointToPointChannels& channels =
      communicator == nullptr ? model.channels()
                              : ExchangeOf(Machine(*communicator, machine.second)).channels();
  const nccl::ExchangeTime time = model.Price(ExchangeOfKind(kind), bytes, channels);
  const calibration::CollectiveLaw& law = *setting_.law;
  const calibration::CollectiveLaw::Ramp& ramp =
      law.Of(time.protocol == nccl::Protocol::kLl ? WireClass::kLl : WireClass::kSimple);
  Estimate estimate;
  estimate.algorithm =
      time.through_rails && kind == CollectiveKind::kAllToAll ? "node_aware" : "pairwise";
  estimate.protocol = time.protocol;
  estimate.channels = time.channels;
  estimate.launch = law.launch.microseconds();
  estimate.latency = time.latency;
  estimate.stretch = ramp.StretchOf(static_cast<double>(bytes.count()) / time.channels);
  estimate.transfer = time.transfer / ramp.efficiency;
  return estimate;
}

std::optional<NcclPricer::Estimate> NcclPricer::EstimateOf(CollectiveKind kind, Bytes bytes,
                                                           const Machine& machine, const Way& way) {
  if (IsExchange(kind)) return EstimateExchange(kind, bytes, machine, way.communicator);
  const Communicator& communicator = CommunicatorOf(machine);
  const nccl::CommunicatorModel& model = communicator.model;
  const nccl::Collective collective{.function = FunctionOf(kind), .bytes = bytes};
  if (way.choice && !model.PredictedTime(collective, way.choice->first, way.choice->second)) {
    return std::nullopt;
  }
  const std::optional<nccl::Choice> choice =
      way.choice ? model.WithResources(collective, way.choice->first, way.choice->second)
                 : model.Choose(collective);
  if (!choice) return std::nullopt;
  Estimate estimate;
  estimate.algorithm = AlgorithmName(choice->algorithm);
  estimate.tuned = choice->algorithm;
  estimate.protocol = choice->protocol;
  estimate.channels = nccl::ChannelsUsed(collective, choice->algorithm, choice->protocol,
                                         machine.first.ranks, choice->channels, setting_.version);
  const double time =
      communicator.timing.PredictedTime(collective, choice->algorithm, choice->protocol)
          .value_or(choice->predicted_time);
  const calibration::CollectiveLaw& law = *setting_.law;
  const calibration::CollectiveLaw::Ramp& ramp =
      law.Of(WireClassOf(choice->algorithm, choice->protocol));
  estimate.launch = law.launch.microseconds();
  estimate.latency =
      std::min(model.latency(collective.function, choice->algorithm, choice->protocol), time);
  estimate.stretch =
      ramp.StretchOf(static_cast<double>(bytes.count()) / std::max(1, choice->channels));
  estimate.transfer = (time - estimate.latency) / ramp.efficiency;
  return estimate;
}

}  // namespace stepcast::cost
