#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "src/base/bytes.h"
#include "src/nccl/communicator.h"
#include "src/nccl/overrides.h"
#include "src/nccl/terms.h"

namespace stepcast::nccl {

// A collective, as far as the tuner looks at it.
struct Collective {
  Function function = Function::kAllReduce;
  // The larger of what a rank sends and receives: of all-gather and reduce-scatter the whole, that
  // is ranks x the part of one.
  Bytes bytes;
  bool fp8 = false;     // elements of 8-bit floating point
  bool scaled = false;  // reduces to an average, or multiplies first
  int operations = 1;   // collectives launched as one, see ncclGroupStart
};

// How NCCL runs a collective.
struct Choice {
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  double predicted_time = 0;  // us; good for comparing, too short below some 64 MiB
  int channels = 1;           // the most it may use, see work_channels.h
  int threads = 0;            // of each channel

  friend bool operator==(const Choice&, const Choice&) = default;
};

// NCCL's tuner for one communicator (NVIDIA/nccl, src/graph/tuning.cc and src/enqueue.cc). Made
// once; a choice then takes well under a microsecond and allocates nothing. Immutable, so that
// threads may share it.
//
// Time = latency x operations + bytes / bandwidth, with
//  * for trees the bandwidth corrected by size (communicator_model.cc), and for NVLSTree on Blackwell
//    with x86 processors from 2.30 on
//  * for Simple rings across nodes, from 64 B a rank and channel on, 1.4 of the latency in an
//    all-reduce (1.9 before Ampere)
//  * operations counted one by one for rings, ten at a time for the others: that many fit into what
//    a kernel reads at once.
// The shortest time is taken, on a tie the earlier in the order of the enumerators. With 8-bit
// floating point on more than eight ranks rings are taken only where there is nothing else.
class CommunicatorModel {
 public:
  explicit CommunicatorModel(const Communicator& communicator, const Overrides& overrides = {});

  // us and GB/s, before corrections. 0 GB/s: not used, be it that it does not exist, that NCCL
  // thinks it unsafe or untested there, or that the user excludes it.
  double latency(Function function, Algorithm algorithm, Protocol protocol) const {
    return tables_[static_cast<std::size_t>(function)].latency.at(algorithm, protocol);
  }
  double bandwidth(Function function, Algorithm algorithm, Protocol protocol) const {
    return tables_[static_cast<std::size_t>(function)].bandwidth.at(algorithm, protocol);
  }

  // us; none where the bandwidth is 0 or the algorithm does not do such a collective.
  std::optional<double> PredictedTime(const Collective& collective, Algorithm algorithm,
                                      Protocol protocol) const;

  // None when the user excludes all that could do it; NCCL then fails with an invalid usage.
  std::optional<Choice> Choose(const Collective& collective) const;

  // Channels and threads where the algorithm is settled, for predicted or measured times.
  Choice WithResources(const Collective& collective, Algorithm algorithm, Protocol protocol) const;

 private:
  struct Tables {
    ByAlgorithm<double> latency;
    ByAlgorithm<double> bandwidth;
  };

  bool Does(const Collective& collective, Algorithm algorithm) const;
  double Time(const Collective& collective, Algorithm algorithm, Protocol protocol) const;

  std::array<Tables, kFunctions.size()> tables_;
  ByAlgorithm<int> most_threads_;
  // Bytes for each thread of each channel that are worth having it.
  ByAlgorithm<std::int64_t> thread_threshold_;
  int ranks_ = 1;
  int nodes_ = 1;
  int compute_channels_ = 1;
  int nvls_channels_ = 0;
  int collnet_heads_ = 1;
  double plateau_ = 1.4;
  bool corrects_nvls_tree_ = false;
};

}  // namespace stepcast::nccl
