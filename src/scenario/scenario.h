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

// A scenario: model, cluster, calibration and plan. The parts are read from files and checked,
// first separately and then together. All later code uses these values instead of text.
namespace stepcast::scenario {

enum class CollectiveAlgorithm : std::uint8_t { kAuto, kRing, kTree };
constexpr const char* Name(CollectiveAlgorithm algorithm) {
  constexpr const char* kNames[] = {"auto", "ring", "tree"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

// How precisely the simulation models collectives on the cluster's links.
enum class Fidelity : std::uint8_t {
  kAnalytic,  // each collective separately, in closed form; one rank per rank label is simulated
  kFlow,      // all ranks; collectives share links at varying rates
  kMessage,   // all ranks; every message of every collective
};

// A link of the cluster that has less bandwidth than described, in both directions.
struct SlowLink {
  std::string from, to;                // devices with their topology names: "node0/nic3"
  std::optional<Bandwidth> bandwidth;  // actual bandwidth of one direction; not set: the link has
                                       // failed
  Location location;
};

// A device that is slower than described. Its kernels run at the fraction `speed` of the described
// rate.
struct SlowDevice {
  std::string device;  // topology name: "node3/gpu5"; on a flat cluster "device4"
  double speed = 1;    // above 0, at most 1
  Location location;
  int rank = 0;  // the rank on the device
};

// A kind of nodes that differ from the cluster's first nodes in devices or links. Properties that
// all nodes share are in Scenario.
struct KindOfNode {
  int nodes = 1;
  // The complete cluster, as if all nodes were of this kind.
  std::shared_ptr<const topology::Cluster> cluster;
  std::shared_ptr<const calibration::Calibration> calibration;
  topology::Gpu gpu;
  Dispatch dispatch{};  // plan::Training::dispatch on these nodes
  Location location;
};

struct Scenario {
  std::string name;
  // Objects that scenarios of a sweep share if they use the same files.
  std::shared_ptr<const model::Model> model;
  std::shared_ptr<const topology::Cluster> cluster;
  bool one_machine = false;  // the scenario specifies a number of GPUs instead of a topology
  std::shared_ptr<const calibration::Calibration> calibration;
  std::optional<topology::Gpu> gpu;  // not set only on a flat cluster without a GPU
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  // The values of communication.nccl_algo and communication.nccl_proto: as written, and as NCCL
  // interprets them.
  std::string nccl_algo, nccl_proto;
  nccl::Overrides nccl_overrides;
  // Whether the calibration may be for another GPU type.
  bool calibration_of_another_gpu = false;
  bool nccl_collnet = false;  // NCCL may use reduction in the fabric's switches; Fabric::sharp
  Location communication_location;
  Fidelity network = Fidelity::kAnalytic;
  std::vector<SlowLink> slow_links;      // used only with kFlow and kMessage
  std::vector<SlowDevice> slow_devices;  // ordered by rank
  // The number of nodes of the topology, including idle nodes. `cluster` has only the nodes that
  // the job uses (cluster.devices).
  int nodes_described = 1;
  // Nodes of other kinds, which follow the first nodes in this order (job_devices.h). `cluster`,
  // `calibration` and `gpu` describe the first kind; `cluster` includes the nodes of all kinds.
  std::vector<KindOfNode> other_nodes;
  plan::Plan plan;
  // Whether training.master_weights and training.optimizer_state_dtype have the framework's
  // defaults because the scenario does not set them.
  bool optimizer_states_assumed = false;
  // Whether the newest modeled releases of PyTorch and NCCL are assumed because the scenario does
  // not set software.torch and software.nccl.
  bool torch_assumed = false, nccl_assumed = false;
  bool attention_assumed = false;  // the scenario does not set training.attention, and the model
                                   // has attention
  // Returns whether the release of PyTorch is assumed, and an older release would keep attention
  // scores in memory.
  bool KernelDependsOnAssumedRelease() const;
  Resolved resolved;                  // the scenario with all defaults
  std::vector<std::string> warnings;  // warnings, for example about keys without effect
  Location cluster_location;  // position of cluster.topology, for errors that are found only during
                              // pricing

  // Returns the number of the topology's GPUs that the job does not use.
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
