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

// The properties of a communicator that the tuner uses.
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
  // Settings of reduction in the network. They state whether it is enabled, whether it also serves
  // all-gather and reduce-scatter, and how many GPUs of a node have a separate network card.
  bool collnet = false;
  bool collnet_gathers = false;
  int collnet_heads = 0;

  double ranks_per_node() const { return static_cast<double>(ranks) / nodes; }
};

// Returns the communicator of all GPUs of `nodes` identical nodes. Reduction in the network is
// enabled if there are several nodes and all network cards can reduce (NCCL_COLLNET_ENABLE=1 and a
// plug-in for it). NVLS is enabled if the graph search finds it (NVSwitch, Hopper or later, at
// least two GPUs).
Communicator MakeCommunicator(const Node& node, int nodes, Version version);

// The properties of a collective that the tuner uses.
struct Collective {
  Function function = Function::kAllReduce;
  // The bytes that a rank sends or receives, whichever is more. For all-gather and reduce-scatter,
  // this is the number of ranks times the part of one rank.
  Bytes bytes;
  bool fp8 = false;     // 8-bit floating-point elements
  bool scaled = false;  // reduces to an average, or multiplies before the reduction
  int operations = 1;   // number of collectives launched as one (ncclGroupStart)
};

// NCCL's choice of how to run a collective.
struct Choice {
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  double predicted_time = 0;  // us; suited for comparison, too short below about 64 MiB
  int channels = 1;           // the maximum, see ChannelsUsed
  int threads = 0;            // per channel

  friend bool operator==(const Choice&, const Choice&) = default;
};

// NCCL's tuner for one communicator (NVIDIA/nccl, src/graph/tuning.cc and src/enqueue.cc). After
// construction, a choice takes well under a microsecond and allocates nothing. The object is
// immutable, so threads may share it.
//
// The time is latency x operations + bytes / bandwidth, with these corrections:
//   - The bandwidth is corrected by size (communicator_model.cc) for trees. From 2.30 on, it is
//     also corrected for NVLSTree on Blackwell with x86 processors.
//   - An all-reduce by Simple rings across nodes has 1.4 of the latency (1.9 before Ampere), from
//     64 B per rank and channel on.
//   - Operations are counted individually for rings. For other algorithms, they are counted in
//     groups of ten, because a kernel reads ten at once.
//
// The shortest time wins; on a tie, the earlier enumerator. For 8-bit floating point on more than
// eight ranks, rings are used only if no other algorithm is possible.
class CommunicatorModel {
 public:
  explicit CommunicatorModel(const Communicator& communicator, const Overrides& overrides = {});

  // These functions return the latency in us and the bandwidth in GB/s, before corrections. A
  // bandwidth of 0 means that the combination is not used. The combination then does not exist, or
  // NCCL considers it unsafe or untested there, or the user excludes it.
  double latency(Function function, Algorithm algorithm, Protocol protocol) const {
    return tables_[static_cast<std::size_t>(function)].latency.at(algorithm, protocol);
  }
  double bandwidth(Function function, Algorithm algorithm, Protocol protocol) const {
    return tables_[static_cast<std::size_t>(function)].bandwidth.at(algorithm, protocol);
  }

  // Returns the predicted time in us. None if the bandwidth is 0, or if the algorithm does not
  // support the collective.
  std::optional<double> PredictedTime(const Collective& collective, Algorithm algorithm,
                                      Protocol protocol) const;

  // Returns NCCL's choice. None if the user excludes all combinations. NCCL then fails with an
  // invalid-usage error.
  std::optional<Choice> Choose(const Collective& collective) const;

  // Returns the channels and threads that NCCL uses with a given algorithm and protocol. For
  // predicted or measured times.
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
  // The number of bytes per thread and channel from which on NCCL uses the thread.
  ByAlgorithm<std::int64_t> thread_threshold_;
  int ranks_ = 1;
  int nodes_ = 1;
  int compute_channels_ = 1;
  int nvls_channels_ = 0;
  int collnet_heads_ = 1;
  double plateau_ = 1.4;
  bool corrects_nvls_tree_ = false;
};

// Returns the number of channels that a single collective uses, at most `most`. Each channel
// occupies a multiprocessor (NVIDIA/nccl, src/enqueue.cc). NCCL divides the traffic into cells of
// 32 KiB (16 KiB before NCCL 2.30). In an all-reduce, each byte counts twice. In an all-gather or
// reduce-scatter, each byte of a rank's part counts once per rank. For LL, all traffic counts four
// times. CollNet always uses all channels.
int ChannelsUsed(const Collective& collective, Algorithm algorithm, Protocol protocol, int ranks,
                 int most, Version version);

}  // namespace stepcast::nccl
