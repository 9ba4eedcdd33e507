#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/calibration/calibration.h"
#include "src/cost/prices.h"
#include "src/nccl/communicator_model.h"
#include "src/nccl/exchange.h"
#include "src/nccl/overrides.h"
#include "src/nccl/path_type.h"
#include "src/nccl/version.h"
#include "src/topology/cluster.h"
#include "src/topology/communication_path.h"
#include "src/topology/gpu.h"

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
//   3  a curve of this collective (then of its twin) over another number of ranks: the law's time
//      times measured over law at the same size. Between two numbers of ranks that factor is
//      interpolated over the logarithm of the ranks; beyond the last it stays as it is. It says
//      how well the law knows one mechanism, so the data must pass through the same: one node says
//      nothing about several, a switch that reduces nothing about GPUs that do, rings on direct
//      NVLinks nothing about rings that other GPUs relay; of groups on several nodes only those
//      with as many ranks to a node count                                        transferred
//   4  the profile's law (calibration/collective_law.h) over the tuner's latency and bandwidth;
//      for sends and receives over those of nccl/exchange.h, by the figures of LL or Simple
//                                                                                modelled
//
// NCCL chooses by constants of its own for NVLinks of a GPU's generation; how long the choice takes
// follows from the links that are there. So where they are faster the choice is the same, and its
// transfers over NVLink are shorter in proportion.
//
// A curve counts where the user lets NCCL choose as when it was measured (none was measured with
// reduction in the network), and GPUs of a node meet over the same kind of link. Those of machines
// with a GPU's NVLinks and the network between nodes within 10 % of these come first. Where there
// are none, a curve of other links says how well the law knows its own machine, and the law's time
// here times that factor is the price                                               transferred
//
// No time is below what the algorithm needs on the raw links (collective_bounds.h); the law's
// transfers count at least what the links take at the profile's efficiencies, so that a network
// that NCCL does not see (a spine that is too narrow) slows them; and the tuner's latency counts at
// least what a message takes along the links, of which the law stretches nothing.
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
  std::span<const std::shared_ptr<const calibration::CurveFile>> curves;
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
  struct Estimate;
  // How fast a machine's links are: its NVLinks over those that NCCL's figure stands for, and its
  // network over this cluster's.
  struct LinkSpeeds {
    double nvlink = 1;
    double network = 1;
    friend auto operator<=>(const LinkSpeeds&, const LinkSpeeds&) = default;
  };
  using Machine = std::pair<GroupShape, LinkSpeeds>;
  // A measured curve beside the law's times for its sizes on the machine that it was measured on.
  struct Anchor {
    const calibration::CollectiveCurve* curve = nullptr;  // null: there is none
    GroupShape shape;                                     // that the curve is of
    LinkSpeeds speeds;                                    // of its machine
    std::vector<double> law;                              // us, of curve->fit
  };
  // The curves that speak for a group.
  struct Group {
    std::vector<Anchor> exact;  // of the collective or its twin, the most trusted first
    bool is_twin = false;
    bool like_these = true;  // whether `exact` was measured on links like these
    Anchor below, above;     // of other numbers of ranks, the nearest
    bool empty() const { return exact.empty() && below.curve == nullptr && above.curve == nullptr; }
    // Of the exact ones that which speaks for a size: the most trusted that was measured around it,
    // else that with the nearest size. Requires one.
    const Anchor& ExactAt(Bytes bytes) const;
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
  const Group& GroupOf(CollectiveKind kind, const topology::CommunicationPath& path,
                       const GroupShape& shape);
  // Finds those of the curves whose machine's links are like these, or of all others.
  void FindCurves(CollectiveKind kind, const topology::CommunicationPath& path,
                  const GroupShape& shape, bool like_these, Group& group);
  std::optional<CollectivePrice> PriceWith(CollectiveKind kind, Bytes bytes,
                                           const topology::CommunicationPath& path,
                                           const GroupShape& shape, bool use_curves,
                                           const Way& way);
  // The law on a group's links: an estimate that is not faster than they are. `path` is that of
  // the cluster's own links.
  std::optional<Estimate> OnLinks(CollectiveKind kind, Bytes bytes,
                                  const topology::CommunicationPath& path, const Machine& machine,
                                  const Way& way);
  // None where the topology has no such group, or the settings exclude what was measured.
  std::optional<Anchor> AnchorOf(const calibration::CollectiveCurve& curve,
                                 const LinkSpeeds& speeds);
  // By how much the law is wrong at a size, by a curve of other ranks; none where that curve's data
  // pass through a switch that reduces, and these do not, or the other way round.
  std::optional<double> CorrectionBy(const Anchor& anchor, Bytes bytes, const Estimate& estimate);
  void SetShares(CollectiveKind kind, Bytes bytes, const topology::CommunicationPath& path,
                 const Estimate& estimate, CollectivePrice& price) const;

  // Whether ranks are on them or not.
  int GpusOfANode() const {
    return setting_.cluster->node_type()->Count(topology::DeviceKind::kGpu);
  }

  NcclSetting setting_;
  Bandwidth nvlink_;  // of a GPU
  LinkSpeeds own_;
  std::map<Machine, Communicator> communicators_;
  std::map<std::pair<Machine, std::vector<int>>, nccl::ExchangeModel> exchanges_;  // with relays
  std::map<std::pair<CollectiveKind, GroupShape>, Group> groups_;
};

// Names of NCCL's algorithms in forecasts: "ring", "nvls_tree".
const char* AlgorithmName(nccl::Algorithm algorithm);

}  // namespace stepcast::cost
