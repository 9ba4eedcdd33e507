#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/scenario/document.h"
#include "src/topology/device.h"

// GPU data sheets as YAML, topologies/gpus/*.yaml:
//
//  name: h100-sxm
//  sources: [...]                # free text: origins of the values
//  memory: 79.11 GiB             # the most that the driver lets a process allocate
//  memory_bandwidth: 3350 GB/s
//  multiprocessors: 132
//  compute_capability: "9.0"     # only for CUDA devices; collectives are then NCCL's
//  peak:                         # dense rates of the supported data types
//    {fp32: 66.9 TFLOPS, bf16: 989.4 TFLOPS, fp16: 989.4 TFLOPS, fp8: 1978.9 TFLOPS}
//
// Errors, in addition to the errors of document.h: topology.unknown-gpu (no such file),
// topology.no-peak (an empty `peak`).
namespace stepcast::scenario {

std::optional<topology::Gpu> ReadGpu(const Node& node, Diagnostics& diagnostics);
Result<topology::Gpu> LoadGpu(const std::string& path);

// Returns the GPU to which `name` refers in a file in `folder`. `name` is the path of a .yaml file,
// or the name of a file in topologies/gpus of the data root ("h100-sxm"). If the name has no form
// factor, SXM is assumed ("h100": h100-sxm). Case is ignored. `location` is the position of the
// name.
std::optional<topology::Gpu> FindGpu(std::string_view name, std::string_view folder,
                                     const Location& location, Diagnostics& diagnostics);

// Returns the name of a GPU in the data root, such as "h100-sxm" for "H100". Empty: no such GPU.
std::string GpuNamed(std::string_view name);

}  // namespace stepcast::scenario
