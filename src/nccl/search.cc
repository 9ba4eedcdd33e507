#include "src/nccl/search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

#include "src/base/check.h"
#include "src/base/stop.h"
#include "src/nccl/bandwidth.h"

namespace stepcast::nccl {
namespace {

constexpr int kMostHeads = 32;       // of NVLS
constexpr int kMostDirectHeads = 8;  // of CollNet direct
constexpr std::int64_t kAllSteps = 1 << 19;

// One NVLink domain, at most a rack, is one node.
constexpr std::size_t kMostGpus = 128;
__extension__ using GpuSet = unsigned __int128;
using NextGpus = std::array<std::uint8_t, kMostGpus>;

// The score of a GPU as the next GPU of a channel.
struct Score {
  int inter_bw, inter_pcie_bw, inter_hops, intra_bw, intra_hops, offset, gpu;
};
constexpr int kSteps = 1 << 14;
constexpr int kSameChannelSteps = 1 << 8;
constexpr int kFirstOrderSteps = 1 << 10;
constexpr int kPerfect = -1;  // left of the steps when no better graph can exist

std::size_t Index(int i) { return static_cast<std::size_t>(i); }

std::int64_t Megabytes(double gigabytes) { return std::llround(gigabytes * 1000); }

bool IsTree(Pattern pattern) {
  return pattern == Pattern::kTree || pattern == Pattern::kBalancedTree ||
         pattern == Pattern::kSplitTree;
}

// The order in which a channel may try GPUs.
enum class Order { kAny, kOfTheNode, kOfTheLastChannel };

// The limits of one attempt.
struct Limits {
  Pattern pattern = Pattern::kRing;
  bool in_network = false;
  int min_channels = 1;
  int max_channels = 32;
  double bw_intra = 0;
  double bw_inter = 0;
  PathType type_intra = PathType::kLocal;
  PathType type_inter = PathType::kPix;
  int cross_nic = 0;
  bool same_channels = true;
};

// Depth-first attempts over the same links; `best` is kept across attempts.
class Attempts {
 public:
  Attempts(const Node& node, const Fabric& fabric, Graph& best)
      : node_(node), fabric_(fabric), best_(best) {
    gpus_ = static_cast<int>(node.gpus.size());
    nics_ = static_cast<int>(fabric.nic_to_gpu.size());
    for (const Link& link : fabric.links) left_.push_back(link.bandwidth);
    for (int nic = 0; nic < nics_; ++nic) port_left_.push_back(node.nics[Index(nic)].bandwidth);
    for (int gpu = 0; gpu < gpus_; ++gpu) local_nics_.push_back(LocalNics(gpu));
    for (int nic = 0; nic < nics_; ++nic) local_gpus_.push_back(LocalGpus(nic));
  }

  // Returns the number of remaining steps, or kPerfect if no better result is possible.
  int Run(const Limits& limits, int steps) {
    limits_ = limits;
    channels_ = 0;
    hops_ = 0;
    latency_ = 0;
    paths_.assign(Index(limits.max_channels + 1), {});
    for (ChannelPath& path : paths_) path.gpus.assign(node_.gpus.size(), -1);
    used_.assign(paths_.size(), 0);
    NextChannel(steps);
    return steps;
  }

 private:
  ChannelPath& channel() { return paths_[Index(channels_)]; }

  // Subtracts `bandwidth` from all links of the path, or from none if one link has too little left.
  bool Take(const Path& path, double bandwidth) {
    for (std::size_t i = 0; i < path.links.size(); ++i) {
      const int link = path.links[i];
      const auto [forward, back] = Shares(path, link, bandwidth);
      if (left_[Index(link)] < forward || (back > 0 && left_[Index(link ^ 1)] < back)) {
        GiveBack(path, i, bandwidth);
        return false;
      }
      left_[Index(link)] -= forward;
      left_[Index(link ^ 1)] -= back;
    }
    return true;
  }

  void GiveBack(const Path& path, std::size_t links, double bandwidth) {
    for (std::size_t i = 0; i < links; ++i) {
      const auto [forward, back] = Shares(path, path.links[i], bandwidth);
      left_[Index(path.links[i])] += forward;
      left_[Index(path.links[i] ^ 1)] += back;
    }
  }

  std::pair<std::int64_t, std::int64_t> Shares(const Path& path, int index,
                                               double bandwidth) const {
    const Link& link = fabric_.links[Index(index)];
    const double factor = link.pcie && path.through_intel_root ? 1.2 : 1.0;
    const std::int64_t forward = Megabytes(bandwidth * factor);
    return {forward, link.slow_receiver && !path.from_gpu ? forward / 8 : 0};
  }

  // Takes `multiple` of the channel's bandwidth on the path, if the path's type is allowed.
  bool Enter(const Path& path, const Path* back, double speed, PathType farthest,
             double multiple = 1) {
    if (path.type >= PathType::kDisconnected) return false;
    if (multiple == 1) {
      if (path.type > farthest) return false;
      if (IsTree(limits_.pattern) && back != nullptr && back->type > farthest) return false;
    }
    if (!Take(path, speed * multiple)) return false;
    hops_ += static_cast<int>(multiple * path.hops());
    return true;
  }

  void Leave(const Path& path, double speed, double multiple = 1) {
    GiveBack(path, path.links.size(), speed * multiple);
    hops_ -= static_cast<int>(multiple * path.hops());
  }

  const Path& Between(int from, int to) const { return fabric_.gpu_to_gpu[Index(from)][Index(to)]; }
  const Path& Out(int gpu, int nic) const { return fabric_.gpu_to_nic[Index(gpu)][Index(nic)]; }
  const Path& In(int nic, int gpu) const { return fabric_.nic_to_gpu[Index(nic)][Index(gpu)]; }

  // --- the devices nearest to each other

  template <typename PathTo>
  static std::vector<int> Nearest(int count, PathTo path_to) {
    std::vector<int> nearest;
    double bandwidth = 0;
    PathType type = PathType::kDisconnected;
    for (int i = 0; i < count; ++i) {
      const Path& path = path_to(i);
      if (path.bandwidth > bandwidth || (path.bandwidth == bandwidth && path.type < type)) {
        bandwidth = path.bandwidth;
        type = path.type;
        nearest.clear();
      }
      if (path.bandwidth == bandwidth && path.type == type) nearest.push_back(i);
    }
    return nearest;
  }

  std::vector<int> LocalGpus(int nic) const {
    return Nearest(gpus_, [&](int gpu) -> const Path& { return In(nic, gpu); });
  }

  // The NICs of a GPU in the order in which its channels use them. GPUs that share NICs start with
  // different ones.
  std::vector<int> LocalNics(int gpu) const {
    const std::vector<int> near =
        Nearest(nics_, [&](int nic) -> const Path& { return Out(gpu, nic); });
    if (near.empty()) return {};
    const int count = static_cast<int>(near.size());
    const int sharing = static_cast<int>(LocalGpus(near.front()).size());
    int first = gpu;
    if (std::has_single_bit(static_cast<unsigned>(count))) {
      first = 0;
      for (int low = 1, high = count >> 1; low < count; low <<= 1, high >>= 1) {
        if ((gpu & low) != 0) first |= high;
      }
    }
    std::vector<int> order;
    const int turns = (count + sharing - 1) / sharing;
    order.reserve(Index(turns));
    for (int turn = 0; turn < turns; ++turn) order.push_back(near[Index((first + turn) % count)]);
    return order;
  }

  // The GPU that prefers this NIC; -1 if no GPU does.
  int OwnerOf(int nic) const {
    for (int gpu : local_gpus_[Index(nic)]) {
      const std::vector<int>& cards = local_nics_[Index(gpu)];
      if (std::find(cards.begin(), cards.end(), nic) != cards.end()) return gpu;
    }
    return -1;
  }

  // NICs that a channel may use: the GPUs' own ones, then all that are near enough, nearest first.
  // `only`: for one GPU; -1: for all.
  std::vector<int> CandidateNics(int only) const {
    std::vector<int> candidates;
    const auto add = [&](int nic) {
      if (std::find(candidates.begin(), candidates.end(), nic) == candidates.end()) {
        candidates.push_back(nic);
      }
    };
    for (int gpu = 0; gpu < gpus_; ++gpu) {
      if (only != -1 && only != gpu) continue;
      for (int nic : local_nics_[Index(gpu)]) add(nic);
    }
    for (PathType type = PathType::kLocal; type <= limits_.type_inter; type = Farther(type)) {
      for (int gpu = 0; gpu < gpus_; ++gpu) {
        if (only != -1 && only != gpu) continue;
        for (int nic = 0; nic < nics_; ++nic) {
          if (Out(gpu, nic).type == type) add(nic);
        }
      }
    }
    return candidates;
  }

  // --- the search itself

  // The position in a channel at which it returns to a NIC or to the first GPU; -1: never.
  int CardPosition() const {
    if (nics_ == 0) return -1;
    if (limits_.pattern == Pattern::kRing) return gpus_ - 1;
    return limits_.pattern == Pattern::kSplitTree ? 1 : 0;
  }
  int ClosingPosition() const {
    return nics_ == 0 && limits_.pattern == Pattern::kRing ? gpus_ - 1 : -1;
  }

  void NextChannel(int& steps) {
    if (nics_ > 0) {
      FromCards(steps);
      return;
    }
    if (limits_.pattern == Pattern::kNvls) {
      if (channels_ < gpus_) StartAt(channels_, Order::kAny, steps);
      return;
    }
    if (channels_ == 0) {
      StartAt(0, Order::kOfTheNode, steps);
    } else {
      StartAt(paths_[Index(channels_ - 1)].gpus.front(), Order::kOfTheLastChannel, steps);
    }
    if (limits_.same_channels && channels_ > 0) return;
    for (int gpu = 0; gpu < gpus_; ++gpu) StartAt(gpu, Order::kAny, steps);
  }

  void StartAt(int gpu, Order order, int& steps) {
    used_[Index(channels_)] ^= GpuSet{1} << gpu;
    Visit(gpu, 0, CardPosition(), ClosingPosition(), order, steps);
    used_[Index(channels_)] ^= GpuSet{1} << gpu;
  }

  void StartAtCard(int nic, int gpu, Order order, int& steps) {
    const Path& path = In(nic, gpu);
    if (!Enter(path, &Out(gpu, nic), limits_.bw_inter, limits_.type_inter)) return;
    StartAt(gpu, order, steps);
    Leave(path, limits_.bw_inter);
  }

  void FromCards(int& steps) {
    const Pattern pattern = limits_.pattern;
    const bool heads = pattern == Pattern::kNvls || pattern == Pattern::kCollNetDirect;
    // Ports are counted in whole GB/s.
    const double port = std::floor(limits_.bw_inter);
    const std::vector<int> cards = CandidateNics(-1);
    bool found = false;
    for (std::size_t i = 0; i < cards.size() && !(heads && found); ++i) {
      const int nic = cards[(Index(channels_) + i) % cards.size()];
      if (limits_.in_network && !node_.nics[Index(nic)].reduces) continue;
      if (port_left_[Index(nic)] < port) continue;
      if (pattern == Pattern::kRing && limits_.cross_nic == 2 && channels_ % 2 == 1 &&
          nic != paths_[Index(channels_ - 1)].nic_out) {
        continue;
      }
      channel().nic_in = nic;
      latency_ = node_.nics[Index(nic)].latency;
      port_left_[Index(nic)] -= port;
      if (heads) {
        const int owner = OwnerOf(nic);
        const auto is_head = [&](const ChannelPath& path) { return path.gpus.front() == owner; };
        if (channels_ < static_cast<int>(cards.size()) && owner != -1 &&
            std::none_of(paths_.begin(), paths_.begin() + channels_, is_head)) {
          StartAtCard(nic, owner, Order::kAny, steps);
          found = true;
        }
      } else if (channels_ > 0 && limits_.same_channels) {
        StartAtCard(nic, paths_[Index(channels_ - 1)].gpus.front(), Order::kOfTheLastChannel,
                    steps);
      } else {
        if (channels_ == 0 && !fabric_.has_nvswitch()) {
          // The attempt with the node's order is a reference, and its steps do not count.
          int first = kFirstOrderSteps;
          StartAtCard(nic, 0, Order::kOfTheNode, first);
          if (first == kPerfect) steps = kPerfect;
        }
        const int owner = OwnerOf(nic);
        if (owner != -1) StartAtCard(nic, owner, Order::kAny, steps);
        for (int gpu : local_gpus_[Index(nic)]) {
          if (gpu != owner) StartAtCard(nic, gpu, Order::kAny, steps);
        }
      }
      port_left_[Index(nic)] += port;
    }
  }

  void Visit(int gpu, int position, int to_card, int closing, Order order, int& steps) {
    if (steps <= 0) return;
    --steps;
    if (++visits_ % kEventsBetweenStopPoints == 0) StopPoint();
    if (position == gpus_) {
      Complete(steps);
      return;
    }
    channel().gpus[Index(position)] = gpu;
    if (position == to_card) {
      ToCard(gpu, position, closing, order, steps);
    } else if (limits_.pattern == Pattern::kNvls) {
      AsNvlsHead(gpu, steps);
    } else if (limits_.pattern == Pattern::kCollNetDirect) {
      AsDirectHead(gpu, steps);
    } else if (position < gpus_ - 1) {
      ToNextGpu(gpu, position, to_card, closing, order, steps);
    } else if (position == closing) {
      const int first = channel().gpus.front();
      const Path& path = Between(gpu, first);
      if (!Enter(path, &Between(first, gpu), limits_.bw_intra, limits_.type_intra)) return;
      Visit(first, position + 1, to_card, -1, order, steps);
      Leave(path, limits_.bw_intra);
    } else {
      Visit(gpu, gpus_, -1, -1, order, steps);
    }
  }

  void ToCard(int gpu, int position, int closing, Order order, int& steps) {
    const int nic_in = channel().nic_in;
    for (int nic : CandidateNics(gpu)) {
      if (limits_.pattern == Pattern::kTree && nic != nic_in) continue;
      if (limits_.pattern == Pattern::kRing && limits_.cross_nic == 2) {
        if (channels_ % 2 == 1 && nic != paths_[Index(channels_ - 1)].nic_in) continue;
      } else if (limits_.cross_nic == 0 && nic != nic_in) {
        continue;
      }
      int next_to_card = -1;
      double speed = limits_.bw_inter;
      if (limits_.pattern == Pattern::kBalancedTree) {
        // The first two GPUs each carry half of the traffic.
        if (position == 0) {
          next_to_card = 1;
        } else if (nic != channel().nic_out) {
          continue;
        }
        speed /= 2;
      }
      const Path& path = Out(gpu, nic);
      if (!Enter(path, &In(nic, gpu), speed, limits_.type_inter)) continue;
      channel().nic_out = nic;
      Visit(gpu, position, next_to_card, closing, order, steps);
      Leave(path, speed);
    }
  }

  void ToNextGpu(int gpu, int position, int to_card, int closing, Order order, int& steps) {
    NextGpus next;
    int count = 1;
    if (order == Order::kOfTheNode) {
      next[0] = static_cast<std::uint8_t>(position + 1);
    } else if (order == Order::kOfTheLastChannel) {
      next[0] = static_cast<std::uint8_t>(paths_[Index(channels_ - 1)].gpus[Index(position + 1)]);
    } else {
      count = SortNext(gpu, to_card == -1 ? 0 : to_card == position + 1 ? 1 : -1, next);
    }
    for (int i = 0; i < count; ++i) {
      const int other = next[Index(i)];
      const Path& path = Between(gpu, other);
      if (!Enter(path, &Between(other, gpu), limits_.bw_intra, limits_.type_intra)) continue;
      used_[Index(channels_)] ^= GpuSet{1} << other;
      Visit(other, position + 1, to_card, closing, order, steps);
      used_[Index(channels_)] ^= GpuSet{1} << other;
      Leave(path, limits_.bw_intra);
    }
  }

  // The GPUs not yet in the channel, the most promising first. `sort_by_card`: 1 if the next GPU
  // goes to the NIC, -1 if a later one does, 0 if none does. With NVSwitch only neighbours are
  // tried: switches are faster if a GPU talks to few others.
  int SortNext(int gpu, int sort_by_card, NextGpus& next) {
    std::size_t count = 0;
    for (int i = 1; i < gpus_; ++i) {
      const int other = (gpu + i) % gpus_;
      if ((used_[Index(channels_)] >> other & 1) != 0) continue;
      const Path& path = Between(gpu, other);
      Score score{0, 0, 0, static_cast<int>(path.bandwidth), path.hops(), i, other};
      if (sort_by_card != 0) {
        const Path& card = In(paths_[Index(channels_)].nic_in, other);
        score.inter_bw = static_cast<int>(card.bandwidth);
        score.inter_pcie_bw = static_cast<int>(node_.gpus[Index(other)].slot.bandwidth);
        score.inter_hops = card.hops();
      }
      scores_[count++] = score;
    }
    const std::span<Score> found(scores_.data(), count);
    std::sort(found.begin(), found.end(), [](const Score& a, const Score& b) {
      return std::tuple(-a.inter_bw, -a.inter_pcie_bw, a.inter_hops, -a.intra_bw, a.intra_hops,
                        a.offset) < std::tuple(-b.inter_bw, -b.inter_pcie_bw, b.inter_hops,
                                               -b.intra_bw, b.intra_hops, b.offset);
    });
    const bool alike = std::all_of(found.begin(), found.end(), [&](const Score& score) {
      return score.intra_bw == found.front().intra_bw &&
             score.intra_hops == found.front().intra_hops;
    });
    for (std::size_t i = 0; i < count; ++i) {
      next[i] =
          static_cast<std::uint8_t>(found[sort_by_card == -1 && alike ? count - 1 - i : i].gpu);
    }
    if (!fabric_.has_nvswitch()) return static_cast<int>(count);

    const int before = (gpu + gpus_ - 1) % gpus_;
    const int after = (gpu + 1) % gpus_;
    std::array<int, 2> wanted{before, after};  // the later one is put in front
    std::size_t wanted_count = 2;
    if (limits_.pattern == Pattern::kRing) {
      wanted = {after, before};
    } else if (limits_.pattern != Pattern::kSplitTree &&
               limits_.pattern != Pattern::kBalancedTree) {
      wanted = {after, after};
      wanted_count = 1;
    }
    if (before == after) wanted_count = 1;
    int kept = 0;
    for (std::size_t w = 0; w < wanted_count; ++w) {
      const auto end = next.begin() + static_cast<std::ptrdiff_t>(count);
      const auto it = std::find(next.begin(), end, wanted[w]);
      if (it == end) continue;
      std::rotate(next.begin(), it, it + 1);
      ++kept;
    }
    return kept;
  }

  // The head pulls and pushes for all GPUs: twice the speed on its own links, once on all others.
  void AsNvlsHead(int head, int& steps) {
    const auto multiple = [head](int gpu) { return gpu == head ? 2.0 : 1.0; };
    const auto take_all = [&](const std::vector<Path>& paths) {
      int taken = 0;
      while (taken < gpus_ && Enter(paths[Index(taken)], nullptr, limits_.bw_intra,
                                    limits_.type_intra, multiple(taken))) {
        ++taken;
      }
      return taken;
    };
    const auto leave = [&](const std::vector<Path>& paths, int taken) {
      for (int gpu = 0; gpu < taken; ++gpu) {
        Leave(paths[Index(gpu)], limits_.bw_intra, multiple(gpu));
      }
    };
    const int in = take_all(fabric_.nvswitch_to_gpu);
    if (in == gpus_) {
      const int out = take_all(fabric_.gpu_to_nvswitch);
      if (out == gpus_) Visit(head, gpus_, -1, -1, Order::kAny, steps);
      leave(fabric_.gpu_to_nvswitch, out);
    }
    leave(fabric_.nvswitch_to_gpu, in);
  }

  // The head exchanges an equal part with every other GPU.
  void AsDirectHead(int head, int& steps) {
    const double part = gpus_ > 1 ? 1.0 / (gpus_ - 1) : 1.0;
    int out = 0;
    while (out < gpus_ &&
           Enter(Between(head, out), nullptr, limits_.bw_intra, limits_.type_intra, part)) {
      ++out;
    }
    if (out == gpus_) {
      int in = 0;
      while (in < gpus_ &&
             Enter(Between(in, head), nullptr, limits_.bw_intra, limits_.type_intra, part)) {
        ++in;
      }
      if (in == gpus_) {
        int position = 1;
        for (int gpu = 0; gpu < gpus_; ++gpu) {
          if (gpu != head) channel().gpus[Index(position++)] = gpu;
        }
        Visit(head, gpus_, -1, -1, Order::kAny, steps);
      }
      while (in > 0) Leave(Between(--in, head), limits_.bw_intra, part);
    }
    while (out > 0) Leave(Between(head, --out), limits_.bw_intra, part);
  }

  void Complete(int& steps) {
    ++channels_;
    if (Better()) {
      best_.pattern = limits_.pattern;
      best_.channels = channels_;
      best_.bw_intra = limits_.bw_intra;
      best_.bw_inter = limits_.bw_inter;
      best_.type_intra = limits_.type_intra;
      best_.type_inter = limits_.type_inter;
      best_.cross_nic = limits_.cross_nic;
      best_.same_channels = limits_.same_channels;
      best_.latency_inter = latency_;
      best_.paths.assign(paths_.begin(), paths_.begin() + channels_);
      best_hops_ = hops_;
      if (channels_ == limits_.max_channels) steps = kPerfect;
    }
    if (channels_ < limits_.max_channels) NextChannel(steps);
    --channels_;
  }

  bool Better() const {
    if (channels_ < limits_.min_channels) return false;
    if (limits_.pattern == Pattern::kNvls) {
      return (channels_ > best_.channels && channels_ <= gpus_) ||
             channels_ * Megabytes(limits_.bw_inter) > best_.channels * Megabytes(best_.bw_inter);
    }
    const std::int64_t total = channels_ * Megabytes(limits_.bw_intra);
    const std::int64_t best_total = best_.channels * Megabytes(best_.bw_intra);
    if (total != best_total) return total > best_total;
    return limits_.pattern == best_.pattern && limits_.cross_nic == best_.cross_nic &&
           hops_ < best_hops_;
  }

  const Node& node_;
  const Fabric& fabric_;
  Graph& best_;
  int best_hops_ = 0;
  int gpus_ = 0;
  std::uint32_t visits_ = 0;
  int nics_ = 0;
  std::vector<std::vector<int>> local_nics_;
  std::vector<std::vector<int>> local_gpus_;

  Limits limits_;
  std::vector<std::int64_t> left_;  // MB/s, [link]
  std::vector<double> port_left_;   // GB/s, [card]
  int channels_ = 0;                // complete ones; paths_[channels_] is being laid
  int hops_ = 0;
  double latency_ = 0;
  std::vector<ChannelPath> paths_;
  // The search recurses as deep as all channels have GPUs, thousands for a rack, so each level
  // keeps little.
  std::array<Score, kMostGpus> scores_{};
  std::vector<GpuSet> used_;  // GPUs of each channel
};

struct TypeRange {
  PathType nearest = PathType::kSys;
  PathType farthest = PathType::kLocal;

  void Add(PathType type) {
    nearest = std::min(nearest, type);
    farthest = std::max(farthest, type);
  }
};

// The sequence of attempts.
class Search {
 public:
  Search(const Node& node, const Fabric& fabric, Version version, const SearchRequest& request)
      : node_(node), fabric_(fabric), version_(version), attempts_(node, fabric, best_) {
    gpus_ = static_cast<int>(node.gpus.size());
    across_ = !fabric.nic_to_gpu.empty();
    capability_ = node.gpus.front().compute_capability;
    for (const Gpu& gpu : node.gpus) capability_ = std::min(capability_, gpu.compute_capability);
    speeds_ = SearchSpeeds(version, GenerationOf(capability_), across_);

    limits_.pattern = request.pattern;
    limits_.in_network = request.in_network;
    limits_.min_channels = request.min_channels;
    limits_.max_channels = request.max_channels;
    if (request.pattern == Pattern::kNvls) {
      limits_.max_channels = std::min(kMostHeads, gpus_);
      limits_.same_channels = false;
      // One node: every GPU is a head, so that data is pulled evenly from all.
      if (!across_) limits_.min_channels = limits_.max_channels;
    }
    if (request.pattern == Pattern::kCollNetDirect) {
      limits_.max_channels = std::min(kMostDirectHeads, gpus_);
    }
    if (gpus_ == 1 && request.pattern != Pattern::kRing) limits_.pattern = Pattern::kTree;
    if (request.pattern == Pattern::kRing && HasTwoNvlinkIslands()) {
      limits_.min_channels = std::max(limits_.min_channels, std::min(2, limits_.max_channels));
    }
    may_cross_ = fabric.nic_to_gpu.size() > 1 &&
                 (limits_.pattern == Pattern::kRing || limits_.pattern == Pattern::kBalancedTree ||
                  limits_.pattern == Pattern::kSplitTree);
    best_.pattern = limits_.pattern;
    wanted_ = limits_;
    FindTypes();
    FindBandwidths();
  }

  Graph Run() && {
    if (best_.pattern == Pattern::kNvls && (!fabric_.has_nvswitch() || capability_ < 90)) {
      return best_;
    }
    Find();
    if (best_.channels > 0) {
      Duplicate();
      Raise();
    } else if (best_.pattern != Pattern::kNvls && !wanted_.in_network) {
      FallBack();
    }
    best_.pattern = best_.channels > 0 ? best_.pattern : wanted_.pattern;
    if (best_.pattern == Pattern::kNvls) {
      for (ChannelPath& path : best_.paths) path.gpus.resize(1);
    }
    return std::move(best_);
  }

 private:
  void FindTypes() {
    TypeRange intra;
    TypeRange inter;
    for (int a = 0; a < gpus_; ++a) {
      for (int b = 0; b < gpus_; ++b) {
        if (a != b) intra.Add(fabric_.gpu_to_gpu[Index(a)][Index(b)].type);
      }
      for (const Path& path : fabric_.gpu_to_nic[Index(a)]) inter.Add(path.type);
    }
    if (gpus_ > 1) {
      wanted_.type_intra = intra.nearest;
      farthest_intra_ = intra.farthest;
    }
    if (across_) {
      wanted_.type_inter = inter.nearest;
      farthest_inter_ = inter.farthest;
      // On Ampere, balanced trees may have to take a detour through the processors.
      if (version_ >= Version::kV230 && capability_ < 90) farthest_inter_ = PathType::kSys;
    }
    limits_ = wanted_;
  }

  void FindBandwidths() {
    for (int gpu = 0; gpu < gpus_; ++gpu) {
      for (const Path& path :
           across_ ? fabric_.gpu_to_nic[Index(gpu)] : fabric_.gpu_to_gpu[Index(gpu)]) {
        if (path.hops() > 0) max_bandwidth_ = std::max(max_bandwidth_, path.bandwidth);
      }
      double nvlink = fabric_.has_nvswitch() ? fabric_.gpu_to_nvswitch[Index(gpu)].bandwidth : 0;
      for (const NvlinkBundle& bundle : node_.nvlinks) {
        if (bundle.a == gpu || bundle.b == gpu) {
          const int other = bundle.a == gpu ? bundle.b : bundle.a;
          nvlink += fabric_.gpu_to_gpu[Index(gpu)][Index(other)].bandwidth;
        }
      }
      total_bandwidth_ =
          std::max({total_bandwidth_, nvlink, node_.gpus[Index(gpu)].slot.bandwidth});
    }
    if (gpus_ == 1 && !across_) max_bandwidth_ = total_bandwidth_ = 5000;
  }

  // Whether two groups of GPUs have NVLink inside, and none between them.
  bool HasTwoNvlinkIslands() const {
    std::vector<int> island(Index(gpus_));
    std::vector<int> size(Index(gpus_));
    for (int gpu = 0; gpu < gpus_; ++gpu) island[Index(gpu)] = gpu;
    for (int a = 0; a < gpus_; ++a) {
      for (int b = a + 1; b < gpus_; ++b) {
        if (fabric_.gpu_to_gpu[Index(a)][Index(b)].type == PathType::kNvlink) {
          island[Index(b)] = island[Index(a)];
        }
      }
    }
    for (int gpu : island) ++size[Index(gpu)];
    return std::count_if(size.begin(), size.end(), [](int count) { return count > 1; }) == 2;
  }

  void SetSpeed(std::size_t index) {
    speed_ = index;
    limits_.bw_intra = limits_.bw_inter = speeds_[index];
  }

  int Attempt() {
    return attempts_.Run(limits_, limits_.same_channels ? kSameChannelSteps : kSteps);
  }

  bool UsesAll() const { return best_.channels * best_.bw_inter >= total_bandwidth_; }

  void Find() {
    // Only a ring returns to its first GPU; other patterns may use the links that the return would
    // need.
    const double total = gpus_ > 1 && best_.pattern != Pattern::kRing
                             ? total_bandwidth_ * gpus_ / (gpus_ - 1)
                             : total_bandwidth_;
    std::size_t first = 0;
    while (first + 1 < speeds_.size() &&
           (speeds_[first] > max_bandwidth_ || speeds_[first] * limits_.min_channels > total)) {
      ++first;
    }
    SetSpeed(first);
    do {
      const int given = limits_.same_channels ? kSameChannelSteps : kSteps;
      steps_left_ -= given;
      const int left = Attempt();
      if (left == kPerfect || UsesAll()) return;
      if (!Relax(left)) return;
    } while (true);
  }

  // Relaxes one limit, and restores the limits that were relaxed before. Returns false if no limit
  // is left to relax.
  bool Relax(int left) {
    if (limits_.same_channels &&
        !(node_.cpu == Cpu::kAmd && limits_.type_intra == PathType::kSys)) {
      limits_.same_channels = false;
      return true;
    }
    limits_.same_channels = wanted_.same_channels;
    steps_left_ += left;
    if (steps_left_ < 0 && best_.channels > 0) return false;

    if (capability_ >= 90 && limits_.pattern == Pattern::kBalancedTree) {
      limits_.pattern = Pattern::kTree;
      return true;
    }
    limits_.pattern = best_.channels > 0 ? best_.pattern : wanted_.pattern;

    const PathType farthest_intra = across_ ? limits_.type_inter : farthest_intra_;
    if (limits_.type_intra < farthest_intra &&
        (best_.channels == 0 || limits_.type_intra < best_.type_intra)) {
      limits_.type_intra = Farther(limits_.type_intra);
      if (limits_.type_intra < PathType::kDisconnected) return true;
    }
    limits_.type_intra = wanted_.type_intra;

    if (across_ && limits_.type_inter < farthest_inter_ &&
        (best_.channels == 0 || limits_.type_inter < best_.type_inter ||
         limits_.type_inter < PathType::kPxn)) {
      limits_.type_inter = Farther(limits_.type_inter);
      if (limits_.type_inter < PathType::kDisconnected) return true;
    }
    limits_.type_inter = wanted_.type_inter;

    if (may_cross_ && limits_.cross_nic == 0 &&
        (best_.pattern == Pattern::kRing || best_.pattern == Pattern::kBalancedTree)) {
      limits_.cross_nic = 2;
      return true;
    }
    limits_.cross_nic = 0;

    if (speed_ + 1 < speeds_.size() &&
        (best_.channels == 0 || speeds_[speed_ + 1] / best_.bw_inter > 0.49)) {
      SetSpeed(speed_ + 1);
      return true;
    }
    return false;
  }

  void Duplicate() {
    if (best_.pattern == Pattern::kNvls || best_.bw_intra < 25) return;
    if (capability_ > 80 && best_.bw_intra < 50 && best_.channels > 4) return;
    const int channels = std::min(best_.channels * 2, wanted_.max_channels);
    const int copies = (channels + best_.channels - 1) / best_.channels;
    for (int c = best_.channels; c < channels; ++c) {
      best_.paths.push_back(best_.paths[Index(c - best_.channels)]);
    }
    best_.bw_intra /= copies;
    best_.bw_inter /= copies;
    best_.channels = channels;
  }

  void Raise() {
    limits_.pattern = best_.pattern;
    limits_.type_intra = best_.type_intra;
    limits_.type_inter = best_.type_inter;
    limits_.cross_nic = best_.cross_nic;
    limits_.same_channels = best_.same_channels;
    limits_.min_channels = best_.channels;
    std::size_t index = 0;
    while (index + 1 < speeds_.size() && speeds_[index] > best_.bw_inter) ++index;
    SetSpeed(index);
    int left = kPerfect;
    while (left != 0 && speed_ > 0) {
      if (best_.pattern == Pattern::kRing) {
        SetSpeed(speed_ - 1);
      } else if (best_.pattern == Pattern::kNvls && limits_.bw_inter == best_.bw_inter &&
                 limits_.bw_inter < limits_.bw_intra * 2) {
        limits_.min_channels = limits_.max_channels = best_.channels;
        limits_.bw_inter = speeds_[--speed_];
      } else if (limits_.bw_intra == best_.bw_intra && limits_.bw_intra < limits_.bw_inter * 2) {
        limits_.bw_intra = speeds_[--speed_];
      } else {
        return;
      }
      left = Attempt();
    }
  }

  // One channel in the order of the node, as a fallback. NCCL assumes 0.1 GB/s for it
  // (src/graph/search.cc) when it chooses; its actual bandwidth is that of the narrowest path.
  void FallBack() {
    best_.found = false;
    best_.channels = 1;
    double narrowest = std::numeric_limits<double>::infinity();
    constexpr double kMegabytes = 1000;  // of a gigabyte
    const auto count = static_cast<std::size_t>(gpus_);
    for (std::size_t gpu = 0; gpu < count; ++gpu) {
      for (const int link : fabric_.gpu_to_gpu[gpu][(gpu + 1) % count].links) {
        const Link& carries = fabric_.links[static_cast<std::size_t>(link)];
        narrowest = std::min(narrowest, static_cast<double>(carries.bandwidth) / kMegabytes);
      }
    }
    constexpr double kOfNccl = 0.1;
    best_.bw_intra = best_.bw_inter = std::isfinite(narrowest) ? narrowest : kOfNccl;
    best_.type_intra = best_.type_inter = PathType::kSys;
    ChannelPath& path = best_.paths.emplace_back();
    for (int gpu = 0; gpu < gpus_; ++gpu) path.gpus.push_back(gpu);
    if (across_) path.nic_in = path.nic_out = 0;
  }

  const Node& node_;
  const Fabric& fabric_;
  Version version_;
  Graph best_;
  Attempts attempts_;
  int gpus_ = 0;
  bool across_ = false;
  int capability_ = 0;
  bool may_cross_ = false;
  std::span<const double> speeds_;
  std::size_t speed_ = 0;
  std::int64_t steps_left_ = kAllSteps;
  double max_bandwidth_ = 0;    // of one path
  double total_bandwidth_ = 0;  // of one GPU
  PathType farthest_intra_ = PathType::kSys;
  PathType farthest_inter_ = PathType::kSys;
  Limits wanted_;  // as asked for
  Limits limits_;
};

}  // namespace

Graph SearchGraph(const Node& node, const Fabric& fabric, Version version,
                  const SearchRequest& request) {
  STEPCAST_CHECK(node.gpus.size() <= kMostGpus, "a node must have at most 128 GPUs");
  return Search(node, fabric, version, request).Run();
}

}  // namespace stepcast::nccl
