#pragma once

#include <cstddef>
#include <vector>

#include "src/base/bytes.h"
#include "src/nccl/fabric.h"
#include "src/nccl/node.h"
#include "src/nccl/version.h"

// Sends and receives, and what is made of them: all-to-all, scatter, gather (NVIDIA/nccl,
// src/graph/paths.cc, src/enqueue.cc, src/init.cc).
namespace stepcast::nccl {

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

}  // namespace stepcast::nccl
