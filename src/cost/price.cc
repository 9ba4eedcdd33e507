#include "src/cost/price.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "fmt/format.h"
#include "src/base/data_type.h"
#include "src/base/quantity.h"
#include "src/calibration/find_table.h"
#include "src/cost/collective_price.h"
#include "src/cost/collective_table.h"
#include "src/cost/copy_price.h"
#include "src/cost/exact_time.h"
#include "src/cost/group_loads.h"
#include "src/cost/kernel_memo.h"
#include "src/cost/kernel_price.h"
#include "src/cost/nccl_price.h"
#include "src/cost/nccl_setting.h"
#include "src/cost/shared_links.h"
#include "src/cost/sibling_links.h"
#include "src/cost/slowest_device.h"
#include "src/parallel/group_layout.h"
#include "src/topology/cluster.h"

namespace stepcast::cost {
namespace {

using program::Index;
using program::Program;
using scenario::Scenario;
using topology::CommunicationPath;

// What joins a GPU to its node's CPUs: PCIe, mostly through a switch.
// What joins switches to CPUs is shared by the GPUs below, which copy at the same time.
std::optional<HostLink> FindHostLink(const topology::NodeType* node) {
  using topology::DeviceKind;
  if (node == nullptr) return std::nullopt;
  std::int64_t above = 0;  // bytes per second from all switches to CPUs
  for (const topology::LinkRule& rule : node->links) {
    if ((rule.from.kind == DeviceKind::kPcieSwitch && rule.to.kind == DeviceKind::kCpu) ||
        (rule.from.kind == DeviceKind::kCpu && rule.to.kind == DeviceKind::kPcieSwitch)) {
      above += static_cast<std::int64_t>(topology::PairsOf(rule).size()) * rule.count *
               rule.link.bandwidth.bytes_per_second();
    }
  }
  const std::int64_t share = above / std::max(1, node->Count(DeviceKind::kGpu));
  const auto leads_to_host = [](DeviceKind kind) {
    return kind == DeviceKind::kPcieSwitch || kind == DeviceKind::kCpu;
  };
  for (const topology::LinkRule& rule : node->links) {
    if ((rule.from.kind == DeviceKind::kGpu && leads_to_host(rule.to.kind)) ||
        (rule.to.kind == DeviceKind::kGpu && leads_to_host(rule.from.kind))) {
      const std::int64_t own = rule.link.bandwidth.bytes_per_second() * rule.count;
      const bool switched =
          rule.from.kind == DeviceKind::kPcieSwitch || rule.to.kind == DeviceKind::kPcieSwitch;
      return HostLink{.latency = rule.link.latency,
                      .bandwidth = Bandwidth::BytesPerSecond(
                          switched && share > 0 ? std::min(own, share) : own)};
    }
  }
  return std::nullopt;
}

}  // namespace

// A cluster with a profile and the settings of communication: what prices of collectives depend on
// beside the group and the size.
struct PriceCache::Machine {
  // A message between members of a group. Where peers are named by distance one price stands for
  // the messages of all members, the farthest of them.
  struct MessageRoute {
    bool by_distance = false;
    int from = 0, to = 0;  // positions
    friend bool operator==(const MessageRoute&, const MessageRoute&) = default;
  };
  struct Group {
    std::vector<int> ranks;
    std::optional<MessageRoute> message;  // none: all of its ranks communicate
    parallel::GroupLayout layout;
    CommunicationPath path;
    GroupShape shape;                        // where NCCL is modelled
    std::unique_ptr<SiblingLinks> siblings;  // null: the network sees to links that are shared
  };
  struct CollectiveKey {
    CollectiveKind kind = CollectiveKind::kAllReduce;
    Bytes bytes;
    const Group* group = nullptr;
    friend bool operator==(const CollectiveKey&, const CollectiveKey&) = default;
  };
  struct Hash {
    std::size_t operator()(const CollectiveKey& key) const {
      const std::uint64_t group = std::hash<const Group*>()(key.group);
      const auto bytes = static_cast<std::uint64_t>(key.bytes.count());
      const std::uint64_t hash =
          (bytes * 0x9E3779B97F4A7C15 ^ group) + static_cast<std::uint64_t>(key.kind);
      return hash ^ hash >> 32;
    }
  };

  Machine(const Scenario& scenario, GroupLoads& group_loads)
      : cluster(scenario.cluster),
        calibration(scenario.calibration),
        gpu(scenario.gpu),
        algorithm(scenario.algorithm),
        nccl_algo(scenario.nccl_algo),
        nccl_proto(scenario.nccl_proto),
        collnet(scenario.nccl_collnet),
        analytic(scenario.network == scenario::Fidelity::kAnalytic),
        version(scenario.plan.software.nccl),
        driver(scenario.plan.software.driver),
        loads(group_loads) {
    auto setting = NcclSettingOf(scenario);
    if (!setting) return;
    setting->gpu = &*gpu;  // the scenario may not live as long
    nccl.emplace(std::move(*setting));
  }

  bool IsOf(const Scenario& scenario) const {
    return cluster == scenario.cluster && calibration == scenario.calibration &&
           algorithm == scenario.algorithm && nccl_algo == scenario.nccl_algo &&
           nccl_proto == scenario.nccl_proto && collnet == scenario.nccl_collnet &&
           analytic == (scenario.network == scenario::Fidelity::kAnalytic) &&
           version == scenario.plan.software.nccl && driver == scenario.plan.software.driver;
  }

  const Group& GroupOf(const program::ProcessGroup& wanted,
                       const std::optional<MessageRoute>& message = std::nullopt) {
    // A handful; most differ in size.
    for (const auto& group : groups) {
      if (group->message == message && group->ranks == wanted.ranks &&
          group->layout == wanted.layout) {
        return *group;
      }
    }
    if (message) return AddMessages(wanted, *message);
    const std::vector<int>& ranks = wanted.ranks;
    groups.push_back(std::make_unique<const Group>(Group{
        .ranks = ranks,
        .message = std::nullopt,
        .layout = wanted.layout,
        .path = PathOf(ranks),
        .shape = nccl ? ShapeOf(ranks, cluster->gpus_per_node()) : GroupShape(),
        .siblings = analytic ? std::make_unique<SiblingLinks>(*cluster, ranks, wanted.layout, loads)
                             : nullptr}));
    return *groups.back();
  }

  const Group& AddMessages(const program::ProcessGroup& group, const MessageRoute& message) {
    const auto pair_of = [](const std::vector<int>& ranks, int from, int to) {
      return std::vector<int>{ranks[static_cast<std::size_t>(from)],
                              ranks[static_cast<std::size_t>(to)]};
    };
    const auto pairs_of = [=](const std::vector<int>& ranks) {
      std::vector<std::vector<int>> pairs;
      if (!message.by_distance) return pairs = {pair_of(ranks, message.from, message.to)};
      const auto size = static_cast<int>(ranks.size());
      for (int from = 0; from < size; ++from) {
        pairs.push_back(pair_of(ranks, from, (from + message.to - message.from + size) % size));
      }
      return pairs;
    };
    const std::vector<int> ends =
        message.by_distance ? group.ranks : pair_of(group.ranks, message.from, message.to);
    groups.push_back(std::make_unique<const Group>(
        Group{.ranks = group.ranks,
              .message = message,
              .layout = group.layout,
              .path = PathOf(ends),
              .shape = nccl ? ShapeOf(ends, cluster->gpus_per_node()) : GroupShape(),
              .siblings = analytic ? std::make_unique<SiblingLinks>(*cluster, group.ranks,
                                                                    group.layout, loads, pairs_of)
                                   : nullptr}));
    return *groups.back();
  }

  // Flows and messages meet on links themselves.
  topology::CommunicationPath PathOf(const std::vector<int>& ranks) const {
    return cluster->PathOf(ranks, analytic ? topology::Cluster::Collisions::kExpected
                                           : topology::Cluster::Collisions::kIgnored);
  }

  // Cached prices of collectives that were priced without diagnostics.
  const CollectivePrice* Known(const program::Collective& collective, const Group& group) const {
    const auto found = collectives.find({collective.kind, collective.bytes, &group});
    return found == collectives.end() ? nullptr : &found->second;
  }
  void Remember(const program::Collective& collective, const Group& group,
                const CollectivePrice& price) {
    constexpr std::size_t kMostCollectives = 16'384;
    if (collectives.size() == kMostCollectives) collectives.clear();
    collectives.try_emplace({collective.kind, collective.bytes, &group}, price);
  }

  // See slowest_device.h; the last one stays.
  double SlowestOf(std::int64_t devices) {
    if (devices != slowest_of) {
      slowest_of = devices;
      slowest = SlowestDevice(calibration->kernels->variation, devices);
    }
    return slowest;
  }

  // The GPU is part of what the cluster was read from.
  const std::shared_ptr<const topology::Cluster> cluster;
  const std::shared_ptr<const calibration::Calibration> calibration;
  const std::optional<topology::Gpu> gpu;
  const scenario::CollectiveAlgorithm algorithm;
  const std::string nccl_algo, nccl_proto;
  const bool collnet;
  const bool analytic;
  const plan::Version version, driver;
  GroupLoads& loads;
  std::optional<NcclPricer> nccl;  // none: textbook, or hop by hop
  std::vector<std::unique_ptr<const Group>> groups;
  SharedLinks shared_links;
  std::unordered_map<CollectiveKey, CollectivePrice, Hash> collectives;
  std::int64_t slowest_of = 0;
  double slowest = 1;
};

// A GPU with a profile: what prices of kernels depend on beside the kernel.
struct PriceCache::Device {
  static bool IsTextbook(const Scenario& scenario) {
    return plan::TraitsOf(scenario.plan.data_parallel.framework).textbook;
  }

  explicit Device(const Scenario& scenario)
      : calibration(scenario.calibration), gpu(scenario.gpu), textbook(IsTextbook(scenario)) {}

  bool IsOf(const Scenario& scenario) const {
    return calibration == scenario.calibration && textbook == IsTextbook(scenario) &&
           gpu == scenario.gpu;
  }

  const std::shared_ptr<const calibration::Calibration> calibration;
  const std::optional<topology::Gpu> gpu;
  const bool textbook;
  KernelMemo kernels;
};

namespace {

class Pricer {
 public:
  Pricer(const Program& program, const Scenario& scenario, PriceCache::Machine& machine,
         PriceCache::Device& device)
      : program_(program),
        scenario_(scenario),
        reference_(device.textbook),
        machine_(machine),
        device_(device),
        nccl_(machine.nccl) {
    if (scenario.calibration != nullptr) {
      profile_ = scenario.calibration->location;
      if (scenario.calibration->links) links_ = &*scenario.calibration->links;
      if (scenario.gpu && scenario.calibration->kernels) kernels_ = &*scenario.calibration->kernels;
    }
    if (kernels_ != nullptr && !reference_) {
      const plan::Parallelism& axes = scenario.plan.parallelism;
      slowest_ = machine.SlowestOf(axes.data * axes.tensor * axes.pipeline * axes.context);
    }
  }

  Result<Prices> Run() {
    prices_.kernels.reserve(program_.kernels.size());
    for (const Kernel& kernel : program_.kernels) prices_.kernels.push_back(PriceOneKernel(kernel));
    PriceCollectives();
    PriceCopies();
    PriceExchanges();
    if (diagnostics_.empty()) CountSharedLinks();
    const bool issues = kernels_ != nullptr && !reference_;
    // A measured profile has this host's launches, others those of the reference host.
    const double host = issues && !kernels_->measured() ? scenario_.cluster->host_speed() : 1;
    const auto issue = [&](Time launch) { return calibration::OnHost(launch, host); };
    prices_.issue_kernel = issues ? issue(kernels_->launch) : Time();
    prices_.dispatch = issues ? scenario_.plan.training.dispatch : Dispatch();
    prices_.issue_copy = issues ? issue(kernels_->launch) : Time();
    prices_.issue_collective = issues ? issue(kernels_->collective_launch) : Time();
    if (!diagnostics_.empty()) return tl::unexpected(std::move(diagnostics_));
    return std::move(prices_);
  }

 private:
  // One cause is reported once, at the first operation that it hits.
  void Report(std::string code, Location location, std::string message, std::string hint) {
    const bool known =
        std::any_of(diagnostics_.begin(), diagnostics_.end(), [&](const Diagnostic& diagnostic) {
          return diagnostic.code == code && diagnostic.message == message;
        });
    if (known) return;
    diagnostics_.push_back(
        {std::move(code), std::move(location), std::move(message), std::move(hint)});
  }

  static bool Endless(const Demand& demand) { return demand.alone() >= kLongestTime; }

  void ReportEndless(const std::string& what) {
    Report("cost.too-long", scenario_.cluster_location,
           fmt::format("a single operation takes a day or more: {}", what),
           "check the units of the bandwidths and latencies it needs");
  }

  // No product that was measured may be faster than the data sheet allows.
  bool BelievableProducts(DataType type) {
    const auto at = static_cast<std::size_t>(type);
    if (products_checked_[at]) return products_believed_[at];
    products_checked_[at] = true;
    products_believed_[at] = true;
    const FlopRate peak = scenario_.gpu->PeakOf(type);
    if (peak == FlopRate()) return true;
    for (const ProductLayout layout : kProductLayouts) {
      if (BelievableSurface(kernels_->SurfaceOf(type, layout), type, peak)) continue;
      products_believed_[at] = false;
      return false;
    }
    return true;
  }

  bool BelievableSurface(const calibration::GemmSurface& surface, DataType type, FlopRate peak) {
    for (std::size_t m = 0; m < surface.m.size(); ++m) {
      for (std::size_t n = 0; n < surface.n.size(); ++n) {
        for (std::size_t k = 0; k < surface.k.size(); ++k) {
          const Time bound = TimeOf(2 * surface.m[m] * surface.n[n] * surface.k[k], peak);
          const Time time = surface.at(m, n, k);
          if (time >= bound) continue;
          Report("cost.faster-than-device", profile_,
                 fmt::format("a product of {} x {} x {} in {} needs {} on {}, the profile has {}",
                             surface.m[m], surface.n[n], surface.k[k], Name(type),
                             FormatTime(bound), scenario_.gpu->name, FormatTime(time)),
                 "the profile may belong to another device");
          return false;
        }
      }
    }
    return true;
  }

  Demand PriceOneKernel(const Kernel& kernel) {
    if (kernel.kind == KernelKind::kGiven) return PriceGivenKernel(kernel);
    if (kernels_ != nullptr) {
      const std::uint32_t entry = EntryOf(kernel);
      if (entry == KernelMemo::kNone) return {};
      // A kernel on the slowest of all devices.
      Demand demand = device_.kernels.DemandOf(entry);
      if (IsArithmetic(kernel.kind)) demand.work = ScaledTime(demand.work, slowest_);
      if (Endless(demand)) ReportEndless(kernel.name);
      return demand;
    }
    if (kernel.kind != KernelKind::kMemoryBound && !unpriceable_) {
      unpriceable_ = true;
      RefuseKernel(kernel);
    }
    return {};
  }

  // The memo's, where the kernel has a price.
  std::uint32_t EntryOf(const Kernel& kernel) {
    const std::uint32_t known = device_.kernels.Find(kernel);
    if (known != KernelMemo::kNone) return known;
    if (kernel.kind == KernelKind::kGemm && !BelievableProducts(kernel.data_type)) {
      return KernelMemo::kNone;
    }
    const auto demand = PriceKernel(
        kernel, {.gpu = *scenario_.gpu, .costs = *kernels_, .start_latency = !reference_});
    if (demand) return device_.kernels.Add(kernel, *demand);
    ReportNoPrice(kernel, demand.error());
    return KernelMemo::kNone;
  }

  void ReportNoPrice(const Kernel& kernel, KernelFault fault) {
    if (fault == KernelFault::kNoPeak) {
      Report("cost.no-peak", scenario_.cluster_location,
             fmt::format("{} does not compute in {}", scenario_.gpu->name, Name(kernel.data_type)),
             "set training.precision to a type that this GPU has");
    } else {
      const std::string what =
          kernel.kind == KernelKind::kGemm
              ? fmt::format("matrix products in {}", Name(kernel.data_type))
          : kernel.kind == KernelKind::kMemoryBound || kernel.kind == KernelKind::kOptimizer
              ? std::string("memory-bound kernels")
              : fmt::format("attention in {}", Name(kernel.data_type));
      const std::string remedy =
          kernel.kind == KernelKind::kGemm
              ? fmt::format(
                    "add kernels.gemm.{0} or kernels.gemm_surface.{0}, or set "
                    "training.precision to a type that it has",
                    Name(kernel.data_type))
          : kernel.kind == KernelKind::kMemoryBound || kernel.kind == KernelKind::kOptimizer
              ? std::string("add kernels.memory_efficiency or kernels.memory_curve")
              : std::string(
                    "add kernels.attention_forward_efficiency and "
                    "attention_backward_efficiency, or curves of attention");
      Report("cost.no-efficiency", profile_,
             fmt::format("profile '{}' has no figures for {}", scenario_.calibration->name, what),
             remedy);
    }
  }

  void RefuseKernel(const Kernel& kernel) {
    if (!scenario_.gpu) {
      Report("cost.no-gpu", scenario_.cluster_location,
             fmt::format("without a GPU only layer lists can be simulated; nothing says how long "
                         "a kernel takes: {}",
                         kernel.name),
             "name a GPU type in the cluster ('gpu: h100-sxm'), or describe the model as a list of "
             "layers with times");
    } else {
      Report("cost.no-kernel-costs", profile_,
             fmt::format("the calibration has no 'kernels' section; nothing says how long a kernel "
                         "takes: {}",
                         kernel.name),
             fmt::format("add the section, or leave out 'calibration' for the profile of {}",
                         scenario_.gpu->name));
    }
  }

  const PriceCache::Machine::Group& GroupOf(Index communicator) {
    if (groups_.empty()) groups_.resize(program_.groups.size());
    const Index group = program_.communicators[communicator].group;
    if (groups_[group] == nullptr) {
      groups_[group] = &machine_.GroupOf(program_.groups[group]);
    }
    return *groups_[group];
  }
  void PriceCollectives() {
    prices_.collectives.clear();
    prices_.collectives.reserve(program_.collectives.size());
    for (const program::Collective& collective : program_.collectives) {
      const PriceCache::Machine::Group& group = GroupOf(collective.communicator);
      const CollectivePrice* known = machine_.Known(collective, group);
      CollectivePrice price = known != nullptr ? *known : PriceOneCollective(collective, group);
      if (known == nullptr) {
        if (Endless(price.demand)) ReportEndless(collective, group);
        if (diagnostics_.empty()) machine_.Remember(collective, group, price);
      }
      TakeMultiprocessors(collective.multiprocessors, 1, price.demand, price.channels);
      prices_.collectives.push_back(price);
    }
  }

  void PriceExchanges() {
    prices_.exchanges.clear();
    for (const program::Exchange& exchange : program_.exchanges) {
      std::vector<MessagePrice>& messages = prices_.exchanges.emplace_back();
      const program::ProcessGroup& group =
          program_.groups[program_.communicators[exchange.communicator].group];
      for (const program::Message& message : exchange.messages) {
        const auto [from, to] = EndsOf(exchange, message, group);
        const bool sends = message.direction == program::MessageDirection::kSend;
        messages.push_back(PriceMessage(exchange, message.bytes, sends, group, from, to));
      }
    }
  }

  // Positions in the group of the message's sender and receiver.
  std::pair<int, int> EndsOf(const program::Exchange& exchange, const program::Message& message,
                             const program::ProcessGroup& group) const {
    const int own = group.PositionOf(program_.rank);
    const int peer = exchange.PeerPosition(message, own, static_cast<int>(group.ranks.size()));
    if (message.direction == program::MessageDirection::kSend) return {own, peer};
    return {peer, own};
  }

  const PriceCache::Machine::Group& RouteOf(const program::Exchange& exchange,
                                            const program::ProcessGroup& group, int from, int to) {
    return machine_.GroupOf(group,
                            PriceCache::Machine::MessageRoute{
                                .by_distance = exchange.peers == program::PeerNaming::kDistance,
                                .from = from,
                                .to = to});
  }

  // As a shift, in which all members send as much at once, over the group of the two ranks: links
  // carry as much one way as the other.
  MessagePrice PriceMessage(const program::Exchange& exchange, Bytes bytes, bool sends,
                            const program::ProcessGroup& all, int from, int to) {
    if (from == to) {  // a copy, which its sender counts
      MessagePrice price;
      if (sends) {
        price.demand =
            PriceOneCopy({.direction = program::CopyDirection::kDeviceToDevice, .bytes = bytes});
      }
      return price;
    }
    const PriceCache::Machine::Group& group = RouteOf(exchange, all, from, to);
    if (exchange.multiprocessors == 0 && kernels_ != nullptr && links_ != nullptr &&
        group.path.nodes == 1 && group.path.intra_bandwidth > Bandwidth()) {
      return PriceByCopyEngines(bytes, sends, group.path);
    }
    const program::Collective shift = {.kind = CollectiveKind::kSendRecv,
                                       .communicator = exchange.communicator,
                                       .bytes = bytes,
                                       .data_type = exchange.data_type};
    const CollectivePrice* known = machine_.Known(shift, group);
    const CollectivePrice price = known != nullptr ? *known : PriceOneCollective(shift, group);
    if (known == nullptr) {
      if (Endless(price.demand)) ReportEndless(MessageOf(bytes));
      if (diagnostics_.empty()) machine_.Remember(shift, group, price);
    }
    MessagePrice end = EndOfMessage(price, sends, exchange.messages.size());
    TakeMultiprocessors(exchange.multiprocessors, static_cast<double>(exchange.messages.size()),
                        end.demand, end.channels);
    return end;
  }

  MessagePrice PriceByCopyEngines(Bytes bytes, bool sends, const CommunicationPath& path) {
    MessagePrice price = {
        .demand = PricePeerCopy(bytes, path, *scenario_.gpu, *kernels_, *links_),
        .bandwidth_bound = BandwidthBound(CollectiveKind::kSendRecv, bytes, path)};
    auto& share = price.demand.share;
    if (!sends) {
      share[static_cast<std::size_t>(Resource::kScaleUpIn)] =
          std::exchange(share[static_cast<std::size_t>(Resource::kScaleUp)], 0);
    }
    if (Endless(price.demand)) ReportEndless(MessageOf(bytes));
    return price;
  }

  // What takes other multiprocessors than the library would still has the library's time.
  void TakeMultiprocessors(const std::optional<int>& multiprocessors, double operations,
                           Demand& demand, int& channels) const {
    if (!multiprocessors || !scenario_.gpu || demand.work == Time()) return;
    channels = *multiprocessors;
    demand.share[static_cast<std::size_t>(Resource::kCompute)] =
        *multiprocessors / operations / scenario_.gpu->multiprocessors;
  }

  static std::string MessageOf(Bytes bytes) {
    return fmt::format("a message of {}", FormatBytes(bytes));
  }

  // A shift reads and writes three bytes of memory for each that is sent: the sender reads it, the
  // receiver takes it out of a buffer and writes it. The messages of an exchange share thread
  // blocks.
  static MessagePrice EndOfMessage(const CollectivePrice& shift, bool sends, std::size_t messages) {
    MessagePrice price = {.demand = shift.demand,
                          .protocol = shift.protocol,
                          .channels = shift.channels,
                          .bandwidth_bound = shift.bandwidth_bound};
    const auto share = [&](Resource resource) -> double& {
      return price.demand.share[static_cast<std::size_t>(resource)];
    };
    share(Resource::kCompute) /= static_cast<double>(messages);
    share(Resource::kMemory) *= (sends ? 1 : 2) / 3.0;
    if (!sends) {
      share(Resource::kScaleUpIn) = std::exchange(share(Resource::kScaleUp), 0);
      share(Resource::kNetworkIn) = std::exchange(share(Resource::kNetwork), 0);
    }
    return price;
  }

  void ReportEndless(const program::Collective& collective,
                     const PriceCache::Machine::Group& group) {
    ReportEndless(fmt::format("{} over {} ranks", Name(collective.kind), group.path.ranks));
  }

  // A priced collective, or end of a message, on links that others may use, too.
  struct OnLinks {
    Demand* demand = nullptr;
    SharedLinks::Use use;
    double bytes = 0;  // of the size that the use's links are busy for
    std::string name;
  };

  std::vector<OnLinks> AllOnLinks() {
    std::vector<OnLinks> all;
    const auto add = [&](Demand& demand, const PriceCache::Machine::Group& group,
                         const char* algorithm, CollectiveKind kind, Bytes bytes,
                         std::string name) {
      if (group.siblings == nullptr || demand.work == Time() || group.path.ranks < 2) return;
      links_count_ = links_count_ || group.siblings->count();
      all.push_back({.demand = &demand,
                     .use = SharedLinks::Use(group.siblings.get(), algorithm, kind),
                     .bytes = static_cast<double>(bytes.count()),
                     .name = std::move(name)});
    };
    for (std::size_t i = 0; i < program_.collectives.size(); ++i) {
      const program::Collective& collective = program_.collectives[i];
      CollectivePrice& price = prices_.collectives[i];
      add(price.demand, GroupOf(collective.communicator), price.algorithm, collective.kind,
          collective.bytes, std::string(Name(collective.kind)));
    }
    for (std::size_t e = 0; e < program_.exchanges.size(); ++e) {
      const program::Exchange& exchange = program_.exchanges[e];
      const program::ProcessGroup& group =
          program_.groups[program_.communicators[exchange.communicator].group];
      for (std::size_t i = 0; i < exchange.messages.size(); ++i) {
        const program::Message& message = exchange.messages[i];
        const auto [from, to] = EndsOf(exchange, message, group);
        if (from == to) continue;
        // A scatter of two parts sends one of them.
        add(prices_.exchanges[e][i].demand, RouteOf(exchange, group, from, to), "pairwise",
            CollectiveKind::kScatter, 2 * message.bytes, MessageOf(message.bytes));
      }
    }
    return all;
  }

  // Siblings communicate at the same time: it takes as long as the links need for all of them,
  // where that is longer.
  void CountSharedLinks() {
    links_count_ = false;
    const std::vector<OnLinks> all = AllOnLinks();
    if (!links_count_) return;
    std::vector<SharedLinks::Use> uses;
    std::vector<std::size_t> use_of;
    for (const OnLinks& one : all) {
      use_of.push_back(
          static_cast<std::size_t>(std::find(uses.begin(), uses.end(), one.use) - uses.begin()));
      if (use_of.back() == uses.size()) uses.push_back(one.use);
    }
    const auto busy = machine_.shared_links.Of(uses);
    if (!busy) {
      Report("cost.no-network", scenario_.cluster_location,
             fmt::format("collectives have no links to go over: {}", busy.error().message),
             busy.error().hint);
      return;
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      Demand& demand = *all[i].demand;
      const SharedLinks::Busy& links = (*busy)[use_of[i]];
      // What was measured on these links, alone as here, may have gone over them in another way.
      const bool known = !std::get<const SiblingLinks*>(all[i].use)->shared() &&
                         demand.provenance < Provenance::kTransferred;
      for (std::size_t link = 0; link < links.size(); ++link) {
        double& share = demand.share[static_cast<std::size_t>(Resource::kNodeLinks) + link];
        share = links[link] * all[i].bytes / demand.work.seconds();
        // Rounding alone does not make the links decide.
        if (known || share < 1 + 1e-6) share = std::min(share, 1.0);
        if (share > 1) demand.provenance = Provenance::kModelled;
      }
      if (Endless(demand)) ReportEndless(all[i].name);
    }
  }

  CollectivePrice PriceOneCollective(const program::Collective& collective,
                                     const PriceCache::Machine::Group& group) {
    const CommunicationPath& path = group.path;
    if (path.ranks > 1) {
      if (const auto* table = TableFor(collective.kind, path)) {
        if (!Believable(*table, path)) return {};
        CollectivePrice price = PriceTabulatedCollective(collective.bytes, path, links_, *table);
        if (nccl_) {
          nccl_->AddShares(collective.kind, collective.bytes, path, group.shape, price);
        }
        return price;
      }
      if (path.ring_bandwidth == Bandwidth()) {
        Report("cost.no-link", scenario_.cluster_location,
               fmt::format("the cluster has no link, and the calibration no table for {} over {} "
                           "ranks on {} nodes",
                           Name(collective.kind), path.ranks, path.nodes),
               "give the flat cluster a link ('link: {latency: 5 us, bandwidth: 25 GB/s}'), or "
               "the profile a table for this collective and group");
        return {};
      }
      if (!path.flat && links_ == nullptr) {
        ReportNoLinkCosts(fmt::format("{} over {} ranks on {} nodes", Name(collective.kind),
                                      path.ranks, path.nodes));
        return {};
      }
      if (nccl_) return PriceByNccl(collective, group);
    }
    return PriceModelledCollective(collective.kind, collective.bytes, path, links_,
                                   scenario_.algorithm);
  }

  CollectivePrice PriceByNccl(const program::Collective& collective,
                              const PriceCache::Machine::Group& group) {
    const CommunicationPath& path = group.path;
    const auto price = nccl_->Price(collective.kind, collective.bytes, path, group.shape);
    if (price) return *price;
    Report("cost.no-algorithm", scenario_.communication_location,
           fmt::format("the settings leave NCCL nothing for {} over {} ranks on {} nodes",
                       Name(collective.kind), path.ranks, path.nodes),
           "name the function that a list is for ('allreduce:tree'), or allow ring");
    return {};
  }

  void ReportNoLinkCosts(const std::string& what) {
    Report("cost.no-link-costs", profile_,
           fmt::format("the calibration has no 'links' section and no table for: {}", what),
           "add the section, or a table for exactly this collective, ranks and nodes");
  }

  const calibration::CollectiveTable* TableFor(CollectiveKind kind,
                                               const CommunicationPath& path) const {
    if (scenario_.calibration == nullptr) return nullptr;
    const auto& tables = scenario_.calibration->collectives;
    return scenario_.cluster->flat() ? calibration::FindTableOfFlatCluster(tables, kind, path.ranks)
                                     : calibration::FindTable(tables, kind, path.ranks, path.nodes);
  }

  bool Believable(const calibration::CollectiveTable& table, const CommunicationPath& path) {
    for (const auto& [size, time] : table.points) {
      const Time bound = MeasurementBound(table.collective, size, path);
      if (time >= bound) continue;
      Report(
          "cost.faster-than-wire", table.location,
          fmt::format("{} over {} ranks on {} nodes: the cluster's links need {} for {}, the "
                      "table has {}",
                      Name(table.collective), path.ranks, path.nodes, FormatTime(bound),
                      FormatBytes(size), FormatTime(time)),
          scenario_.cluster->flat()
              ? "sizes are those of nccl-tests; where the measured machine is the cluster, leave "
                "out the flat cluster's link (--set cluster.topology.link=null)"
              : "sizes are those of nccl-tests; the profile may belong to another cluster");
      return false;
    }
    return true;
  }

  void PriceCopies() {
    prices_.copies.clear();
    prices_.copies.reserve(program_.copies.size());
    for (const program::Copy& copy : program_.copies) {
      prices_.copies.push_back(PriceOneCopy(copy));
      if (Endless(prices_.copies.back())) {
        ReportEndless(fmt::format("a copy of {}", FormatBytes(copy.bytes)));
      }
    }
  }

  // What was measured for copies in a direction; only a device has copies that cost something.
  const calibration::Curve* MeasuredCopies(program::CopyDirection direction) const {
    if (!scenario_.gpu || scenario_.calibration == nullptr) return nullptr;
    const calibration::CopyCurves& copies = scenario_.calibration->copies;
    const calibration::Curve& curve =
        direction == program::CopyDirection::kDeviceToDevice ? copies.device_to_device
        : direction == program::CopyDirection::kHostToDevice ? copies.host_to_device
                                                             : copies.device_to_host;
    return curve.empty() ? nullptr : &curve;
  }

  Demand PriceOneCopy(const program::Copy& copy) {
    if (const calibration::Curve* curve = MeasuredCopies(copy.direction)) {
      return PriceMeasuredCopy(copy.bytes, *curve,
                               copy.direction == program::CopyDirection::kDeviceToDevice,
                               kernels_ == nullptr ? Time() : kernels_->start_latency, !reference_);
    }
    if (kernels_ == nullptr) return {};
    Demand demand;
    if (copy.direction == program::CopyDirection::kDeviceToDevice) {
      if (kernels_->memory_efficiency == 0) {
        Report("cost.no-efficiency", profile_,
               fmt::format("profile '{}' has no figures for copies on the device",
                           scenario_.calibration->name),
               "add kernels.memory_efficiency or copies.device_to_device");
        return {};
      }
      demand = PriceDeviceCopy(copy.bytes, *scenario_.gpu, *kernels_);
    } else {
      if (!host_link_) host_link_ = FindHostLink(scenario_.cluster->node_type());
      if (!host_link_) {
        Report("cost.no-host-link", scenario_.cluster_location,
               "the plan copies between device and host, and nothing joins the two",
               "use a topology with PCIe, or keep everything on the device");
        return {};
      }
      if (links_ == nullptr) {
        ReportNoLinkCosts("a copy between device and host");
        return {};
      }
      demand = PriceHostCopy(copy.bytes, *host_link_, *kernels_, *links_);
    }
    if (reference_) demand.latency -= kernels_->start_latency;
    return demand;
  }

  const Program& program_;
  const Scenario& scenario_;
  const calibration::KernelCosts* kernels_ = nullptr;  // null: nothing can be priced by roofline
  const calibration::LinkCosts* links_ = nullptr;
  Location profile_;
  const bool reference_;
  double slowest_ = 1;  // time of arithmetic on the slowest device over the typical time
  std::array<bool, kDataTypeCount> products_checked_{};  // by DataType
  std::array<bool, kDataTypeCount> products_believed_{};
  PriceCache::Machine& machine_;
  PriceCache::Device& device_;
  std::optional<NcclPricer>& nccl_;                        // the machine's
  std::vector<const PriceCache::Machine::Group*> groups_;  // by group
  bool links_count_ = false;  // there are links that a path does not say all of
  std::optional<HostLink> host_link_;
  bool unpriceable_ = false;  // a kernel was refused
  Diagnostics diagnostics_;
  Prices prices_;
};

}  // namespace

Result<Prices> Price(const Program& program, const Scenario& scenario) {
  return PriceCache().Price(program, scenario);
}

PriceCache::PriceCache() : loads_(std::make_unique<GroupLoads>()) {}
PriceCache::~PriceCache() = default;

PriceCache::Machine& PriceCache::MachineOf(const Scenario& scenario) {
  const auto found = std::find_if(machines_.begin(), machines_.end(),
                                  [&](const auto& machine) { return machine->IsOf(scenario); });
  if (found != machines_.end()) return **found;
  if (machines_.size() == kMostMachines) machines_.clear();
  return *machines_.emplace_back(std::make_unique<Machine>(scenario, *loads_));
}

PriceCache::Device& PriceCache::DeviceOf(const Scenario& scenario) {
  // As many kernels as a hundred programs may have.
  constexpr std::size_t kMostKernels = 262'144;
  const auto found = std::find_if(devices_.begin(), devices_.end(),
                                  [&](const auto& device) { return device->IsOf(scenario); });
  if (found != devices_.end() && (*found)->kernels.size() < kMostKernels) return **found;
  if (found != devices_.end()) devices_.erase(found);
  if (devices_.size() == kMostDevices) devices_.clear();
  return *devices_.emplace_back(std::make_unique<Device>(scenario));
}

Result<Prices> PriceCache::Price(const Program& program, const Scenario& scenario) {
  return Pricer(program, scenario, MachineOf(scenario), DeviceOf(scenario)).Run();
}

}  // namespace stepcast::cost
