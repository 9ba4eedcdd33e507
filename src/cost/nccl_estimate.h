#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include "src/cost/collective_price.h"
#include "src/cost/nccl_price.h"
#include "src/nccl/terms.h"

// Internal declarations of NcclPricer. nccl_choice.cc: NCCL's choice of algorithm and its modeled
// time (CollectiveLaw). nccl_correction.cc: the correction by measured curves. nccl_price.cc: the
// price.
namespace stepcast::cost {

nccl::Function FunctionOf(CollectiveKind kind);

calibration::WireClass WireClassOf(nccl::Algorithm algorithm, nccl::Protocol protocol);

inline Bandwidth Faster(Bandwidth bandwidth, double factor) {
  if (factor == 1) return bandwidth;
  return Bandwidth::BytesPerSecond(
      std::llround(static_cast<double>(bandwidth.bytes_per_second()) * factor));
}

// The algorithm that NCCL chooses, and its time in microseconds by the tuning model.
struct NcclPricer::Estimate {
  const char* algorithm = "ring";
  std::optional<nccl::Algorithm> tuned;  // none: point-to-point messages
  nccl::Protocol protocol = nccl::Protocol::kSimple;
  int channels = 1;
  double launch = 0;
  double latency = 0;   // from NCCL's tuner
  double wire = 0;      // latency of the links; `latency` is never lower
  double stretch = 1;   // factor for the time of software; link times are not multiplied
  double transfer = 0;  // indexed by CollectiveLaw
  double total() const {
    return launch + std::max(latency, wire) + latency * (stretch - 1) + transfer;
  }
  bool in_switch() const {
    return tuned && WireClassOf(*tuned, protocol) == calibration::WireClass::kSwitch;
  }
  LinkTimes Fastest(CollectiveKind kind, Bytes bytes,
                    const topology::CommunicationPath& path) const {
    return tuned ? FastestLinkTimes(kind, *tuned, bytes, path)
                 : FastestExchangeTimes(kind, bytes, path);
  }
};

}  // namespace stepcast::cost
