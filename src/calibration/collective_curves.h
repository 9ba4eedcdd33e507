#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/diagnostic.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/base/transport.h"

// Published measurements of collectives: calibration/collectives/*.yaml. The profiles of GPU types
// name the files that are theirs; src/cost/nccl_price.h says how forecasts use them, `stepcast
// validate collectives` what comes of it. Format: docs/formats.md.
namespace stepcast::calibration {

using TimePoint = std::pair<Bytes, Time>;

// A choice of algorithm that the source documents, for sizes in [from, to].
struct DocumentedChoice {
  Bytes from, to;
  std::string algorithm;  // as forecasts name it: "ring", "nvls"
  std::string protocol;   // "LL", "LL128", "Simple"; empty: not said
};

// One collective on one group shape. Sizes by nccl-tests' convention; each list ascends by size.
struct CollectiveCurve {
  Location location;  // for messages
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int ranks = 0;
  int nodes = 0;
  std::string algorithm;             // the user forced it; empty: NCCL chose
  std::vector<TimePoint> fit;        // forecasts may read these
  std::vector<TimePoint> held_back;  // forecasts are judged by these, and never read them
  std::vector<TimePoint> uncertain;  // shown, neither read nor counted
  std::vector<DocumentedChoice> documented;
};

// What one source measured on one kind of machine.
struct CurveFile {
  std::string name;
  std::string source;
  std::string machine;
  std::string topology;     // a file like that machine, for forecasts to be held against it
  std::string nccl;         // its release, or the one supposed: "2.27"
  std::string rule;         // how points were divided into fit, held back and uncertain
  std::string not_counted;  // why none of it counts; empty: it does
  bool nvlink = true;       // GPUs of a node meet over NVLink, else PCIe
  Bandwidth inside;         // all NVLinks of a GPU, one direction; zero: PCIe
  Bandwidth network;        // of all cards of a node, one direction; zero: one node alone
  Transport transport = Transport::kInfiniband;  // where there is a network
  std::vector<CollectiveCurve> curves;
};

}  // namespace stepcast::calibration
