#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/bytes.h"
#include "src/nccl/node.h"
#include "src/nccl/terms.h"
#include "src/nccl/version.h"

// How long NCCL takes for what is made of sends and receives: all-to-all, scatter, gather, and the
// shift of nccl-tests' sendrecv. The tuner does not reckon these; their channels, protocols, parts
// and paths are as NCCL takes them (exchange.h, node.h), its figures for links and
// latencies as for rings.
namespace stepcast::nccl {

// Sends and receives, and what is made of them: all-to-all, scatter, gather (NVIDIA/nccl,
// src/graph/paths.cc, src/enqueue.cc, src/init.cc).

// The cards by which a GPU sends: the nearest ones, divided among the GPUs that are as near.
// Indices into node.nics; none where the fabric has none.
std::vector<std::size_t> OwnCards(const Node& node, const Fabric& fabric, std::size_t gpu);

struct PointToPointChannels {
  int channels = 1;           // a power of two
  int channels_per_peer = 1;  // a power of two; the same for all peers
  // What a message takes at first, so that messages to all ranks find a channel each; more, up to
  // channels_per_peer, only when its parts get long. A power of two.
  int channels_at_first = 1;
  bool one_node = true;

  friend bool operator==(const PointToPointChannels&, const PointToPointChannels&) = default;
};

// Of `nodes` such machines. A peer is worth two channels for each NVLink on the path to it, two
// over PCIe, and over the network one for each card and for each 14 GB/s of them; the poorest
// counts. Across nodes the number is halved until all peers, eight on a channel, find a channel at
// once. Before 2.30 over the network: two, halved while four peers a channel are not enough, but
// one for each card at least.
PointToPointChannels MakePointToPointChannels(const Node& node, int nodes, int compute_channels,
                                              Version version);

enum class PeerKind { kNvlink, kPcie, kNetwork };

// The buffer step of a message: what is sent at once.
struct MessageParts {
  int parts = 1;             // channels used
  Bytes part;                // the largest of them
  Bytes chunk;               // sent at once
  bool low_latency = false;  // by LL instead of Simple

  friend bool operator==(const MessageParts&, const MessageParts&) = default;
};

// Parts are of at least an eighth of a step in a communicator of one node, half a step in others;
// there are more of them than channels_at_first when they would be longer than 32 steps, or than
// one. Over the network small messages go in smaller chunks: a quarter below one step, half below
// eight.
MessageParts PartsOf(Bytes message, PeerKind kind, const PointToPointChannels& channels);

// Whom a rank sends to and receives from in each round of an exchange among all, itself first.
// Nodes follow at distances of triangular numbers modulo a power of two, which spreads the load;
// within a pair of nodes local ranks do the same. In each round every rank has one peer each way.
// Eight operations share a channel at a time.
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
  Protocol protocol = Protocol::kSimple;  // LL or Simple: of the farthest peers
  int channels = 1;                       // in use
  double latency = 0;                     // us
  double transfer = 0;                    // us
  bool through_rails = false;             // messages go to the peer's rail first (PXN)
};

// `nodes` such machines. Made once for a communicator. `nvlink_speed`: the rate of the machine's
// NVLinks over that which NCCL's figure stands for (NvlinkRate). `members`: the GPUs of each node
// that exchange, by position in `node.gpus`, ascending; empty: all. The others belong to the same
// communicator, and relay between two that no NVLink joins (Fabric).
//
// Links: what a message crosses inside the sender's and the receiver's node is added up, link by
// link; the busiest one takes the transfer. Between nodes a message leaves by the card of the GPU
// that has the receiver's place in the sender's node where NVLink leads there (PXN), else by the
// sender's own; it arrives at the receiver's own card. What the processor does for each message on
// the network (1 us, on AMD 2: src/graph/tuning.cc of NVIDIA/nccl) it does one after the other:
// many small messages take that long.
//
// Channels: inside a node none moves more than NCCL's authors have measured that one of a ring does
// (bandwidth.h), which is what bounds messages that have few of them.
//
// Latency: the base of a kernel, and a hop to the farthest peer for each batch of eight operations
// on a channel: a channel's next batch waits for the last one.
class ExchangeModel {
 public:
  ExchangeModel(const Node& node, int nodes, int compute_channels, Version version,
                double nvlink_speed = 1, std::vector<std::size_t> members = {});

  // Requires two ranks at least.
  ExchangeTime Price(Exchange exchange, Bytes size) const {
    return Price(exchange, size, channels_);
  }
  // The same ranks exchange as members of a larger communicator, which has these channels.
  ExchangeTime Price(Exchange exchange, Bytes size, const PointToPointChannels& channels) const;

  const PointToPointChannels& channels() const { return channels_; }

  // Whether ranks of a node meet over NVLink alone, be it through another GPU.
  bool nvlink() const { return local_kind_ == PeerKind::kNvlink; }

 private:
  // The farthest peers that a kind of exchange has.
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
  double post_ = 0;                            // us for each message on the network
  double per_channel_ = 0;                     // bytes for each us
  std::array<double, kExchanges> per_byte_{};  // us for each byte of S
  std::array<std::array<Hop, 3>, 2> hops_{};   // [network][protocol]
};

}  // namespace stepcast::nccl
