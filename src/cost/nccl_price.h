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

// Collectives as NCCL runs them on CUDA devices in a real topology.
//
// Algorithm, protocol and channels are the tuner's choice (src/nccl) for a communicator of the
// group's shape, with the user's NCCL_ALGO and NCCL_PROTO. All-to-all, scatter, gather and
// send_recv are sends and receives, which the tuner does not choose for (nccl/exchange.h). The
// time, best source first:
//
//   1  a published curve of the profile with exactly this collective, ranks and nodes: the law's
//      time (4) times measured over law, between the measured sizes interpolated (curve_time.h)
//                                                     measured, interpolated or extrapolated
//   2  the same over exactly this group, as all-gather for reduce-scatter and the other way round:
//      both send the same bytes in the same steps                                transferred
//   3  curves of this collective (then of its twin) over fewer and over more ranks: the law's time
//      times measured over law at the same size. Of each side the nearest curve counts, by the
//      doublings of ranks and of the size beyond its ends; between two that factor is interpolated
//      over the logarithm of the ranks. Beyond the last number of ranks it fades into the law's
//      own, 1, within kFadeDoublings of it. Of groups on several nodes only those with as many ranks to a node
//      count, and rings on direct NVLinks say nothing about rings that other GPUs relay
//                                                                                transferred
//   4  the profile's law (calibration/collective_curves.h) over the tuner's latency and bandwidth;
//      for sends and receives over those of nccl/exchange.h, by the figures of LL or Simple
//                                                                                modelled
//
// A factor says how well the law knows one mechanism. So of each curve only the sizes count at
// which data pass through a switch that reduces, or do not, as here: where a curve begins with
// large buffers that switches add up, it says nothing about small ones that trees do. Where it goes
// on with the other mechanism the factor fades as beyond the last number of ranks; where the curve
// itself ends it stays.
//
// More nodes are not faster: where all this has a group faster than one of half as many nodes, a
// quarter and so on to a single one, it takes as long as the slowest of them. The law knows one algorithm better
// than another, and NCCL changes from one to the other as nodes are added. What was measured on
// exactly these nodes stands.
//
// NCCL chooses by constants of its own for NVLinks of a GPU's generation; how long the choice takes
// follows from the links that are there. So where they are faster the choice is the same, and its
// transfers over NVLink are shorter in proportion.
//
// Curves of the release of NCCL that runs come first, then those of newer ones, the nearest first,
// then of older ones (nccl_setting.h).
//
// A curve counts where the user lets NCCL choose as when it was measured (none was measured with
// reduction in the network), GPUs of a node meet over the same kind of link, and nodes by
// transports that are alike (base/transport.h): how long a small message takes is the transport's
// affair. Those of machines with a GPU's NVLinks and the network between nodes within 10 % of these
// come first. Where there are none, a curve of other links says how well the law knows its own
// machine, and the law's time here times that factor is the price
//                                                                                transferred
//
// No time is below what the algorithm needs on the raw links (collective_price.h); the law's
// transfers count at least what the links take at the profile's efficiencies, so that a network
// that NCCL does not see (a spine that is too narrow) slows them; and the tuner's latency counts at
// least what a message takes along the links, of which the law stretches nothing.
//
// Without RDMA (Transport::kSockets) the data of each of NCCL's channels go over TCP connections of
// that channel. Each connection has a largest rate in bytes per second. The data pass the host's
// memory: the GPU writes them there, the kernel
// copies them, the card reads them, and the same the other way round. So a transfer takes at least
// as long as the connections of the channels in use, and as eight passes over the host's memory for
// each byte that a node sends while it receives as much, where the topology says how fast that is.
// NCCL's choice knows nothing of either. A tree's data leave a node for its parent and its children
// over connections of their own, two at a time.
//
// Where NVLink joins GPUs directly and not all with each other, NCCL passes data through GPUs in
// between, which the topology's rings do not: the links inside the node then set no bound.
//
// Shares: from launch to end a collective holds one multiprocessor for each of its channels; it
// reads and writes 3 bytes of device memory for each byte that a rank sends through rings and trees
// (the neighbour's data arrive in a buffer, are read there, and are combined with or copied to the
// rank's own), and 2 for each byte of the buffer where a switch reduces; links as far as they are
// needed.
namespace stepcast::cost {

// The members of a group: how many ranks on how many nodes, and which GPUs of the fullest node.
struct GroupShape {
  int ranks = 1;
  int nodes = 1;
  std::vector<int> gpus;

  friend auto operator<=>(const GroupShape&, const GroupShape&) = default;
};
// `ranks` as a program's groups have them, placed on nodes of `gpus_per_node` in order.
GroupShape ShapeOf(std::span<const int> ranks, int gpus_per_node);

struct NcclSetting {
  const topology::Cluster* cluster = nullptr;  // not flat
  const topology::Gpu* gpu = nullptr;          // a CUDA device
  const calibration::LinkCosts* links = nullptr;
  const calibration::CollectiveLaw* law = nullptr;
  std::vector<std::shared_ptr<const calibration::CurveFile>> curves;  // the most trusted first
  nccl::Version version = nccl::Version::kV230;
  nccl::Overrides overrides;
  bool multicast = true;  // the driver lets NVSwitch multicast, which NVLS takes
  bool collnet = false;   // cards may let the fabric's switches reduce (NCCL_COLLNET_ENABLE)
};

// Keeps what it has found out about groups; one for each thread.
class NcclPricer {
 public:
  explicit NcclPricer(NcclSetting setting);

  // None when the user's settings exclude every algorithm or protocol that could do it. Requires
  // path.ranks > 1, and `shape` of the same group.
  // `communicator`: a message's, of which the group is the two ends (kSendRecv).
  std::optional<CollectivePrice> Price(CollectiveKind kind, Bytes bytes,
                                       const topology::CommunicationPath& path,
                                       const GroupShape& shape,
                                       const GroupShape* communicator = nullptr);

  // Over how many doublings of ranks beyond the last that was measured a factor fades.
  static constexpr double kFadeDoublings = 8;

  // The law's time, without curves.
  std::optional<CollectivePrice> PriceByLaw(CollectiveKind kind, Bytes bytes,
                                            const topology::CommunicationPath& path,
                                            const GroupShape& shape);

  // What NCCL takes for a collective, and what would be fastest of all that it may take here: both
  // by the law, without curves, which there are of its own choices alone. The least by which it is
  // faster is the law's median error on measurements that it was not fitted to (`validate
  // collectives`: held back, without curves).
  static constexpr double kLeastFaster = 0.09;
  struct FasterChoice {
    CollectivePrice taken, fastest;
  };
  // None where by the law nothing is so much faster, for exchanges, of which NCCL chooses no
  // algorithm, and where the settings exclude all.
  std::optional<FasterChoice> FasterByLaw(CollectiveKind kind, Bytes bytes,
                                          const topology::CommunicationPath& path,
                                          const GroupShape& shape);

  // Channels, and the shares of what they hold, for a price that came from elsewhere: a table of
  // the user's. Leaves it as it is where NCCL could not do the collective.
  void AddShares(CollectiveKind kind, Bytes bytes, const topology::CommunicationPath& path,
                 const GroupShape& shape, CollectivePrice& price);

 private:
  // An estimate is the algorithm that NCCL chooses and the time, in microseconds, that the tuning
  // model gives for it.
  struct Estimate;
  struct Timed;
  // How fast a machine's links are: its NVLinks over those that NCCL's figure stands for, and its
  // network over this cluster's.
  struct LinkSpeeds {
    double nvlink = 1;
    double network = 1;
    friend auto operator<=>(const LinkSpeeds&, const LinkSpeeds&) = default;
  };
  using Machine = std::pair<GroupShape, LinkSpeeds>;
  // The sizes of a curve at which data pass through a switch that reduces, or those at which they
  // do not, beside the law's times on the machine that it was measured on.
  struct Part {
    std::vector<calibration::TimePoint> points;
    std::vector<double> law;  // us, of points
  };
  // A measured curve.
  struct Anchor {
    int ranks = 0;
    bool is_twin = false;       // of the collective that sends the same bytes
    std::array<Part, 2> parts;  // [in a switch]
    const Part& Of(const Estimate& estimate) const;
  };
  // The curves that may speak for a group, the most trusted first of each tier, found when they are
  // asked for: on links like these of exactly the group, of others, then the same on other links.
  struct Group {
    bool any = true;  // the settings leave curves that are like what they leave NCCL
    std::array<std::optional<std::vector<Anchor>>, 4> tiers;
  };
  // A correction is the factor by which measured times differ from the tuning model's, and says
  // where it comes from.
  struct Correction {
    double factor = 1;
    Provenance provenance = Provenance::kModelled;
  };

  // A group's tuner.
  struct Communicator {
    nccl::CommunicatorModel model;   // as NCCL sees it: what it chooses by
    nccl::CommunicatorModel timing;  // the same channels over NVLinks of the speed that they have
    nccl::PathType ring_type;        // what rings pass through inside the node
    int compute_channels = 1;
    bool nvlink() const { return ring_type <= nccl::PathType::kNvlinkBridge; }
  };

  nccl::Node NodeOf(const Machine& machine) const;
  const Communicator& CommunicatorOf(const Machine& machine);
  const Communicator& CommunicatorOf(const GroupShape& shape) {
    return CommunicatorOf(Machine(shape, own_));
  }
  // `communicator`: as Price() has it; its other GPUs relay between those of the group.
  const nccl::ExchangeModel& ExchangeOf(const Machine& machine,
                                        const GroupShape* communicator = nullptr);
  topology::CommunicationPath LinksOf(const topology::CommunicationPath& path,
                                      const GroupShape& shape,
                                      const GroupShape* communicator = nullptr);
  struct Way {
    // Where it is not NCCL that chooses.
    std::optional<std::pair<nccl::Algorithm, nccl::Protocol>> choice{};
    const GroupShape* communicator = nullptr;  // null: the group itself
  };
  std::optional<Estimate> EstimateOf(CollectiveKind kind, Bytes bytes, const Machine& machine,
                                     const Way& way);
  Estimate EstimateExchange(CollectiveKind kind, Bytes bytes, const Machine& machine,
                            const GroupShape* communicator);
  Group& GroupOf(CollectiveKind kind, const topology::CommunicationPath& path,
                 const GroupShape& shape);
  // The measured curves of `kind` that a price may lean on. `like_these`: those of machines whose
  // links are like this one's, else those of all other machines. `exact`: those measured with
  // exactly the group's number of ranks, else those with other numbers.
  std::vector<Anchor> FindCurves(CollectiveKind kind, const topology::CommunicationPath& path,
                                 const GroupShape& shape, bool like_these, bool exact);
  // How fast the links of a file's machine are; none where its data passed through other kinds of
  // links. `like_these`: whether those count that are like this machine's, or all others.
  std::optional<LinkSpeeds> SpeedsOf(const calibration::CurveFile& file,
                                     const topology::CommunicationPath& path,
                                     const GroupShape& shape, bool like_these) const;
  // None where the topology has no such group, or the settings exclude what was measured.
  std::optional<Anchor> AnchorOf(const calibration::CollectiveCurve& curve, CollectiveKind kind,
                                 const topology::CommunicationPath& path, const GroupShape& shape,
                                 const LinkSpeeds& speeds);
  // The first tier of curves that has measured the estimate's algorithm and protocol gives the
  // correction. Where none has, the factor is 1 and the provenance is kModelled.
  Correction CorrectionOf(CollectiveKind kind, Bytes bytes, const topology::CommunicationPath& path,
                          const GroupShape& shape, const Estimate& estimate);
  static std::optional<Correction> CorrectionBy(const std::vector<Anchor>& anchors,
                                                const GroupShape& shape, Bytes bytes,
                                                const Estimate& estimate);
  std::optional<Timed> TimeOf(CollectiveKind kind, Bytes bytes,
                              const topology::CommunicationPath& path, const GroupShape& shape,
                              bool use_curves, const Way& way);
  // Makes `timed` at least what a half of the nodes takes, a quarter and so on.
  void NotFasterThanFewerNodes(CollectiveKind kind, Bytes bytes,
                               const topology::CommunicationPath& path, const GroupShape& shape,
                               Timed& timed);
  std::optional<CollectivePrice> PriceWith(CollectiveKind kind, Bytes bytes,
                                           const topology::CommunicationPath& path,
                                           const GroupShape& shape, bool use_curves,
                                           const Way& way);
  // The law on a group's links: an estimate that is not faster than they are. `path` is that of
  // the cluster's own links.
  std::optional<Estimate> OnLinks(CollectiveKind kind, Bytes bytes,
                                  const topology::CommunicationPath& path, const Machine& machine,
                                  const Way& way);
  // How long what leaves a node takes over TCP connections and through the host's memory, in
  // microseconds; 0 where there is RDMA. `inter`: what it takes on the raw links of `path`.
  double OnSockets(CollectiveKind kind, Time inter, const topology::CommunicationPath& path,
                   const Estimate& estimate) const;
  void SetShares(CollectiveKind kind, Bytes bytes, const topology::CommunicationPath& path,
                 const Estimate& estimate, CollectivePrice& price) const;

  // Whether ranks are on them or not.
  int GpusOfANode() const {
    return setting_.cluster->node_type()->Count(topology::DeviceKind::kGpu);
  }

  NcclSetting setting_;
  Bandwidth nvlink_, pcie_;  // of a GPU
  LinkSpeeds own_;
  std::map<Machine, Communicator> communicators_;
  std::map<std::pair<Machine, std::vector<int>>, nccl::ExchangeModel> exchanges_;  // with relays
  // The keys are the kind, the group's shape, and the bandwidth that a node has to other nodes.
  std::map<std::tuple<CollectiveKind, GroupShape, std::int64_t>, Group> groups_;
};

// How far measured collectives are from their forecasts: nine of ten lie between `low` and `high`
// times the forecast. By where the price comes from, the size, and the links. Source: all points of
// `stepcast validate collectives`; held-back ones where curves were read, the law's errors
// elsewhere.
struct CollectiveSpread {
  double low = 1, high = 1;
};
CollectiveSpread SpreadOf(Provenance provenance, Bytes bytes,
                          const topology::CommunicationPath& path);

// Names of NCCL's algorithms in forecasts: "ring", "nvls_tree".
const char* AlgorithmName(nccl::Algorithm algorithm);

}  // namespace stepcast::cost
