#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/kernel.h"
#include "src/base/rates.h"
#include "src/calibration/calibration.h"
#include "src/model/architecture.h"
#include "src/model/model.h"
#include "src/nccl/overrides.h"
#include "src/plan/plan.h"
#include "src/scenario/resolved.h"
#include "src/topology/cluster.h"
#include "src/topology/device.h"
#include "src/topology/node_type.h"

// A scenario: model, cluster, calibration and plan, read from files, checked one by one and
// together. Everything downstream works on these values and never sees text.
namespace stepcast::scenario {

enum class CollectiveAlgorithm : std::uint8_t { kAuto, kRing, kTree };
constexpr const char* Name(CollectiveAlgorithm algorithm) {
  constexpr const char* kNames[] = {"auto", "ring", "tree"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

// How closely collectives are followed on the cluster's links.
enum class Fidelity : std::uint8_t {
  kAnalytic,  // each by itself, in closed form; one rank stands for all
  kFlow,      // every rank; collectives share links at rates that change
  kMessage,   // every rank; every message of every collective
};

// A link of the cluster that is worse than its description, both ways.
struct SlowLink {
  std::string from, to;                // devices, as topologies name them: "node0/nic3"
  std::optional<Bandwidth> bandwidth;  // what it still carries one way; none: it has failed
  Location location;
};

// A device that is slower than its description: its kernels take 1 / speed as long.
struct SlowDevice {
  std::string device;  // as topologies name it: "node3/gpu5"; on a flat cluster "device4"
  double speed = 1;    // above 0, at most 1
  Location location;
  int rank = 0;  // the device's number
};

// Nodes of another kind than the cluster's first: of other devices, or with other links. What all
// nodes of the cluster have in common is in Scenario.
struct KindOfNode {
  int nodes = 1;
  std::shared_ptr<const topology::Cluster> cluster;  // as large, all of its nodes of this kind
  std::shared_ptr<const calibration::Calibration> calibration;
  topology::Gpu gpu;
  Dispatch dispatch{};  // plan::Training::dispatch, on these nodes
  Location location;
};

struct Scenario {
  std::string name;
  // Shared between the scenarios of a sweep that use the same files.
  std::shared_ptr<const model::Model> model;
  std::shared_ptr<const topology::Cluster> cluster;
  std::shared_ptr<const calibration::Calibration> calibration;
  std::optional<topology::Gpu> gpu;  // none only on a flat cluster without one
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  // communication.nccl_algo and nccl_proto, as written and as NCCL understands them.
  std::string nccl_algo, nccl_proto;
  nccl::Overrides nccl_overrides;
  // The calibration may be that of another GPU type.
  bool calibration_of_another_gpu = false;
  bool nccl_collnet = false;  // NCCL may let the fabric's switches reduce; Fabric::sharp
  Location communication_location;
  Fidelity network = Fidelity::kAnalytic;
  std::vector<SlowLink> slow_links;      // seen by flow and message alone
  std::vector<SlowDevice> slow_devices;  // by rank
  // Of the topology, idle ones included: `cluster` has those that the job uses (cluster.devices).
  int nodes_described = 1;
  // `cluster`, `calibration` and `gpu` are those of the first nodes, these follow them in this
  // order: see job_devices.h. `cluster` counts all nodes.
  std::vector<KindOfNode> other_nodes;
  plan::Plan plan;
  // training.master_weights and optimizer_state_dtype are left out: the framework's defaults hold.
  bool optimizer_states_assumed = false;
  // software.torch, software.nccl are left out: the newest that are modelled hold.
  bool torch_assumed = false, nccl_assumed = false;
  bool attention_assumed = false;  // training.attention is left out, of a model that has some
  // Nothing says which release runs, and with older ones attention keeps its scores in memory.
  bool KernelDependsOnAssumedRelease() const;
  Resolved resolved;                  // the scenario with every default filled in
  std::vector<std::string> warnings;  // keys without effect and the like
  Location cluster_location;  // of cluster.topology, for what only shows when costs are asked for

  // GPUs of the topology that the job leaves idle.
  std::int64_t idle_devices() const {
    const topology::NodeType* node = cluster->node_type();
    if (node == nullptr) return 0;
    return std::int64_t{nodes_described} * node->Count(topology::DeviceKind::kGpu) -
           cluster->devices();
  }
};

inline bool Scenario::KernelDependsOnAssumedRelease() const {
  const auto* architecture = std::get_if<model::Architecture>(&model->source);
  return torch_assumed && attention_assumed && architecture != nullptr && architecture->sinks &&
         plan.training.attention == model::Attention::kCudnn;
}

}  // namespace stepcast::scenario
