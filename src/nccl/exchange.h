#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/bytes.h"
#include "src/nccl/node.h"
#include "src/nccl/terms.h"
#include "src/nccl/version.h"

// Computes the time of NCCL's operations that consist of point-to-point messages: all-to-all,
// scatter, gather, and the sendrecv of nccl-tests. NCCL's tuner does not predict these times.
// Channels, protocols, parts and paths are as in NCCL; bandwidths and latencies are NCCL's values
// for rings.
namespace stepcast::nccl {

// Point-to-point messages, and the operations that consist of them: all-to-all, scatter and gather
// (NVIDIA/nccl, src/graph/paths.cc, src/enqueue.cc, src/init.cc).

// Returns the network cards through which a GPU sends, as indices in node.nics. GPUs at the same
// distance divide the nearest cards among themselves. Empty if the fabric has no network cards.
std::vector<std::size_t> OwnCards(const Node& node, const Fabric& fabric, std::size_t gpu);

struct PointToPointChannels {
  int channels = 1;           // a power of two
  int channels_per_peer = 1;  // a power of two, equal for all peers
  // The number of channels for a short message, with which messages to all ranks can run at once. A
  // power of two. Longer messages use more channels, up to channels_per_peer.
  int channels_at_first = 1;
  bool one_node = true;

  friend bool operator==(const PointToPointChannels&, const PointToPointChannels&) = default;
};

// Returns the channels for `nodes` identical nodes:
//   - Each peer has two channels per NVLink on its path, or two channels over PCIe.
//  - Over the network, each peer has one channel per network card or one channel per 14 GB/s of the
//    cards' bandwidth, whichever is more. Before NCCL 2.30, each peer has two channels, or one
//    channel if more than four peers would otherwise share one, but at least one channel per card.
//  - The minimum over all peers applies to all peers.
//   - From NCCL 2.30 on, across nodes, the number is halved until all peers have a channel at once,
//     at eight peers per channel.
PointToPointChannels MakePointToPointChannels(const Node& node, int nodes, int compute_channels,
                                              Version version);

enum class PeerKind { kNvlink, kPcie, kNetwork };

// The division of a message among channels.
struct MessageParts {
  int parts = 1;             // number of channels used
  Bytes part;                // size of the largest part
  Bytes chunk;               // bytes sent at once: one step of the buffer
  bool low_latency = false;  // protocol LL instead of Simple

  friend bool operator==(const MessageParts&, const MessageParts&) = default;
};

// Returns the parts of a message. A part has at least an eighth of a step in one node, and at least
// half a step across nodes. There are more than channels_at_first parts only if parts would
// otherwise exceed 32 steps in one node, or one step across nodes. Over the network, small messages
// use smaller chunks: a quarter of the size below one step, and half of the size below eight steps.
MessageParts PartsOf(Bytes message, PeerKind kind, const PointToPointChannels& channels);

// The number of operations that can share a channel at the same time.
inline constexpr int kOperationsPerChannel = 8;

// The kind of an exchange. S is the size as in nccl-tests, and n is the number of ranks. The root
// is rank 0.
enum class Exchange : std::uint8_t {
  kAllToAll,  // every rank sends S / n to every other rank
  kScatter,   // the root sends S / n to every other rank
  kGather,    // every other rank sends S / n to the root
  kShift      // every rank sends S to the next rank
};

struct ExchangeTime {
  Protocol protocol = Protocol::kSimple;  // LL or Simple, for the peers with the longest path
  int channels = 1;                       // number of channels in use
  double latency = 0;                     // in us
  double transfer = 0;                    // in us
  bool through_rails = false;             // messages are first sent to the rail of the peer (PXN)
};

// The time of exchanges on `nodes` identical nodes. Construct one object per communicator.
// `nvlink_speed` is the rate of the machine's NVLinks relative to NvlinkRate. `members` are the
// GPUs of each node that exchange, as ascending indices in `node.gpus` (empty: all GPUs). Other
// GPUs belong to the communicator and relay between GPUs without an NVLink (Fabric).
//
// Links: inside a node, the load is summed per link, and the busiest link determines the transfer
// time. Between nodes, a message arrives at the receiver's own card. If NVLink connects the sender
// to the GPU at the receiver's position in the sender's node, the message leaves through that GPU's
// card (PXN). Otherwise, the message leaves through the sender's own card. The CPU handles network
// messages one after another (1 us each, on AMD 2 us: src/graph/tuning.cc of NVIDIA/nccl), which
// limits many small messages.
//
// Channels: inside a node, a channel is at most as fast as the ring channels measured by NCCL's
// authors (bandwidth.h). This limit matters for messages with few channels.
//
// The latency is the base latency of a kernel, plus one hop over the longest path for each batch of
// eight operations on a channel. Each batch waits for the previous batch.
class ExchangeModel {
 public:
  ExchangeModel(const Node& node, int nodes, int compute_channels, Version version,
                double nvlink_speed = 1, std::vector<std::size_t> members = {});

  // Returns the time of an exchange of `size` bytes. Requires at least two ranks.
  ExchangeTime Price(Exchange exchange, Bytes size) const {
    return Price(exchange, size, channels_);
  }
  // Returns the time of an exchange with the channels of a larger communicator that contains the
  // ranks of the group.
  ExchangeTime Price(Exchange exchange, Bytes size, const PointToPointChannels& channels) const;

  const PointToPointChannels& channels() const { return channels_; }

  // Returns whether the ranks of a node exchange only over NVLink, possibly through relays.
  bool nvlink() const { return local_kind_ == PeerKind::kNvlink; }

 private:
  // The latency of a hop over the longest path of an exchange.
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
  std::array<std::array<Hop, 3>, 2> hops_{};   // indexed by [network][protocol]
};

}  // namespace stepcast::nccl
