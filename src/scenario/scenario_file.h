#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/plan/request.h"
#include "src/scenario/document.h"
#include "src/scenario/scenario.h"
#include "src/scenario/topology_file.h"

namespace stepcast::scenario {

// Of the format: `stepcast`.
inline constexpr int kFormatVersion = 1;

// Of `cluster.nodes`, and of `cluster.devices`.
inline constexpr IntegerRange kNodeRange = {1, 100'000};
inline constexpr IntegerRange kDeviceRange = {1, 10'000'000};

// An entry of `cluster.other_nodes`.
struct OtherNodes {
  Node topology;
  std::optional<Node> calibration;
  std::int64_t nodes = 1;
  Location location;
};

// `cluster.devices`: on how many of the topology's GPUs the job runs.
struct DevicesRequest {
  std::optional<std::int64_t> count;  // none: `plan`, as many as the axes multiply to
};

// A scenario file as it was written (docs/formats.md, version 1): each value checked by itself, the
// files it names not yet read.
struct ScenarioFile {
  std::optional<std::string> name;
  // A path, or a mapping in its place; never of another kind.
  std::optional<Node> model;
  std::optional<Node> topology;
  std::string
      machine;  // what GPUs that stand in the place of a topology are taken to be, a sentence
  std::optional<Node> calibration;
  std::optional<bool> calibration_of_another_gpu;
  std::optional<std::int64_t> nodes;
  std::optional<DevicesRequest> devices;
  std::optional<CollectiveAlgorithm> algorithm;
  std::optional<std::string> nccl_algo, nccl_proto;  // communication.*, NCCL's syntax
  nccl::Overrides nccl_overrides;
  std::optional<bool> nccl_collnet;
  std::optional<Fidelity> network;
  RoutingRequest routing;
  std::vector<SlowLink> slow_links;
  std::vector<SlowDevice> slow_devices;  // without ranks
  std::vector<OtherNodes> other_nodes;
  plan::Request request;
};

// Reads a scenario file's tree. What is wrong is appended and left out of the result, so that the
// rest can be checked together.
ScenarioFile ReadScenarioFile(const Node& root, Diagnostics& diagnostics);

}  // namespace stepcast::scenario
