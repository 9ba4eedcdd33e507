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

// The version of the format. The key `stepcast` of a scenario has this value.
inline constexpr int kFormatVersion = 1;

// A setting that the user probably meant by an unknown key or option.
struct SettingMeant {
  std::string key;        // dotted
  std::string value{};    // "fp16", or "* MiB" for the user's number with a unit; empty: as written
  std::string meaning{};  // in a few words, if it is not obvious
  // Returns the value of the setting for the value `given` of the unknown key.
  std::string ValueFor(std::string_view given) const;
};

// Returns the settings that the user probably meant by an unknown key, or none. Knows synonyms,
// names of other programs, and keys of other sections: "training.micro_batch_size" for "mbs" and
// for "micro_batch_size".
std::vector<SettingMeant> SettingsMeant(std::string_view path);

// Returns an example for a dotted key whose value is a mapping: "{rank: 16, targets: q_proj
// v_proj}". Empty for other keys.
std::string_view ExampleOf(std::string_view key);

// Returns the valid value that the user probably meant by the invalid value `value` of the dotted
// key `path`: "bf16" for "bfloat16". The result may include other settings: "deepspeed, zero_stage:
// 3". Empty if no valid value is similar.
std::string ValueMeant(std::string_view path, std::string_view value);

// The allowed ranges of `cluster.nodes` and `cluster.devices`.
inline constexpr IntegerRange kNodeRange = {1, 100'000};
inline constexpr IntegerRange kDeviceRange = {1, 10'000'000};

// An entry of `cluster.other_nodes`.
struct OtherNodes {
  Node topology;
  std::optional<Node> calibration;
  std::int64_t nodes = 1;
  Location location;
};

// The value of `cluster.devices`: the number of the topology's GPUs that the job uses.
struct DevicesRequest {
  std::optional<std::int64_t> count = {};  // not set: `plan`, the plan's number of ranks
  // For `plan`: the largest number, from the key `gpus`. Not set: all GPUs.
  std::optional<std::int64_t> most = {};
};

// A scenario file as written (docs/formats.md, version 1). Each value has been checked separately,
// but the files to which the scenario refers have not been read.
struct ScenarioFile {
  std::optional<std::string> name;
  // A node that is a path, or a mapping instead of a path.
  std::optional<Node> model;
  std::optional<Node> topology;
  std::string
      // A sentence that describes the assumed machine, if the scenario specifies GPUs instead of a
      // topology.
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

// Reads a scenario file's tree. Appends mistakes to `diagnostics`, and omits wrong values so that
// the other values can be checked together.
ScenarioFile ReadScenarioFile(const Node& root, Diagnostics& diagnostics);

}  // namespace stepcast::scenario
