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
// send_recv are sends and receives, for which the tuner makes no choice (nccl/exchange.h). Sources
// of the time, best first:
//
//  1  a published curve of the profile for exactly this collective, ranks and nodes: the law's
//     time (4) times measured over law, interpolated between the measured sizes (curve_time.h)
//                                                    measured, interpolated or extrapolated
//  2  the same for exactly this group, with all-gather for reduce-scatter and vice versa: both
//     send the same bytes in the same steps                                     transferred
//  3  curves of this collective (then of its twin) over fewer and over more ranks: the law's time
//     times measured over law at the same size. On each side the nearest curve counts, by the
//     doublings of ranks and of the size beyond its ends; between the two, that factor is
//     interpolated over the logarithm of the ranks. Beyond the largest number of ranks it fades
//     to the law's own, 1, within kFadeDoublings. For groups on several nodes only curves with
//     the same ranks per node count, and rings on direct NVLinks do not represent rings that
//     other GPUs relay
//                                                                               transferred
//  4  the profile's law (calibration/collective_curves.h) over the tuner's latency and bandwidth;
//     for sends and receives over those of nccl/exchange.h, by the figures of LL or Simple
//                                                                               modelled
//
// A factor describes the law's error for one mechanism: reduction in a switch, or not. From each
// curve, only the sizes with the mechanism in use here count. A curve that starts with large
// buffers reduced in switches says nothing about small ones reduced by trees. If a curve continues
// with the other mechanism, the factor fades as beyond the largest number of ranks. If the curve
// itself ends, the factor stays.
//
// More nodes are never faster. If a group would be faster than one of half as many nodes, a quarter
// and so on down to one, it takes the time of the slowest of them. (The law is more accurate for
// some algorithms than for others, and NCCL changes algorithms as nodes are added.) Times measured
// on exactly these nodes are kept.
//
// NCCL's choice uses its own constants for the NVLinks of a GPU's generation, but the duration
// follows from the actual links. Faster NVLinks leave the choice unchanged and shorten transfers
// over NVLink in proportion.
//
// Curves of the running NCCL release come first, then those of newer ones, the nearest first, then
// those of older ones (nccl_setting.h).
//
// A curve counts under three conditions. The user's settings leave NCCL the same choice as when it
// was measured (none was measured with reduction in the network). GPUs of a node meet over the same
// kind of link. The transports between nodes are alike (base/transport.h), because the transport
// determines the time of small messages. Machines whose NVLinks per GPU and network between nodes
// are within 10 % of this one come first. If there are none, a curve of other links gives the law's
// error on its own machine. The law's time here times that factor is the price
//                                                                               transferred
//
// No time is shorter than the algorithm needs on the raw links (collective_price.h). The law's
// transfers take at least the time of the links at the profile's efficiencies, so a bottleneck that
// NCCL does not see (a spine that is too narrow) slows them. The tuner's latency is at least that
// of a message along the links, and the law does not scale this part.
//
// Without RDMA (Transport::kSockets), each of NCCL's channels uses its own TCP connections, and
// each connection has a largest rate. The data pass through host memory: the GPU writes them there,
// the kernel copies them, the card reads them, and the reverse on the other side. A transfer
// therefore takes at least the time of the connections of the channels in use. If the topology
// states the host memory's bandwidth, it also takes at least eight passes over host memory for each
// byte that a node sends (while it receives as much). NCCL's choice takes neither into account. A
// tree's data leave a node for its parent and its children over separate connections, two at a
// time.
//
// If NVLink joins some pairs of GPUs directly but not all, NCCL relays data through other GPUs,
// which the topology's rings do not model. The links inside the node then set no bound.
//
// Shares: from launch to end, a collective holds one multiprocessor for each of its channels.
// Through rings and trees it reads and writes 3 bytes of device memory for each byte that a rank
// sends: the neighbor's data arrive in a buffer, are read there, and are combined with or copied to
// the rank's own. With reduction in a switch, it is 2 for each byte of the buffer. Links are used
// as far as needed.
namespace stepcast::cost {

// The shape of a group: ranks, nodes, and the GPUs of its fullest node.
struct GroupShape {
  int ranks = 1;
  int nodes = 1;
  std::vector<int> gpus;

  friend auto operator<=>(const GroupShape&, const GroupShape&) = default;
};
// Returns the shape of a group. `ranks` are as in a program's groups; they are placed in order on
// nodes of `gpus_per_node` GPUs.
GroupShape ShapeOf(std::span<const int> ranks, int gpus_per_node);

struct NcclSetting {
  const topology::Cluster* cluster = nullptr;  // not flat
  const topology::Gpu* gpu = nullptr;          // a CUDA device
  const calibration::LinkCosts* links = nullptr;
  const calibration::CollectiveLaw* law = nullptr;
  std::vector<std::shared_ptr<const calibration::CurveFile>> curves;  // most trusted first
  nccl::Version version = nccl::Version::kV230;
  nccl::Overrides overrides;
  bool multicast = true;  // the driver supports NVSwitch multicast, which NVLS needs
  bool collnet = false;   // cards may use reduction in the fabric's switches (NCCL_COLLNET_ENABLE)
};

// A call of a collective by a group, for which NCCL's choice or price is asked. The question keeps
// references to its members, which must outlive it.
struct Asked {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Bytes bytes;
  const topology::CommunicationPath& path;
  const GroupShape& shape;  // of the same group

  // Returns the same question for other links.
  Asked On(const topology::CommunicationPath& links) const { return {kind, bytes, links, shape}; }
};

// Prices collectives and caches results for each group. Not thread-safe, so use one object per
// thread.
class NcclPricer {
 public:
  explicit NcclPricer(NcclSetting setting);

  // Returns the price of a collective. None if the user's settings exclude every possible algorithm
  // or protocol. Requires path.ranks > 1, and `shape` of the same group. For a message (kSendRecv),
  // `communicator` is the communicator that the message uses; the group then consists of the two
  // ends of the message.
  std::optional<CollectivePrice> Price(const Asked& asked,
                                       const GroupShape* communicator = nullptr);

  // A factor fades to 1 as the number of ranks exceeds the largest measured number. It reaches 1
  // after this many doublings.
  static constexpr double kFadeDoublings = 8;

  // Returns the price by the law, without curves.
  std::optional<CollectivePrice> PriceByLaw(const Asked& asked);

  // FasterChoice has NCCL's choice for a collective, and the fastest choice that NCCL could make
  // here. Both are priced by the law without curves, because curves exist only for NCCL's own
  // choices. kLeastFaster is the least advantage that is reported. It is the law's median error on
  // measurements to which the law was not fitted (`validate collectives`: held back, without
  // curves).
  static constexpr double kLeastFaster = 0.09;
  struct FasterChoice {
    CollectivePrice taken, fastest;
  };
  // Returns a faster choice by the law. None if no choice is that much faster, if the settings
  // exclude every choice, and for exchanges, for which NCCL chooses no algorithm.
  std::optional<FasterChoice> FasterByLaw(const Asked& asked);

  // Sets the channels and resource shares of a price from another source, such as a user's table.
  // Has no effect if NCCL could not run the collective.
  void AddShares(const Asked& asked, CollectivePrice& price);

 private:
  // An estimate is the algorithm that NCCL chooses and the time, in microseconds, that the tuning
  // model gives for it.
  struct Estimate;
  struct Timed;
  // The link speeds of a machine: the speed of its NVLinks relative to NCCL's figure, and the speed
  // of its network relative to the network of the present cluster.
  struct LinkSpeeds {
    double nvlink = 1;
    double network = 1;
    friend auto operator<=>(const LinkSpeeds&, const LinkSpeeds&) = default;
  };
  using Machine = std::pair<GroupShape, LinkSpeeds>;
  // One part of a curve, either with or without reduction in a switch. It contains the part's
  // sizes, and the law's times for them on the machine of the measurement.
  struct Part {
    std::vector<calibration::TimePoint> points;
    std::vector<double> law;  // us, of points
  };
  // A measured curve that is prepared for corrections.
  struct Anchor {
    int ranks = 0;
    bool is_twin = false;       // of the collective that sends the same bytes
    std::array<Part, 2> parts;  // [in a switch]
    const Part& Of(const Estimate& estimate) const;
  };
  // The curves that may apply to a group, computed on demand. They are in four tiers, each with the
  // most trusted curve first. The first tier has similar links and exactly the group's ranks, and
  // the second has similar links and other ranks. The third and fourth tiers are the same for other
  // links.
  struct Group {
    bool any = true;  // some curve was measured with the choice that the settings leave NCCL
    std::array<std::optional<std::vector<Anchor>>, 4> tiers;
  };
  // The factor by which measured times differ from the times of the tuning model, and the source of
  // this factor.
  struct Correction {
    double factor = 1;
    Provenance provenance = Provenance::kModelled;
  };

  // The tuner of a group.
  struct Communicator {
    nccl::CommunicatorModel model;  // as NCCL sees it: determines the choice
    // The model with the same channels and the actual NVLink speed. It determines the time.
    nccl::CommunicatorModel timing;
    nccl::PathType ring_type;  // the links that rings use inside the node
    int compute_channels = 1;
    bool nvlink() const { return ring_type <= nccl::PathType::kNvlinkBridge; }
  };

  nccl::Node NodeOf(const Machine& machine) const;
  const Communicator& CommunicatorOf(const Machine& machine);
  const Communicator& CommunicatorOf(const GroupShape& shape) {
    return CommunicatorOf(Machine(shape, own_));
  }
  // Returns the model of exchanges. `communicator` is as in Price(). Its GPUs outside the group
  // relay data between the GPUs of the group.
  const nccl::ExchangeModel& ExchangeOf(const Machine& machine,
                                        const GroupShape* communicator = nullptr);
  topology::CommunicationPath LinksOf(const Asked& asked, const GroupShape* communicator = nullptr);
  struct Way {
    // The choice to be priced, if it is not NCCL's own.
    std::optional<std::pair<nccl::Algorithm, nccl::Protocol>> choice{};
    const GroupShape* communicator = nullptr;  // null: the group itself
  };
  std::optional<Estimate> EstimateOf(CollectiveKind kind, Bytes bytes, const Machine& machine,
                                     const Way& way);
  Estimate EstimateExchange(CollectiveKind kind, Bytes bytes, const Machine& machine,
                            const GroupShape* communicator);
  Group& GroupOf(const Asked& asked);
  // Returns the measured curves of `kind` that a price may use. `like_these`: the curves come from
  // machines with links like this one's if true, and from all other machines if false. `exact`: the
  // curves have exactly the group's number of ranks if true, and other numbers if false.
  std::vector<Anchor> FindCurves(const Asked& asked, bool like_these, bool exact);
  // Returns the link speeds of the machine of a file. None if its data used other kinds of links.
  // `like_these`: whether to accept machines like this one, or all others.
  std::optional<LinkSpeeds> SpeedsOf(const calibration::CurveFile& file, const Asked& asked,
                                     bool like_these) const;
  // Returns a curve as an anchor. None if the curve's topology has no such group, or if the
  // settings exclude the measured choice.
  std::optional<Anchor> AnchorOf(const calibration::CollectiveCurve& curve, const Asked& asked,
                                 const LinkSpeeds& speeds);
  // Returns the correction by the first tier of curves that measured the estimate's algorithm and
  // protocol. If no tier did, the factor is 1 and the provenance is kModelled.
  Correction CorrectionOf(const Asked& asked, const Estimate& estimate);
  static std::optional<Correction> CorrectionBy(const std::vector<Anchor>& anchors,
                                                const Asked& asked, const Estimate& estimate);
  std::optional<Timed> TimeOf(const Asked& asked, bool use_curves, const Way& way);
  // Makes `timed` at least as long as the time on half of the nodes, on a quarter, and so on.
  void NotFasterThanFewerNodes(const Asked& asked, Timed& timed);
  std::optional<CollectivePrice> PriceWith(const Asked& asked, bool use_curves, const Way& way);
  // Returns the law's estimate for a group's links, which is no faster than these links allow. The
  // path in `asked` describes this cluster's links.
  std::optional<Estimate> OnLinks(const Asked& asked, const LinkSpeeds& speeds, const Way& way);
  // Returns the time, in microseconds, of the traffic that leaves a node over TCP connections and
  // through host memory. 0 with RDMA. `inter` is the time of this traffic on the raw links of
  // `path`.
  double OnSockets(CollectiveKind kind, Time inter, const topology::CommunicationPath& path,
                   const Estimate& estimate) const;
  void SetShares(const Asked& asked, const Estimate& estimate, CollectivePrice& price) const;

  // Returns the number of GPUs of a node, including GPUs without ranks.
  int GpusOfANode() const {
    return setting_.cluster->node_type()->Count(topology::DeviceKind::kGpu);
  }

  NcclSetting setting_;
  Bandwidth nvlink_, pcie_;  // per GPU
  LinkSpeeds own_;
  std::map<Machine, Communicator> communicators_;
  // The exchange models, indexed by machine and by the GPUs that relay data (the vector in the
  // key).
  std::map<std::pair<Machine, std::vector<int>>, nccl::ExchangeModel> exchanges_;
  // The groups, indexed by kind, by shape, and by the bandwidth from a node to other nodes.
  std::map<std::tuple<CollectiveKind, GroupShape, std::int64_t>, Group> groups_;
};

// How far measured collectives deviate from their forecasts: 90 % of measurements lie between `low`
// and `high` times the forecast. Both depend on the source of the price, the size, and the links.
// They come from all points of `stepcast validate collectives`: from held-back points where curves
// apply, and elsewhere from the law's errors.
struct CollectiveSpread {
  double low = 1, high = 1;
};
CollectiveSpread SpreadOf(Provenance provenance, Bytes bytes,
                          const topology::CommunicationPath& path);

// Returns the name of an NCCL algorithm in forecasts, such as "ring" or "nvls_tree".
const char* AlgorithmName(nccl::Algorithm algorithm);

}  // namespace stepcast::cost
