#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/bytes.h"
#include "src/nccl/node.h"
#include "src/nccl/terms.h"
#include "src/nccl/version.h"

// Computes the time of NCCL's operations that consist of sends and receives: all-to-all, scatter,
// gather, and the shift of nccl-tests' sendrecv. NCCL's tuner does not predict them. Channels,
// protocols, parts and paths follow NCCL (exchange.h, node.h); bandwidths and latencies are NCCL's
// values for rings.
namespace stepcast::nccl {

// Sends and receives, and the operations that consist of them: all-to-all, scatter and gather
// (NVIDIA/nccl, src/graph/paths.cc, src/enqueue.cc, src/init.cc).

// Returns the network cards that are nearest to a GPU, as indices in node.nics. The GPU sends
// through them. GPUs at the same distance divide the cards among themselves. The list is empty if
// the fabric has no network cards.
std::vector<std::size_t> OwnCards(const Node& node, const Fabric& fabric, std::size_t gpu);

struct PointToPointChannels {
  int channels = 1;           // a power of two
  int channels_per_peer = 1;  // a power of two, equal for all peers
  // The number of channels for a short message, so small that messages to all ranks can run at
  // once. Longer messages use more channels, up to channels_per_peer. It is a power of two.
  int channels_at_first = 1;
  bool one_node = true;

  friend bool operator==(const PointToPointChannels&, const PointToPointChannels&) = default;
};

// Returns the channels for `nodes` identical nodes. A peer gets two channels for each NVLink on the
// path to it, or two over PCIe. Over the network, a peer gets one channel for each network card or
// for each 14 GB/s of the cards' bandwidth, whichever number is larger. The smallest number of any
// peer is used for all. Across nodes, this number is halved until all peers, at eight per channel,
// have a channel at once. Before NCCL 2.30, a peer over the network gets two channels. If the
// channels cannot serve all peers, at four per channel, the number is halved, but each network card
// keeps at least one channel.
PointToPointChannels MakePointToPointChannels(const Node& node, int nodes, int compute_channels,
                                              Version version);

enum class PeerKind { kNvlink, kPcie, kNetwork };

// How a message is divided among channels.
struct MessageParts {
  int parts = 1;             // number of channels used
  Bytes part;                // the largest part
  Bytes chunk;               // bytes sent at once: one step of the buffer
  bool low_latency = false;  // LL instead of Simple

  friend bool operator==(const MessageParts&, const MessageParts&) = default;
};

// Returns the parts of a message. A part has at least an eighth of a step if the communicator has
// one node, and at least half a step otherwise. There are more parts than channels_at_first if
// parts would otherwise exceed 32 steps in one node, or one step across nodes. Over the network,
// small messages use smaller chunks: a quarter of the size below one step, and half below eight
// steps.
MessageParts PartsOf(Bytes message, PeerKind kind, const PointToPointChannels& channels);

// The peers of a rank in one round of an all-to-all exchange. In the first round, the peer is the
// rank itself. In each round, every rank has one peer in each direction. Distances between nodes
// are triangular numbers modulo a power of two, which spreads the load. The same applies to
// distances between local ranks of a pair of nodes. At most eight operations share a channel at the
// same time.
struct Round {
  int send_to = 0;
  int receive_from = 0;

  friend bool operator==(const Round&, const Round&) = default;
};
inline constexpr int kOperationsPerChannel = 8;
std::vector<Round> ExchangeRounds(int nodes, int ranks_per_node, int rank);

// The kind of an exchange. S is the size as nccl-tests counts it, and n is the number of ranks. The
// root is rank 0.
enum class Exchange : std::uint8_t {
  kAllToAll,  // every rank sends S / n to every other one
  kScatter,   // the root sends S / n to every other rank
  kGather,    // every other rank sends S / n to the root
  kShift      // every rank sends S to the next one
};

struct ExchangeTime {
  Protocol protocol = Protocol::kSimple;  // LL or Simple, used for the farthest peers
  int channels = 1;                       // in use
  double latency = 0;                     // us
  double transfer = 0;                    // us
  bool through_rails = false;             // messages go to the peer's rail first (PXN)
};

// The time of exchanges on `nodes` identical nodes. Construct one object per communicator.
// `nvlink_speed` is the rate of the machine's NVLinks relative to NvlinkRate. `members` are the
// GPUs of each node that exchange, as ascending indices in `node.gpus`; empty: all. The other GPUs
// belong to the same communicator and relay between pairs of GPUs without an NVLink (Fabric).
//
// Links: within the sender's and the receiver's node, the load is summed per link, and the busiest
// link determines the transfer time. Between nodes, a message leaves through the network card of a
// GPU in the sender's node. This is the GPU at the receiver's position, if NVLink reaches it (PXN).
// Otherwise, the message leaves through the sender's own card. It arrives at the receiver's own
// card. The processor handles network messages one after another (1 us each, on AMD 2 us:
// src/graph/tuning.cc of NVIDIA/nccl), which limits many small messages.
//
// Channels: inside a node, a channel is no faster than the ring channels that NCCL's authors
// measured (bandwidth.h). This limits messages with few channels.
//
// The latency is the base latency of a kernel, plus one hop to the farthest peer for each batch of
// eight operations on a channel. Each batch waits for the previous one.
class ExchangeModel {
 public:
  ExchangeModel(const Node& node, int nodes, int compute_channels, Version version,
                double nvlink_speed = 1, std::vector<std::size_t> members = {});

  // Returns the time of an exchange of `size` bytes. Requires at least two ranks.
  ExchangeTime Price(Exchange exchange, Bytes size) const {
    return Price(exchange, size, channels_);
  }
  // Returns the time of an exchange with the channels of a larger communicator that contains the
  // ranks.
  ExchangeTime Price(Exchange exchange, Bytes size, const PointToPointChannels& channels) const;

  const PointToPointChannels& channels() const { return channels_; }

  // Returns whether the ranks of a node exchange over NVLink alone, possibly through another GPU.
  bool nvlink() const { return local_kind_ == PeerKind::kNvlink; }

 private:
  // The latency of a hop to the farthest peers of an exchange.
  struct Hop {
    double base = 0;
    double each = 0;
  };
  static constexpr std::size_t kExchanges = 4;

  void SetHops(Version version, double nic_latency);

  int nodes_;
  int local_;
  PointToPointChannels channels_;
  PeerKind local_kind_ = PeerKind::kNvlink;
  bool through_rails_ = false;
  double post_ = 0;                            // us per network message
  double per_channel_ = 0;                     // bytes per us
  std::array<double, kExchanges> per_byte_{};  // us per byte of S
  std::array<std::array<Hop, 3>, 2> hops_{};   // [network][protocol]
};

}  // namespace stepcast::nccl
