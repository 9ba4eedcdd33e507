#pragma once

#include <optional>
#include <string>

#include "src/base/collective_kind.h"
#include "src/base/diagnostic.h"
#include "src/base/transport.h"
#include "src/calibration/collective_curves.h"
#include "src/scenario/document.h"

namespace stepcast::scenario {

// Reads the key `transport` of a topology's fabric, or of a file of published collectives.
void ReadTransport(MappingReader& reader, Need need, Transport& transport);

// Published measurements of collectives as YAML, calibration/collectives/*.yaml:
//
//  name: h200-ml-engineering
//  source: ...                       # repository@commit path, or paper
//  machine: ...
//  topology: topologies/dgx-h200.yaml
//  nccl: "2.27"
//  rule: ...                         # how the points were divided into `fit` and `held_back`
//  not_counted: ...                  # optional: why statistics of accuracy omit the source
//  inside: nvlink                    # or pcie; the links between GPUs of a node
//  network: 400 GB/s                 # sum over a node's NICs; required if `nodes` is above 1
//  transport: infiniband             # of messages between nodes; required with `network`
//  curves:
//    - collective: all_reduce
//      ranks: 8
//      nodes: 1
//      algorithm: ring               # optional: if the user forced an algorithm
//      documented:                   # optional: NCCL's choices
//        - {from: 32 KiB, to: 1 MiB, algorithm: ring, protocol: LL}
//      fit: [[1 MiB, 46 us], ...]    # each list ascends by size; at least one is needed
//      held_back: [...]
//      uncertain: [...]
//
// Errors, in addition to the errors of document.h: calibration.bad-point, calibration.no-points,
// calibration.no-network, calibration.implausible (sizes that do not ascend, times of zero).

// Reads the key `collective` of a curve, or of a profile's table.
void ReadCollectiveKind(MappingReader& reader, CollectiveKind& collective);

std::optional<calibration::CurveFile> ReadCurves(const Node& node, Diagnostics& diagnostics);
Result<calibration::CurveFile> LoadCurves(const std::string& path);

}  // namespace stepcast::scenario
