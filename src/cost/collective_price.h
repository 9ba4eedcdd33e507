#pragma once

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/time.h"
#include "src/calibration/calibration.h"
#include "src/cost/demand.h"
#include "src/cost/prices.h"
#include "src/nccl/terms.h"
#include "src/scenario/scenario.h"
#include "src/topology/routes.h"

namespace stepcast::cost {

// Interpolates measured times of collectives between the measured sizes:
//
//   At a measured size, the result is the measured time.
//   Between two sizes, the time is linear in the logarithm of the size: t = t0 + (t1 - t0) ln(S /
//     S0) / ln(S1 / S0). The provenance is kInterpolated.
//   Below the first size, the result is the first time, because start-up costs dominate. The
//     provenance is kExtrapolated.
//   Beyond the last size, the last bandwidth is used: t = t_last S / S_last. The provenance is
//     kExtrapolated.
//
// Times are rounded up to a picosecond.

struct TableTime {
  Time time;
  Provenance provenance = Provenance::kMeasured;
};

// Returns the time of a collective of `bytes` bytes. Requires bytes >= 0 and a table that satisfies
// calibration::Check.
TableTime TimeFromTable(const calibration::CollectiveTable& table, Bytes bytes);

// A lower bound for the time of an algorithm on the raw links of a group. The group has N ranks on
// n nodes, with k ranks per node, and S bytes as in nccl-tests. The table has the bytes over the
// links inside a node (per rank) and between nodes (per node). The last column is the number of
// links that a byte crosses in sequence.
//
//  algorithm          inside, of S         between, of S     one after another
//  ring all-reduce    2 (N - 1) / N        2 (N - 1) / N     2 (N - n) inside, 2 (n - 1) between
//  ring others        (N - 1) / N          (N - 1) / N       half of that
//  ring broadcast     1                    1                 half of that
//  tree               2 (k - 1) / k        2 (n - 1) / n     2 (k - 1) and 2 floor(log2 n)
//  NVLS               (N - 1) / N          -                 1 inside
//  NVLSTree           (k - 1) / k          2 (n - 1) / n     1 and 2 floor(log2 n)
//  CollNet            (k - 1) / k          (n - 1) / n       1 and 1
//  PAT                (N - 1) / N          (N - 1) / N       0 and floor(log2 n)
//
//  ring reduce        as ring broadcast
//  all-to-all         (k - 1) / N          k (N - k) / N     1 inside, or 1 between
//  scatter, gather    (k - 1) / N          (N - k) / N       1 inside, or 1 between
//  send_recv          1                    1                 1 inside, or 1 between
//
// With reduction in a switch, each rank sends its data only once. Scatter and gather are not
// bounded by the ring's bandwidth inside the node, because the root's traffic over PCIe may use
// other links.

// Returns whether the kind consists of point-to-point messages: all-to-all, scatter, gather or
// send_recv.
bool IsExchange(CollectiveKind kind);

struct LinkTimes {
  Time intra;  // time on links inside nodes
  Time inter;  // time on links between nodes
  Time latency;

  Time bandwidth_bound() const { return intra > inter ? intra : inter; }
};

// Returns lower bounds for an algorithm's time on the links inside nodes and between nodes. Zero if
// there are no such links. Not valid for exchanges.
LinkTimes FastestLinkTimes(CollectiveKind kind, nccl::Algorithm algorithm, Bytes bytes,
                           const topology::CommunicationPath& path);

// Returns lower bounds for an exchange's time on the links inside nodes and between nodes.
LinkTimes FastestExchangeTimes(CollectiveKind kind, Bytes bytes,
                               const topology::CommunicationPath& path);

// Cost of collectives from the latency and bandwidth of their links (the alpha-beta model), with N
// ranks on n nodes and S bytes as in nccl-tests. docs/collectives.md derives the table:
//
//  algorithm             steps (latency)   sent and received by the busiest rank
//  ring all-reduce       2 (N - 1)         2 (N - 1) / N x S
//  ring reduce-scatter,  N - 1             (N - 1) / N x S
//       all-gather
//  ring broadcast        N - 1             S          (pipelined: chunks follow one another)
//  tree all-reduce       2 depth           2 S        (double binary tree, both directions)
//  tree broadcast        depth             S
//  reduce                as broadcast, backwards
//  all-to-all            1                 (N - 1) / N x S    (pairwise: all at once)
//  scatter, gather       1                 (N - 1) / N x S    (the root)
//  send_recv             1                 S
//
// Reduce-scatter and all-gather have no tree algorithm and always run as rings.
//
// The double binary tree (Sanders, Speck and Traeff 2009, "Two-tree algorithms for full bandwidth
// broadcast, reduction and scan") has two trees over the ranks. Each tree sends half of the buffer.
// A rank is an inner node in at most one tree, and a leaf in the other tree. An inner node receives
// S/2 from each of two children and sends S/2 to its parent. A leaf sends S/2 to its parent. The
// reduction therefore sends S and receives S, and so does the broadcast of the result. If chunks
// are pipelined over the depth of the trees, a link transfers 2 S, and the latency is two
// traversals of the tree.
//
// Flat cluster: exactly the formulas of the table, with depth = ceil(log2 N), the link's latency
// per step, and the link's bandwidth B. The profile is not used.
//
// Real topology with devices other than CUDA devices (for CUDA devices, see nccl_price.h): hop by
// hop, like NCCL's Simple protocol (NVIDIA/nccl 2.30.7, src/graph/tuning.cc), with the profile's
// constants:
//  B               = min(intra bandwidth x NVLink or PCIe efficiency,
//                        inter bandwidth x network efficiency), of those that exist
//  intra hop       = ring_nvlink_hop or ring_pcie_hop, at least the wire's latency; tree alike
//  inter hop       = ring_network_hop + the wire's latency; tree alike
//  ring            = ring_base + (N - n) intra hops + (n - 1) inter hops (none when n = 1), twice
//                    that many hops for all-reduce; bytes as above over B
//  tree all-reduce = tree_base + 2 ((ranks per node - 1) intra hops + floor(log2 n) inter hops)
//                    + 2 S / (0.92 B): a chain inside each node, trees between nodes. NCCL assumes
//                    0.92 of the ring's bus bandwidth for trees; the algorithm bandwidth is half of
//                    the bus bandwidth.
//  broadcast,
//  reduce          = ring: NCCL has no other algorithm
//  all-to-all, scatter, gather, send_recv
//                  = ring_base + one hop of the slowest kind + the longer of the transfers over
//                    links inside nodes and between nodes, each at the bandwidth that these links
//                    achieve
// Protocols for small messages and reduction in switches are not modeled here.
//
// kAuto selects the faster of ring and tree, or the ring if they are equally fast or there is no
// tree. (On a flat cluster, the default is the ring.)
//
// Shares: the links that limit B have share 1 of kScaleUp (inside nodes) or kNetwork (between
// nodes). The share of the other links is proportional to their busy time. The multiprocessors and
// memory bandwidth that a collective uses are ignored.

// Returns the mean number of bytes that a rank of the group sends, for ring and tree. Zero for one
// rank.
//   all-reduce: 2 (N - 1) / N x S
//   scatter, gather: (N - 1) / N^2 x S
//   send_recv: S
//   other kinds: (N - 1) / N x S
double WireBytesPerRank(CollectiveKind kind, Bytes bytes, int ranks);

// Returns a lower bound for the time of a collective over the ring's links, at raw bandwidth B.
// Zero for one rank or an unknown bandwidth.
//   all-reduce: 2 (N - 1) / N x S / B
//   reduce-scatter, all-gather: (N - 1) / N x S / B
//   broadcast, reduce: S / B
//   exchanges, which do not use the ring: FastestExchangeTimes
Time BandwidthBound(CollectiveKind kind, Bytes bytes, const topology::CommunicationPath& path);

// Returns a lower bound for measured times. On a flat cluster and for exchanges, the bound is
// BandwidthBound. On a real topology, switches may reduce and copy. The bound is then the time at
// raw bandwidth for the data that each rank, or each of several nodes, must send: (N - 1) / N x S
// or (n - 1) / n x S, or S for broadcast and reduce.
Time MeasurementBound(CollectiveKind kind, Bytes bytes, const topology::CommunicationPath& path);

// Returns the modeled price of a collective. If path.ranks > 1, requires path.ring_bandwidth > 0
// and `links`, which may be null for a flat path.
CollectivePrice PriceModelledCollective(CollectiveKind kind, Bytes bytes,
                                        const topology::CommunicationPath& path,
                                        const calibration::LinkCosts* links,
                                        scenario::CollectiveAlgorithm algorithm);

// Returns the price of a collective from a measured table of the same kind and group shape. The
// latency is the time of the table's first point, but not more than the complete time. `links`
// affects only the shares and may be null. No table point may be faster than MeasurementBound.
CollectivePrice PriceTabulatedCollective(Bytes bytes, const topology::CommunicationPath& path,
                                         const calibration::LinkCosts* links,
                                         const calibration::CollectiveTable& table);

}  // namespace stepcast::cost
