#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "src/base/check.h"
#include "src/nccl/bandwidth.h"
#include "src/nccl/node.h"

namespace stepcast::nccl {
namespace {

constexpr int Back(int link) { return link ^ 1; }

class Builder {
 public:
  Builder(const Node& node, bool with_network) : node_(node) {
    if (with_network) nics_ = node.nics.size();
    AddPcie();
    AddNvlinks();
  }

  Fabric Build() && {
    const std::size_t gpus = node_.gpus.size();
    if (UsesNvswitch()) {
      for (std::size_t g = 0; g < gpus; ++g) {
        fabric_.gpu_to_nvswitch.push_back(PathOver(PathType::kNvlink, {to_nvswitch_[g]}, true));
        fabric_.nvswitch_to_gpu.push_back(
            PathOver(PathType::kNvlink, {Back(to_nvswitch_[g])}, false));
      }
    }
    for (std::size_t from = 0; from < gpus; ++from) {
      std::vector<Path>& paths = fabric_.gpu_to_gpu.emplace_back();
      for (std::size_t to = 0; to < gpus; ++to) paths.push_back(BetweenGpus(from, to));
    }
    fabric_.nic_to_gpu.resize(nics_);
    fabric_.gpu_to_nic.resize(gpus);
    for (std::size_t nic = 0; nic < nics_; ++nic) {
      for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
        Path out =
            OverPcie(node_.gpus[gpu].slot, gpu_up_[gpu], node_.nics[nic].slot, nic_up_[nic], true);
        out.links.push_back(Back(port_[nic]));
        out.bandwidth = Narrowest(out.links);
        Path in =
            OverPcie(node_.nics[nic].slot, nic_up_[nic], node_.gpus[gpu].slot, gpu_up_[gpu], false);
        in.links.insert(in.links.begin(), port_[nic]);
        in.bandwidth = Narrowest(in.links);
        fabric_.gpu_to_nic[gpu].push_back(std::move(out));
        fabric_.nic_to_gpu[nic].push_back(std::move(in));
      }
    }
    AddDetours();
    return std::move(fabric_);
  }

 private:
  // Adds links in both directions; returns the one from the device.
  int AddLink(double bandwidth, bool pcie, bool slow_device = false) {
    const int link = static_cast<int>(fabric_.links.size());
    const std::int64_t megabytes = std::llround(bandwidth * 1000);
    fabric_.links.push_back({.bandwidth = megabytes, .pcie = pcie});
    fabric_.links.push_back({.bandwidth = megabytes, .pcie = pcie, .slow_receiver = slow_device});
    return link;
  }

  void AddPcie() {
    int sockets = 1;
    for (const PcieSwitch& box : node_.switches) {
      switch_up_.push_back(AddLink(box.bandwidth, true));
      sockets = std::max(sockets, box.socket + 1);
    }
    for (const Gpu& gpu : node_.gpus) {
      gpu_up_.push_back(AddLink(gpu.slot.bandwidth, true, gpu.compute_capability < 80));
      sockets = std::max(sockets, SocketOf(gpu.slot) + 1);
    }
    for (std::size_t nic = 0; nic < nics_; ++nic) {
      nic_up_.push_back(AddLink(node_.nics[nic].slot.bandwidth, true));
      port_.push_back(AddLink(node_.nics[nic].bandwidth, false));
      sockets = std::max(sockets, SocketOf(node_.nics[nic].slot) + 1);
    }
    sockets_ = sockets;
    between_sockets_.assign(Pair(sockets, 0), -1);
    for (int a = 0; a < sockets; ++a) {
      for (int b = a + 1; b < sockets; ++b) {
        const int link = AddLink(SocketBandwidth(node_.cpu), false);
        between_sockets_[Pair(a, b)] = link;
        between_sockets_[Pair(b, a)] = Back(link);
      }
    }
  }

  // The index of a pair of sockets in between_sockets_.
  std::size_t Pair(int a, int b) const {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(sockets_) +
           static_cast<std::size_t>(b);
  }

  int AddNvlink(double bandwidth) {
    const int link = AddLink(bandwidth, false);
    fabric_.links[static_cast<std::size_t>(link)].nvlink = true;
    fabric_.links[static_cast<std::size_t>(Back(link))].nvlink = true;
    return link;
  }

  void AddNvlinks() {
    const std::size_t gpus = node_.gpus.size();
    nvlink_.assign(gpus * gpus, -1);
    for (const NvlinkBundle& bundle : node_.nvlinks) {
      const auto a = static_cast<std::size_t>(bundle.a);
      const auto b = static_cast<std::size_t>(bundle.b);
      STEPCAST_CHECK(a < gpus && b < gpus && a != b,
                     "an NVLink must connect two different GPUs of "
                     "the node");
      const int capability =
          std::min(node_.gpus[a].compute_capability, node_.gpus[b].compute_capability);
      const int link = AddNvlink(bundle.links * NvlinkBandwidth(capability));
      nvlink_[a * gpus + b] = link;
      nvlink_[b * gpus + a] = Back(link);
    }
    if (!UsesNvswitch()) return;
    for (const Gpu& gpu : node_.gpus) {
      to_nvswitch_.push_back(
          AddNvlink(gpu.nvswitch_links * NvlinkBandwidth(gpu.compute_capability)));
    }
  }

  // Whether every GPU has links to an NVSwitch.
  bool UsesNvswitch() const {
    return std::all_of(node_.gpus.begin(), node_.gpus.end(),
                       [](const Gpu& gpu) { return gpu.nvswitch_links > 0; });
  }

  double Narrowest(const std::vector<int>& links) const {
    std::int64_t narrowest = fabric_.links[static_cast<std::size_t>(links.front())].bandwidth;
    for (int link : links) {
      narrowest = std::min(narrowest, fabric_.links[static_cast<std::size_t>(link)].bandwidth);
    }
    return static_cast<double>(narrowest) / 1000;
  }

  Path PathOver(PathType type, std::vector<int> links, bool from_gpu) const {
    Path path{.type = type, .links = std::move(links), .from_gpu = from_gpu};
    path.bandwidth = Narrowest(path.links);
    path.through_intel_root = from_gpu && type == PathType::kPhb && IsIntel(node_.cpu);
    return path;
  }

  int SocketOf(const PcieSlot& slot) const {
    return slot.pcie_switch < 0 ? slot.socket
                                : node_.switches[static_cast<std::size_t>(slot.pcie_switch)].socket;
  }

  Path OverPcie(const PcieSlot& from, int from_up, const PcieSlot& to, int to_up,
                bool from_gpu) const {
    if (from.pcie_switch >= 0 && from.pcie_switch == to.pcie_switch) {
      return PathOver(PathType::kPix, {from_up, Back(to_up)}, from_gpu);
    }
    const int a = SocketOf(from);
    const int b = SocketOf(to);
    std::vector<int> links{from_up};
    if (from.pcie_switch >= 0) {
      links.push_back(switch_up_[static_cast<std::size_t>(from.pcie_switch)]);
    }
    if (a != b) links.push_back(between_sockets_[Pair(a, b)]);
    if (to.pcie_switch >= 0) {
      links.push_back(Back(switch_up_[static_cast<std::size_t>(to.pcie_switch)]));
    }
    links.push_back(Back(to_up));
    return PathOver(a == b ? PathType::kPhb : PathType::kSys, std::move(links), from_gpu);
  }

  Path BetweenGpus(std::size_t from, std::size_t to) const {
    if (from == to) {
      return {.type = PathType::kLocal, .bandwidth = 5000, .links = {}, .from_gpu = true};
    }
    const std::size_t gpus = node_.gpus.size();
    const auto direct = [&](std::size_t a, std::size_t b) { return nvlink_[a * gpus + b]; };
    if (direct(from, to) >= 0) return PathOver(PathType::kNvlink, {direct(from, to)}, true);
    if (!to_nvswitch_.empty()) {
      return PathOver(PathType::kNvlink, {to_nvswitch_[from], Back(to_nvswitch_[to])}, true);
    }
    Path best;
    for (std::size_t middle = 0; middle < gpus; ++middle) {
      if (direct(from, middle) < 0 || direct(middle, to) < 0) continue;
      Path bridge =
          PathOver(PathType::kNvlinkBridge, {direct(from, middle), direct(middle, to)}, true);
      if (bridge.bandwidth > best.bandwidth) best = std::move(bridge);
    }
    if (best.bandwidth > 0) return best;
    return OverPcie(node_.gpus[from].slot, gpu_up_[from], node_.gpus[to].slot, gpu_up_[to], true);
  }

  void AddDetours() {
    const std::size_t gpus = node_.gpus.size();
    for (std::size_t nic = 0; nic < nics_; ++nic) {
      // The GPUs nearest to the NIC; the NICs of one switch take turns.
      std::vector<std::size_t> near;
      for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
        if (fabric_.gpu_to_nic[gpu][nic].type <= PathType::kPxb) near.push_back(gpu);
      }
      if (near.empty()) continue;
      const std::size_t owner = near[CardsBefore(nic) % near.size()];
      const Path last = fabric_.gpu_to_nic[owner][nic];
      for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
        Path& own = fabric_.gpu_to_nic[gpu][nic];
        const Path& first = fabric_.gpu_to_gpu[gpu][owner];
        if (gpu == owner || first.type != PathType::kNvlink) continue;
        if (last.bandwidth <= own.bandwidth && own.type <= PathType::kPxn) continue;
        std::vector<int> links = first.links;
        links.insert(links.end(), last.links.begin(), last.links.end());
        own = PathOver(PathType::kPxn, std::move(links), true);
      }
    }
  }

  std::size_t CardsBefore(std::size_t nic) const {
    const int box = node_.nics[nic].slot.pcie_switch;
    return static_cast<std::size_t>(
        std::count_if(node_.nics.begin(), node_.nics.begin() + static_cast<std::ptrdiff_t>(nic),
                      [&](const Nic& other) { return other.slot.pcie_switch == box; }));
  }

  const Node& node_;
  std::size_t nics_ = 0;
  Fabric fabric_;
  std::vector<int> switch_up_;
  std::vector<int> gpu_up_;
  std::vector<int> nic_up_;
  std::vector<int> port_;  // from the port to the card
  std::vector<int> nvlink_;
  std::vector<int> to_nvswitch_;
  std::vector<int> between_sockets_;
  int sockets_ = 1;
};

}  // namespace

Fabric MakeFabric(const Node& node, bool with_network) {
  STEPCAST_CHECK(!node.gpus.empty(), "a node of a communicator must have GPUs");
  return Builder(node, with_network).Build();
}

}  // namespace stepcast::nccl
