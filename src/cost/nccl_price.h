#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/calibration/calibration.h"
#include "src/cost/prices.h"
#include "src/nccl/communicator_model.h"
#include "src/nccl/exchange.h"
#include "src/nccl/node.h"
#include "src/nccl/overrides.h"
#include "src/nccl/version.h"
#include "src/topology/cluster.h"
#include "src/topology/device.h"
#include "src/topology/routes.h"

// Prices of collectives as NCCL runs them on CUDA devices in a real topology.
//
// NCCL's tuner (src/nccl) chooses algorithm, protocol and channels for a communicator of the
// group's shape, given the user's NCCL_ALGO and NCCL_PROTO. All-to-all, scatter, gather and
// send_recv are point-to-point messages without such a choice (nccl/exchange.h). The first
// applicable method determines the time. "Law" is the model of calibration/collective_curves.h.
//
//   1. A published curve of the profile for exactly this collective, ranks and nodes: the law's
//      time (method 4) times measured over law, interpolated between the measured sizes
//      (curve_time.h). Provenance: measured, interpolated or extrapolated.
//   2. The same with all-gather for reduce-scatter and vice versa, because both send the same bytes
//      in the same steps. Provenance: transferred.
//  3. Curves of this collective (or of the other collective as in method 2) over fewer and over
//    more ranks: the law's time times measured over law at the same size. The curve nearest in
//    ranks and size is used on each side. The factor is interpolated over the logarithm of the
//    ranks. Beyond the largest number of ranks, the factor approaches 1 within kFadeDoublings
//    doublings. For groups on several nodes, curves must have the same ranks per node. Curves of
//    rings on direct NVLinks do not apply if other GPUs relay the ring. Provenance: transferred.
//   4. The profile's law, from the tuner's latency and bandwidth. For point-to-point messages, the
//      law uses latency and bandwidth of nccl/exchange.h and the constants of LL or Simple.
//      Provenance: modelled.
//
// A factor describes the law's error with or without reduction in a switch. A size of a curve is
// used only if the measured and the priced collective agree on reduction in a switch. (Times of
// large buffers reduced in switches do not predict times of small buffers reduced by trees.) Beyond
// these sizes, the factor approaches 1. Beyond the end of a curve, the factor is constant.
//
// A group on more nodes is never faster: the time is the maximum over groups on all, half, a
// quarter, ... of the nodes. (The accuracy of the law depends on the algorithm, so times could
// otherwise decrease where NCCL changes the algorithm.) Times measured on exactly this number of
// nodes are not changed.
//
// NCCL chooses with its own constants for the NVLinks of a GPU generation, but the time depends on
// the actual links. Faster NVLinks do not change the choice, but shorten transfers in proportion.
//
// Curves of the running NCCL release are preferred, then curves of the nearest newer release, then
// curves of older releases (nccl_setting.h).
//
// A curve is used only under three conditions:
//   - The user's settings leave NCCL the choice that was measured. (No curve was measured with
//     reduction in the network.)
//   - The same kind of link connects the GPUs of a node.
//   - The transports between nodes are alike (base/transport.h), because the transport determines
//     the time of small messages.
// Machines whose NVLink and network bandwidths are within 10 % of this machine are preferred. If no
// curve is from these machines, the law's error on another machine corrects the law's time on this
// machine (provenance: transferred).
//
// The time is never shorter than the algorithm needs on the raw links (collective_price.h). The
// law's transfers take at least the time of the links at the profile's efficiencies, because NCCL
// ignores some bottlenecks (for example, a narrow spine). The tuner's latency is at least the
// latency of a message along the links.
//
// Without RDMA (Transport::kSockets), each of NCCL's channels uses separate TCP connections, which
// have a maximum rate. Data pass through host memory on both nodes. A transfer therefore takes at
// least the time of the connections of its channels. If the topology specifies the bandwidth of
// host memory, a transfer also takes at least eight passes over host memory per byte that a node
// sends. NCCL's choice ignores the limits of TCP connections and host memory. With trees, a node
// sends over two connections at a time, to its parent and to its children.
//
// If only some pairs of GPUs have direct NVLinks, NCCL relays data through other GPUs. The
// topology's rings do not model relays, so the links inside the node are no lower bound.
//
// Shares: a collective reserves one multiprocessor per channel from launch to end. Rings and trees
// access 3 bytes of device memory per byte that a rank sends. Received data are written to a
// buffer, read, and then added to the rank's data or copied there. With reduction in a switch, they
// access 2 bytes per byte of the buffer. The shares of links follow from the bytes on each link.
namespace stepcast::cost {

// The shape of a group: numbers of ranks and nodes, and the GPUs of the node with the most ranks.
struct GroupShape {
  int ranks = 1;
  int nodes = 1;
  std::vector<int> gpus;

  friend auto operator<=>(const GroupShape&, const GroupShape&) = default;
};
// Returns the shape of a group. `ranks` are global ranks, which fill nodes of `gpus_per_node` GPUs
// in order.
GroupShape ShapeOf(std::span<const int> ranks, int gpus_per_node);

struct NcclSetting {
  const topology::Cluster* cluster = nullptr;  // must not be flat
  const topology::Gpu* gpu = nullptr;          // must be a CUDA device
  const calibration::LinkCosts* links = nullptr;
  const calibration::CollectiveLaw* law = nullptr;
  std::vector<std::shared_ptr<const calibration::CurveFile>> curves;  // most trusted first
  nccl::Version version = nccl::Version::kV230;
  nccl::Overrides overrides;
  bool multicast = true;  // the driver supports NVSwitch multicast, which NVLS needs
  bool collnet = false;   // NICs may use reduction in network switches (NCCL_COLLNET_ENABLE)
};

// The collective of a group for which NCCL's choice or price is requested. The members are
// references; their objects must outlive this object.
struct Asked {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Bytes bytes;
  const topology::CommunicationPath& path;
  const GroupShape& shape;  // shape of the group of `path`

  // Returns a copy of the query with other links.
  Asked On(const topology::CommunicationPath& links) const { return {kind, bytes, links, shape}; }
};

// Prices collectives and caches results by group. Not thread-safe; use one object per thread.
class NcclPricer {
 public:
  explicit NcclPricer(NcclSetting setting);

  // Returns the price of a collective, or none if the user's settings exclude every algorithm or
  // protocol. Requires path.ranks > 1, and `shape` of the same group. For a message (kSendRecv),
  // the group consists of sender and receiver, and `communicator` contains both.
  std::optional<CollectivePrice> Price(const Asked& asked,
                                       const GroupShape* communicator = nullptr);

  // Beyond the largest measured number of ranks, a correction factor approaches 1 within this
  // number of doublings.
  static constexpr double kFadeDoublings = 8;

  // Returns the price by the law only, without curves.
  std::optional<CollectivePrice> PriceByLaw(const Asked& asked);

  // NCCL's choice for a collective, and the fastest possible choice. Both choices are priced by the
  // law, because curves exist only for NCCL's own choices. kLeastFaster is the smallest reported
  // advantage: the law's median error on held-back measurements (`validate collectives`, without
  // curves).
  static constexpr double kLeastFaster = 0.09;
  struct FasterChoice {
    CollectivePrice taken, fastest;
  };
  // Returns a choice that is faster than NCCL's choice by at least kLeastFaster. None if no such
  // choice exists, if the settings exclude every choice, and for exchanges.
  std::optional<FasterChoice> FasterByLaw(const Asked& asked);

  // Sets the channels and resource shares of a price that comes from another source, such as a
  // user's table. Has no effect if NCCL cannot run the collective.
  void AddShares(const Asked& asked, CollectivePrice& price);

 private:
  // The algorithm that NCCL chooses, and its time in microseconds by the tuning model.
  struct Estimate;
  struct Timed;
  // The link speeds of a machine: its NVLinks relative to NCCL's constant, and its network relative
  // to the network of the priced cluster.
  struct LinkSpeeds {
    double nvlink = 1;
    double network = 1;
    friend auto operator<=>(const LinkSpeeds&, const LinkSpeeds&) = default;
  };
  using Machine = std::pair<GroupShape, LinkSpeeds>;
  // The points of a curve with, or without, reduction in a switch, and the law's times for their
  // sizes on the measured machine.
  struct Part {
    std::vector<calibration::TimePoint> points;
    std::vector<double> law;  // in microseconds, by point
  };
  // A measured curve, prepared for corrections.
  struct Anchor {
    int ranks = 0;
    bool is_twin = false;       // measured for the other of the two collectives (method 2)
    std::array<Part, 2> parts;  // index: whether reduction is in a switch
    const Part& Of(const Estimate& estimate) const;
  };
  // The curves that may apply to a group, computed on demand. Each of the four tiers starts with
  // the most trusted curve:
  //   - similar links, exactly the group's ranks
  //   - similar links, other numbers of ranks
  //   - other links, exactly the group's ranks
  //   - other links, other numbers of ranks
  struct Group {
    bool any = true;  // some curve has an algorithm that the settings allow
    std::array<std::optional<std::vector<Anchor>>, 4> tiers;
  };
  // The factor measured / modeled time, and its provenance.
  struct Correction {
    double factor = 1;
    Provenance provenance = Provenance::kModelled;
  };

  // The tuning models of a group.
  struct Communicator {
    nccl::CommunicatorModel model;  // with NCCL's own constants; determines the choice
    // The model with the same channels and the actual NVLink speed, which determines the time.
    nccl::CommunicatorModel timing;
    nccl::PathType ring_type;  // the links of rings inside the node
    int compute_channels = 1;
    bool nvlink() const { return ring_type <= nccl::PathType::kNvlinkBridge; }
  };

  nccl::Node NodeOf(const Machine& machine) const;
  const Communicator& CommunicatorOf(const Machine& machine);
  const Communicator& CommunicatorOf(const GroupShape& shape) {
    return CommunicatorOf(Machine(shape, own_));
  }
  // Returns the model of exchanges. `communicator` is as in Price(). The communicator's GPUs
  // outside the group relay data between GPUs of the group.
  const nccl::ExchangeModel& ExchangeOf(const Machine& machine,
                                        const GroupShape* communicator = nullptr);
  topology::CommunicationPath LinksOf(const Asked& asked, const GroupShape* communicator = nullptr);
  struct Way {
    // The choice to be priced, or none for NCCL's choice.
    std::optional<std::pair<nccl::Algorithm, nccl::Protocol>> choice{};
    const GroupShape* communicator = nullptr;  // null: the group itself
  };
  std::optional<Estimate> EstimateOf(CollectiveKind kind, Bytes bytes, const Machine& machine,
                                     const Way& way);
  Estimate EstimateExchange(CollectiveKind kind, Bytes bytes, const Machine& machine,
                            const GroupShape* communicator);
  Group& GroupOf(const Asked& asked);
  // Returns the measured curves that a price may use. `like_these`: from machines with similar
  // links, otherwise from all other machines. `exact`: with the group's number of ranks, otherwise
  // with other numbers.
  std::vector<Anchor> FindCurves(const Asked& asked, bool like_these, bool exact);
  // Returns the link speeds of a file's machine. None if the file's collectives used another kind
  // of link, or if the similarity of the two machines does not equal `like_these`.
  std::optional<LinkSpeeds> SpeedsOf(const calibration::CurveFile& file, const Asked& asked,
                                     bool like_these) const;
  // Returns a curve as an anchor. None if the curve's topology has no group of this shape, or if
  // the settings exclude the measured choice.
  std::optional<Anchor> AnchorOf(const calibration::CollectiveCurve& curve, const Asked& asked,
                                 const LinkSpeeds& speeds);
  // Returns the correction from the first tier with curves for the estimate's algorithm and
  // protocol. If no tier has such curves, the factor is 1 and the provenance is kModelled.
  Correction CorrectionOf(const Asked& asked, const Estimate& estimate);
  static std::optional<Correction> CorrectionBy(const std::vector<Anchor>& anchors,
                                                const Asked& asked, const Estimate& estimate);
  std::optional<Timed> TimeOf(const Asked& asked, bool use_curves, const Way& way);
  // Makes `timed` at least as long as on half of the nodes, a quarter of the nodes, and so on.
  void NotFasterThanFewerNodes(const Asked& asked, Timed& timed);
  std::optional<CollectivePrice> PriceWith(const Asked& asked, bool use_curves, const Way& way);
  // Returns the law's estimate for a group's links, but at least the time that the links need. The
  // path in `asked` must be on this cluster.
  std::optional<Estimate> OnLinks(const Asked& asked, const LinkSpeeds& speeds, const Way& way);
  // Returns the time, in microseconds, of a node's outgoing traffic over TCP connections and
  // through host memory. 0 with RDMA. `inter` is the time of this traffic on the raw links of
  // `path`.
  double OnSockets(CollectiveKind kind, Time inter, const topology::CommunicationPath& path,
                   const Estimate& estimate) const;
  void SetShares(const Asked& asked, const Estimate& estimate, CollectivePrice& price) const;

  // Returns the number of GPUs of a node, including GPUs outside the job.
  int GpusOfANode() const {
    return setting_.cluster->node_type()->Count(topology::DeviceKind::kGpu);
  }

  NcclSetting setting_;
  Bandwidth nvlink_, pcie_;  // bandwidth per GPU
  LinkSpeeds own_;
  std::map<Machine, Communicator> communicators_;
  // The exchange models, indexed by machine and by the list of GPUs that relay data.
  std::map<std::pair<Machine, std::vector<int>>, nccl::ExchangeModel> exchanges_;
  // The groups, indexed by kind, shape, and bandwidth from a node to other nodes.
  std::map<std::tuple<CollectiveKind, GroupShape, std::int64_t>, Group> groups_;
};

// The range of measured / forecast time that contains 90 % of measured collectives, by provenance,
// size and links. From all points of `stepcast validate collectives`: held-back points if curves
// apply, otherwise the law's errors.
struct CollectiveSpread {
  double low = 1, high = 1;
};
CollectiveSpread SpreadOf(Provenance provenance, Bytes bytes,
                          const topology::CommunicationPath& path);

// Returns the name of an NCCL algorithm for output, such as "ring" or "nvls_tree".
const char* AlgorithmName(nccl::Algorithm algorithm);

}  // namespace stepcast::cost
