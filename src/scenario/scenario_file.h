#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/plan/request.h"
#include "src/scenario/document.h"
#include "src/scenario/scenario.h"
#include "src/scenario/topology_file.h"

namespace stepcast::scenario {

// Version of the format: `stepcast`.
inline constexpr int kFormatVersion = 1;

// The known key that an unknown one (both dotted) probably means: "training.micro_batch_size" for
// "mbs" (a term of the field or of another program) and for "micro_batch_size" (the last part, in
// another section). Empty: none.
std::string KeyMeant(std::string_view path);

// The same for a value that the dotted key does not accept: "bf16" for "bfloat16". Empty: none.
std::string ValueMeant(std::string_view path, std::string_view value);

// Ranges of `cluster.nodes` and `cluster.devices`.
inline constexpr IntegerRange kNodeRange = {1, 100'000};
inline constexpr IntegerRange kDeviceRange = {1, 10'000'000};

// An entry of `cluster.other_nodes`.
struct OtherNodes {
  Node topology;
  std::optional<Node> calibration;
  std::int64_t nodes = 1;
  Location location;
};

// `cluster.devices`: the number of the topology's GPUs that the job uses.
struct DevicesRequest {
  std::optional<std::int64_t> count;  // none: `plan`, the product of the axes
};

// A scenario file as written (docs/formats.md, version 1). Each value is checked separately; the
// files it names are not read yet.
struct ScenarioFile {
  std::optional<std::string> name;
  // A path, or a mapping instead of it; no other kind.
  std::optional<Node> model;
  std::optional<Node> topology;
  std::string
      // a sentence that states the assumed machine, if GPUs are given instead of a topology
      machine;
  std::optional<Node> calibration;
  std::optional<bool> calibration_of_another_gpu;
  std::optional<std::int64_t> nodes;
  std::optional<DevicesRequest> devices;
  std::optional<CollectiveAlgorithm> algorithm;
  std::optional<std::string> nccl_algo, nccl_proto;  // communication.*, in NCCL's syntax
  nccl::Overrides nccl_overrides;
  std::optional<bool> nccl_collnet;
  std::optional<Fidelity> network;
  RoutingRequest routing;
  std::vector<SlowLink> slow_links;
  std::vector<SlowDevice> slow_devices;  // ranks are not set yet
  std::vector<OtherNodes> other_nodes;
  plan::Request request;
};

// Reads a scenario file's tree. Mistakes are appended and omitted from the result, so that the rest
// can be checked together.
ScenarioFile ReadScenarioFile(const Node& root, Diagnostics& diagnostics);

}  // namespace stepcast::scenario
