#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/kernel.h"
#include "src/calibration/calibration.h"
#include "src/scenario/document.h"
#include "src/scenario/yaml_tree.h"

namespace stepcast::scenario {

// Reads rows of measured values in the format of profiles: [1 MiB, 13.1 ms] or [1024, 1024, 4096,
// 25 us]. Errors in addition to the errors of document.h: calibration.bad-point (a row of wrong
// length) and calibration.no-points (an empty curve).

// Returns the items of one row. If the row does not have `count` items, appends a Diagnostic and
// returns an empty list. `needs` describes the required items in messages.
std::vector<Node> ItemsOfRow(const Node& node, std::size_t count, std::string_view needs,
                             std::string_view example, Diagnostics& diagnostics);

// Returns the items of an optional sequence, which must not be empty if the key exists.
std::vector<Node> ReadRows(MappingReader& section, std::string_view key);

// Appends rows of a size and a time to `points`.
void ReadPoints(const std::vector<Node>& nodes, calibration::Curve& points,
                Diagnostics& diagnostics);
// Reads rows of a size and a time from an optional key.
calibration::Curve ReadCurve(MappingReader& section, std::string_view key);

// Merges `over` into a copy of `base`. Mappings are merged key by key. Other values of `over`
// replace values of `base`; null removes a value. Values keep their source positions. The result
// shares unchanged parts with the arguments, which must not be null.
YamlTree Merged(const YamlTree& base, const YamlTree& over);

// Reads the section `kernels` of a calibration profile into `costs`, and returns the differences
// between library releases, ascending. LoadCalibration lists the errors; docs/formats.md documents
// the format.
std::vector<calibration::KernelRelease> ReadKernelCosts(MappingReader& section,
                                                        calibration::KernelCosts& costs);

// Returns the path of the file to which a value in a profile refers. If the file does not exist,
// appends a Diagnostic and returns no value.
std::optional<std::string> FindNamed(const Node& node, Diagnostics& diagnostics);

// Calibration profiles as YAML.
//
//  name: h100-sxm
//  provenance: {machine: ..., software: ..., when: ..., how: ...}   # free keys, at least one
//  kernels:                                   # sections are optional, keys are required
//    gemm:                                    # one or more data types
//      bf16: {max_efficiency: 0.795, half_flops: 3900000000}
//    attention_forward_efficiency: 0.35
//    attention_backward_efficiency: 0.28
//    memory_efficiency: 0.85
//    start_latency: 2 us
//    launch: 5 us
//    collective_launch: 20 us
//    releases:                                # oldest first; differences from the previous entry
//      - {torch: "2.8", token_sum_time: 5.5 ns}
//  frameworks: calibration/hosts/frameworks.yaml   # measured on the reference host
//  host:                                           # measured on this machine
//    dispatch: {megatron: {module: 100 us, autograd: 20 us}}   # by framework, all optional
//  links:
//    nvlink_efficiency: 0.824
//    pcie_efficiency: 0.75
//    network_efficiency: 0.92
//    ring: {base: 8.4 us, nvlink_hop: 3.4 us, pcie_hop: 5.7 us, network_hop: 14 us}
//    tree: {base: 8.4 us, nvlink_hop: 4 us, pcie_hop: 4 us, network_hop: 14 us}
//  memory:
//    context: 512 MiB
//    first_communicator: 717 MiB
//    next_communicator: 512 MiB
//    gemm_workspace: 32 MiB
//  collectives:                               # sizes as in nccl-tests, ascending
//    - {collective: all_reduce, ranks: 4, nodes: 4, points: [[4 KiB, 1.8 ms], [1 MiB, 13.1 ms]]}
//
// Measured times have priority over the efficiencies, which are then optional:
//
//  kernels:
//    gemm_surface: {bf16: [[1024, 1024, 4096, 25 us], ...]}    # every combination of m, n, k
//    gemm_input_gradient_surface, gemm_weight_gradient_surface # the same for GEMMs of gradients
//    attention_forward_surface: {bf16: [[128, 2048, 64, 310 us], ...]}  # heads, sequence, head
//                                                              # size; attention_backward_surface
//    memory_curve: [[1 MiB, 4 us], ...]                        # bytes read and written, time
//    optimizer_curve: [[1 MiB, 4 us], ...]
//  copies:                                                     # bytes moved, time
//    host_to_device: [[1 MiB, 50 us], ...]                     # device_to_host, device_to_device
//  collectives:
//    - {..., points: [...], quantiles: [[1.7 ms, 2 ms], ...]}  # 10th and 90th percentile
//  interference:
//    - {kernel: gemm, collective: all_reduce, kernel_slowdown: 1.1, collective_slowdown: 1.02}
//  residuals:
//    gemm: {spread: 0.01, interpolation: 0.02}
//
// Errors, in addition to the errors of document.h: calibration.no-provenance, calibration.no-gemm
// (an empty `gemm`), calibration.bad-point (a row of wrong length), calibration.no-points (an empty
// curve), calibration.incomplete-surface (not every combination of m, n, k exactly once; GEMMs of
// gradients without GEMMs of forward), calibration.repeated-point (attention of the same sizes
// twice) and calibration.implausible (calibration/plausible.h), each at the value.

// Host costs of frameworks' code as YAML, calibration/hosts/*.yaml:
//
//  name: frameworks
//  host: ...                                                # description of the reference host
//  dispatch:                                                # by framework, all optional
//    megatron: {module: 112 us, autograd: 28 us}
//
// Times are at most 100 ms.

// Reads the key `dispatch` of `reader`.
std::map<std::string, Dispatch, std::less<>> ReadDispatchCosts(MappingReader& reader);

std::optional<calibration::FrameworkCosts> ReadFrameworkCosts(const Node& node,
                                                              Diagnostics& diagnostics);
Result<calibration::FrameworkCosts> LoadFrameworkCosts(const std::string& path);

std::optional<calibration::Calibration> ReadCalibration(const Node& node, Diagnostics& diagnostics);
Result<calibration::Calibration> LoadCalibration(const std::string& path);

}  // namespace stepcast::scenario
