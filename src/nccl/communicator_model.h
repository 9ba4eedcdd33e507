#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "src/base/bytes.h"
#include "src/nccl/graphs.h"
#include "src/nccl/overrides.h"
#include "src/nccl/terms.h"
#include "src/nccl/version.h"

namespace stepcast::nccl {

// The properties of a communicator that NCCL's tuner uses.
struct Communicator {
  Version version = Version::kV230;
  int ranks = 1;
  int nodes = 1;
  int most_local_ranks = 1;  // largest number of ranks in one node
  int min_compute_capability = 90;
  int max_compute_capability = 90;
  Cpu cpu = Cpu::kIntelSapphireRapids;
  Graphs graphs;
  int compute_channels = 1;  // see graphs.h
  int nvls_channels = 0;     // 0: no multicast through NVSwitch
  bool nvswitch = false;
  // Reduction in the network: whether it is enabled, whether all-gather and reduce-scatter also use
  // it, and how many GPUs of a node have a separate network card.
  bool collnet = false;
  bool collnet_gathers = false;
  int collnet_heads = 0;

  double ranks_per_node() const { return static_cast<double>(ranks) / nodes; }
};

// Returns the communicator of all GPUs of `nodes` identical nodes. Reduction in the network is
// enabled if there are several nodes and all network cards can reduce (NCCL_COLLNET_ENABLE=1 and a
// plug-in). NVLS is enabled if the graph search finds an NVLS graph (NVSwitch, Hopper or later, at
// least two GPUs).
Communicator MakeCommunicator(const Node& node, int nodes, Version version);

// The properties of a collective that NCCL's tuner uses.
struct Collective {
  Function function = Function::kAllReduce;
  // The maximum of the bytes that a rank sends and the bytes that it receives. For all-gather and
  // reduce-scatter, this is the number of ranks times one rank's part.
  Bytes bytes;
  bool fp8 = false;     // whether elements are 8-bit floating-point numbers
  bool scaled = false;  // the result is an average, or operands are multiplied first
  int operations = 1;   // number of collectives in one launch (ncclGroupStart)
};

// NCCL's choice for a collective.
struct Choice {
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  double predicted_time = 0;  // in us; only for comparisons; too short below about 64 MiB
  int channels = 1;           // maximum number; see ChannelsUsed
  int threads = 0;            // threads per channel

  friend bool operator==(const Choice&, const Choice&) = default;
};

// NCCL's tuner for one communicator (NVIDIA/nccl, src/graph/tuning.cc and src/enqueue.cc). A choice
// takes less than a microsecond and allocates nothing. Immutable and thread-safe.
//
// The time is latency x operations + bytes / bandwidth, with these corrections:
//   - For trees, the bandwidth is corrected by size (communicator_model.cc). From NCCL 2.30
//     on, the bandwidth is also corrected for NVLSTree on Blackwell with x86 processors.
//   - For an all-reduce by Simple rings across nodes, the latency is multiplied by 1.4 (1.9 before
//     Ampere), from 64 B per rank and channel on.
//  - For rings, all operations are counted. For other algorithms, groups of ten operations are
//    counted, because a kernel reads ten at once.
//
// The choice has the shortest time; of equal times, the first enumerator. For 8-bit floating point
// on more than eight ranks, rings are used only if no other algorithm is possible.
class CommunicatorModel {
 public:
  explicit CommunicatorModel(const Communicator& communicator, const Overrides& overrides = {});

  // Return the latency in us and the bandwidth in GB/s, before corrections. A bandwidth of 0 means
  // that the combination is not used: it does not exist, it is excluded by the user, or NCCL
  // considers it unsafe or untested.
  double latency(Function function, Algorithm algorithm, Protocol protocol) const {
    return tables_[static_cast<std::size_t>(function)].latency.at(algorithm, protocol);
  }
  double bandwidth(Function function, Algorithm algorithm, Protocol protocol) const {
    return tables_[static_cast<std::size_t>(function)].bandwidth.at(algorithm, protocol);
  }

  // Returns the predicted time in us. None if the bandwidth is 0 or the algorithm does not support
  // the collective.
  std::optional<double> PredictedTime(const Collective& collective, Algorithm algorithm,
                                      Protocol protocol) const;

  // Returns NCCL's choice. None if the user excludes all combinations; NCCL then reports an
  // invalid-usage error.
  std::optional<Choice> Choose(const Collective& collective) const;

  // Returns the channels and threads that NCCL uses with the given algorithm and protocol.
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
  // The minimum number of bytes per thread and channel. NCCL uses fewer threads for fewer bytes.
  ByAlgorithm<std::int64_t> thread_threshold_;
  int ranks_ = 1;
  int nodes_ = 1;
  int compute_channels_ = 1;
  int nvls_channels_ = 0;
  int collnet_heads_ = 1;
  double plateau_ = 1.4;
  bool corrects_nvls_tree_ = false;
};

// Returns the number of channels of a single collective, at most `most`. Each channel occupies one
// multiprocessor (NVIDIA/nccl, src/enqueue.cc). NCCL divides the traffic into cells of 32 KiB
// (before NCCL 2.30, 16 KiB). The traffic is twice the bytes for all-reduce, and the number of
// ranks times a rank's part for all-gather and reduce-scatter. For LL, the traffic is multiplied by
// four. CollNet always uses all channels.
int ChannelsUsed(const Collective& collective, Algorithm algorithm, Protocol protocol, int ranks,
                 int most, Version version);

}  // namespace stepcast::nccl
