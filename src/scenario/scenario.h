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

// A scenario: model, cluster, calibration and plan. All parts have been read from files and checked
// separately and together.
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

// A link whose bandwidth is lower than described, in both directions.
struct SlowLink {
  std::string from, to;                // devices with their topology names: "node0/nic3"
  std::optional<Bandwidth> bandwidth;  // actual bandwidth of one direction; not set: the link has
                                       // failed
  Location location;
};

// A device whose kernels run at the fraction `speed` of the described rate.
struct SlowDevice {
  std::string device;  // topology name: "node3/gpu5"; on a flat cluster "device4"
  double speed = 1;    // above 0, at most 1
  Location location;
  int rank = 0;  // the rank on the device
};

// A kind of node that differs from the cluster's first nodes in devices or links. Scenario has the
// properties that all nodes share.
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
  // Scenarios of a sweep that use the same files share these objects.
  std::shared_ptr<const model::Model> model;
  std::shared_ptr<const topology::Cluster> cluster;
  bool one_machine = false;  // the scenario specifies a number of GPUs instead of a topology
  std::shared_ptr<const calibration::Calibration> calibration;
  std::optional<topology::Gpu> gpu;  // not set only on a flat cluster without a GPU
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  // The values of communication.nccl_algo and communication.nccl_proto: as written, and as
  // interpreted by NCCL.
  std::string nccl_algo, nccl_proto;
  nccl::Overrides nccl_overrides;
  // Whether the calibration may belong to another GPU type.
  bool calibration_of_another_gpu = false;
  bool nccl_collnet = false;  // NCCL may use reduction in the fabric's switches (Fabric::sharp)
  Location communication_location;
  Fidelity network = Fidelity::kAnalytic;
  std::vector<SlowLink> slow_links;      // used only with kFlow and kMessage
  std::vector<SlowDevice> slow_devices;  // ordered by rank
  // The number of nodes of the topology, including idle nodes. `cluster` has only the nodes that
  // the job uses (cluster.devices).
  int nodes_described = 1;
  // Nodes of other kinds, which follow the first nodes in this order (job_devices.h). `cluster` has
  // all nodes; `calibration` and `gpu` describe the first kind.
  std::vector<KindOfNode> other_nodes;
  plan::Plan plan;
  // Whether training.master_weights and training.optimizer_state_dtype are not set, so that the
  // framework's defaults apply.
  bool optimizer_states_assumed = false;
  // Whether software.torch and software.nccl are not set, so that the newest modeled releases of
  // PyTorch and NCCL are assumed.
  bool torch_assumed = false, nccl_assumed = false;
  bool attention_assumed = false;  // the scenario does not set training.attention, and the model
                                   // has attention
  // Returns whether the release of PyTorch is assumed, and an older release would store attention
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
