#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/bytes.h"
#include "src/nccl/node.h"
#include "src/nccl/terms.h"
#include "src/nccl/version.h"

// Time of NCCL's operations made of sends and receives: all-to-all, scatter, gather, and the shift
// of nccl-tests' sendrecv. The tuner does not predict these. Their channels, protocols, parts and
// paths are NCCL's (exchange.h, node.h); link bandwidths and latencies are its figures for rings.
namespace stepcast::nccl {

// Sends and receives, and operations made of them: all-to-all, scatter, gather (NVIDIA/nccl,
// src/graph/paths.cc, src/enqueue.cc, src/init.cc).

// The cards that a GPU sends through: the nearest ones, divided among GPUs at the same distance.
// Indices in node.nics; empty if the fabric has no cards.
std::vector<std::size_t> OwnCards(const Node& node, const Fabric& fabric, std::size_t gpu);

struct PointToPointChannels {
  int channels = 1;           // a power of two
  int channels_per_peer = 1;  // a power of two, equal for all peers
  // Channels of a short message, chosen so that messages to all ranks find a channel each. Longer
  // messages use more, up to channels_per_peer. A power of two.
  int channels_at_first = 1;
  bool one_node = true;

  friend bool operator==(const PointToPointChannels&, const PointToPointChannels&) = default;
};

// For `nodes` such machines. A peer gets two channels for each NVLink on its path, two over PCIe,
// and over the network one for each card and for each 14 GB/s of it; the smallest number counts.
// Across nodes, the number is halved until all peers, eight per channel, find a channel at once.
// Before 2.30, over the network: two, halved while four peers per channel are not enough, but at
// least one per card.
PointToPointChannels MakePointToPointChannels(const Node& node, int nodes, int compute_channels,
                                              Version version);

enum class PeerKind { kNvlink, kPcie, kNetwork };

// How a message is divided.
struct MessageParts {
  int parts = 1;             // number of channels used
  Bytes part;                // the largest part
  Bytes chunk;               // bytes sent at once: the buffer step
  bool low_latency = false;  // LL instead of Simple

  friend bool operator==(const MessageParts&, const MessageParts&) = default;
};

// Parts are at least an eighth of a step in a communicator of one node, half a step otherwise.
// There are more parts than channels_at_first if they would be longer than 32 steps in one node, or
// one step otherwise. Over the network, small messages use smaller chunks: a quarter below one
// step, half below eight.
MessageParts PartsOf(Bytes message, PeerKind kind, const PointToPointChannels& channels);

// The peers of a rank in each round of an all-to-all exchange, itself first. Nodes follow at
// distances of triangular numbers modulo a power of two, which spreads the load; local ranks within
// a pair of nodes do the same. In each round every rank has one peer in each direction. Eight
// operations share a channel at a time.
struct Round {
  int send_to = 0;
  int receive_from = 0;

  friend bool operator==(const Round&, const Round&) = default;
};
inline constexpr int kOperationsPerChannel = 8;
std::vector<Round> ExchangeRounds(int nodes, int ranks_per_node, int rank);

// S is the size by nccl-tests' convention, n the number of ranks; the root is rank 0.
enum class Exchange : std::uint8_t {
  kAllToAll,  // every rank sends S / n to every other one
  kScatter,   // the root sends S / n to every other rank
  kGather,    // every other rank sends S / n to the root
  kShift      // every rank sends S to the next one
};

struct ExchangeTime {
  Protocol protocol = Protocol::kSimple;  // LL or Simple, for the farthest peers
  int channels = 1;                       // in use
  double latency = 0;                     // us
  double transfer = 0;                    // us
  bool through_rails = false;             // messages go to the peer's rail first (PXN)
};

// The time of exchanges on `nodes` such machines; made once per communicator. `nvlink_speed`: rate
// of the machine's NVLinks relative to NvlinkRate. `members`: the GPUs of each node that exchange,
// as ascending indices in `node.gpus`; empty: all. The other GPUs belong to the same communicator
// and relay between two that no NVLink joins (Fabric).
//
// Links: loads inside the sender's and the receiver's node are summed per link, and the busiest
// link determines the transfer. Between nodes, a message leaves by the card of the GPU at the
// receiver's position in the sender's node if NVLink leads there (PXN), otherwise by the sender's
// own card. It arrives at the receiver's own card. The processor handles messages on the network
// one after the other (1 us each, on AMD 2: src/graph/tuning.cc of NVIDIA/nccl), which limits many
// small messages.
//
// Channels: inside a node, a channel is no faster than NCCL's authors have measured for a ring
// channel (bandwidth.h). This limits messages that have few channels.
//
// Latency: a kernel's base, and one hop to the farthest peer for each batch of eight operations on
// a channel, because a channel's next batch waits for the previous one.
class ExchangeModel {
 public:
  ExchangeModel(const Node& node, int nodes, int compute_channels, Version version,
                double nvlink_speed = 1, std::vector<std::size_t> members = {});

  // Requires at least two ranks.
  ExchangeTime Price(Exchange exchange, Bytes size) const {
    return Price(exchange, size, channels_);
  }
  // The same with the channels of a larger communicator to which the ranks belong.
  ExchangeTime Price(Exchange exchange, Bytes size, const PointToPointChannels& channels) const;

  const PointToPointChannels& channels() const { return channels_; }

  // Whether ranks of a node meet over NVLink alone, possibly through another GPU.
  bool nvlink() const { return local_kind_ == PeerKind::kNvlink; }

 private:
  // The latency to the farthest peers of an exchange.
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
  double post_ = 0;                            // us per message on the network
  double per_channel_ = 0;                     // bytes per us
  std::array<double, kExchanges> per_byte_{};  // us per byte of S
  std::array<std::array<Hop, 3>, 2> hops_{};   // [network][protocol]
};

}  // namespace stepcast::nccl
