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

// Measured times of collectives, interpolated between the measured sizes:
//
//   At a measured size, the result is the measured time.
//   Between two sizes, the time is linear in the logarithm of the size: t = t0 + (t1 - t0) ln(S /
//     S0) / ln(S1 / S0). The result counts as interpolated.
//   Below the first size, the result is the first time, because start-up costs dominate. It counts
//     as extrapolated.
//   Beyond the last size, the last bandwidth is used: t = t_last S / S_last. The result counts as
//     extrapolated.
//
// Times are rounded up to a picosecond.

struct TableTime {
  Time time;
  Provenance provenance = Provenance::kMeasured;
};

// Returns the time of a collective of `bytes` bytes, which must not be negative. Requires a table
// that satisfies calibration::Check.
TableTime TimeFromTable(const calibration::CollectiveTable& table, Bytes bytes);

// The shortest time that an algorithm can take on the raw links of a group (N ranks on n nodes, k
// per node, S bytes by nccl-tests' convention). The table has the bytes over the links inside a
// node (per rank) and between nodes (per node), and the number of links that a byte crosses one
// after another.
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
// In-switch reduction sends less than a ring: each rank sends its data once, and the switch adds. A
// root's traffic over PCIe is not compared with the ring's bandwidth inside the node, which may be
// limited by a link that the root uses less.

// Returns whether the kind consists of sends and receives: all-to-all, scatter, gather, send_recv.
bool IsExchange(CollectiveKind kind);

struct LinkTimes {
  Time intra;  // links inside nodes
  Time inter;  // links between nodes
  Time latency;

  Time bandwidth_bound() const { return intra > inter ? intra : inter; }
};

// Returns the shortest times that an algorithm can take on the links inside and between nodes. A
// time is zero if there are no such links. Not for exchanges.
LinkTimes FastestLinkTimes(CollectiveKind kind, nccl::Algorithm algorithm, Bytes bytes,
                           const topology::CommunicationPath& path);

// Returns the shortest times that an exchange can take on the links inside and between nodes.
LinkTimes FastestExchangeTimes(CollectiveKind kind, Bytes bytes,
                               const topology::CommunicationPath& path);

// Cost of collectives from the latency and bandwidth of the links they cross (the alpha-beta
// model), with N ranks on n nodes and S bytes by nccl-tests' convention. docs/collectives.md
// derives steps and bytes on the wire.
//
//  algorithm             steps (latency)   sent and received by the busiest rank
//  ring all-reduce       2 (N - 1)         2 (N - 1) / N S
//  ring reduce-scatter,  N - 1             (N - 1) / N S
//       all-gather
//  ring broadcast        N - 1             S          (pipelined: chunks follow one another)
//  tree all-reduce       2 depth           2 S        (double binary tree, both directions)
//  tree broadcast        depth             S
//  reduce                as broadcast, backwards
//  all-to-all            1                 (N - 1) / N S      (pairwise: all at once)
//  scatter, gather       1                 (N - 1) / N S      (the root)
//  send_recv             1                 S
//
// Reduce-scatter and all-gather have no tree and always run as rings.
//
// The double binary tree (Sanders, Speck and Traeff 2009, "Two-tree algorithms for full bandwidth
// broadcast, reduction and scan") consists of two trees over the ranks, each carrying half of the
// buffer. A rank is an inner node in at most one of them. An inner node receives S/2 from each of
// two children and sends S/2 up, and as a leaf of the other tree sends its other half up: S in and
// S out to reduce, and the same again to spread the result. Pipelined over the depth of the trees,
// that is 2 S on a link and two traversals.
//
// Flat cluster: exactly these formulas, with depth = ceil(log2 N), a = the link's latency per step
// and B = its bandwidth. The profile is not used.
//
// Real topology of non-CUDA devices (nccl_price.h has CUDA devices): hop by hop, like NCCL's Simple
// protocol (NVIDIA/nccl 2.30.7, src/graph/tuning.cc), with the profile's constants:
//  B               = min(intra bandwidth x NVLink or PCIe efficiency,
//                        inter bandwidth x network efficiency), of those that exist
//  intra hop       = ring_nvlink_hop or ring_pcie_hop, at least the wire's latency; tree alike
//  inter hop       = ring_network_hop + the wire's latency; tree alike
//  ring            = ring_base + (N - n) intra hops + (n - 1) inter hops (none when n = 1), twice
//                    that many hops for all-reduce; bytes as above over B
//  tree all-reduce = tree_base + 2 ((ranks per node - 1) intra hops + floor(log2 n) inter hops)
//                    + 2 S / (0.92 B): a chain inside each node, trees between nodes; NCCL gives
//                    trees 0.92 of the ring's bus bandwidth, and half of a bus bandwidth is the
//                    algorithm bandwidth
//  broadcast,
//  reduce          = ring: NCCL has no other
//  all-to-all, scatter, gather, send_recv
//                  = ring_base + one hop of the farthest kind + the longer of the transfers over
//                    links inside nodes and between them (collective_price.h), each at the
//                    bandwidth that those links achieve
// Protocols for small messages and reduction in switches are not modeled here.
//
// kAuto takes the faster of ring and tree if there is a tree, and the ring on a tie. (A scenario on
// a flat cluster uses the ring unless it says otherwise.)
//
// Shares: the hop that limits B has share 1 of kScaleUp (inside nodes) or kNetwork (between them),
// the other one in proportion. The multiprocessors and memory bandwidth that a collective takes
// from concurrent kernels are not counted.

// Returns the mean number of bytes that a rank of the group sends, for ring and tree. All-reduce
// has 2 (N - 1) / N S; scatter and gather have (N - 1) / N^2 S; send_recv has S. All other kinds
// have (N - 1) / N S. Zero for one rank.
double WireBytesPerRank(CollectiveKind kind, Bytes bytes, int ranks);

// Returns a lower bound of the time of a collective over the ring's links, at raw bandwidth B. It
// is 2 (N - 1) / N S / B for all-reduce, (N - 1) / N S / B for reduce-scatter and all-gather, and S
// / B for broadcast and reduce. Exchanges do not follow the ring; their bound is
// FastestExchangeTimes. Zero for one rank or an unknown bandwidth.
Time BandwidthBound(CollectiveKind kind, Bytes bytes, const topology::CommunicationPath& path);

// Returns a lower bound for measured times. On a flat cluster, this is BandwidthBound. On real
// fabrics, switches may reduce and copy for the ranks. There, only the data counts that each rank
// (or each node, if there are several) must send once. The bound is then (N - 1) / N S or (n - 1) /
// n S over the links' raw bandwidth. For broadcast and reduce, the time is S over this bandwidth.
// For exchanges, the time is BandwidthBound.
Time MeasurementBound(CollectiveKind kind, Bytes bytes, const topology::CommunicationPath& path);

// Returns the modeled price of a collective. Requires path.ranks = 1, or path.ring_bandwidth > 0
// and, unless the path is flat, `links`.
CollectivePrice PriceModelledCollective(CollectiveKind kind, Bytes bytes,
                                        const topology::CommunicationPath& path,
                                        const calibration::LinkCosts* links,
                                        scenario::CollectiveAlgorithm algorithm);

// Returns the price of a collective from a measured table of the same kind and group shape. The
// time of the table's first point, but at most the whole time, counts as latency. `links` may be
// null; they only affect the shares. Requires that no table point is faster than MeasurementBound.
CollectivePrice PriceTabulatedCollective(Bytes bytes, const topology::CommunicationPath& path,
                                         const calibration::LinkCosts* links,
                                         const calibration::CollectiveTable& table);

}  // namespace stepcast::cost
