#include "src/cost/shared_links.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "src/cost/group_loads.h"

namespace stepcast::cost {
namespace {

// How long a link is busy with each of the uses.
using Link = std::vector<double>;

bool NeverBusier(const Link& link, const Link& other) {
  constexpr double kRounding = 1 + 1e-9;
  for (std::size_t use = 0; use < link.size(); ++use) {
    if (link[use] > other[use] * kRounding) return false;
  }
  return true;
}

// The links that can decide, the busiest first, `most` of them. Where there are more, the last one
// is as busy with each use as the busiest of the rest.
std::vector<Link> Deciding(std::vector<Link> links, std::size_t most) {
  const auto total = [](const Link& link) {
    return std::accumulate(link.begin(), link.end(), 0.0);
  };
  std::stable_sort(links.begin(), links.end(),
                   [&](const Link& a, const Link& b) { return total(a) > total(b); });
  std::vector<Link> deciding;
  for (Link& link : links) {
    const bool needless = std::any_of(deciding.begin(), deciding.end(),
                                      [&](const Link& other) { return NeverBusier(link, other); });
    if (needless) continue;
    if (deciding.size() < most) {
      deciding.push_back(std::move(link));
      continue;
    }
    for (std::size_t use = 0; use < link.size(); ++use) {
      deciding.back()[use] = std::max(deciding.back()[use], link[use]);
    }
  }
  return deciding;
}

}  // namespace

tl::expected<std::vector<SharedLinks::Busy>, network::Fault> SharedLinks::Of(
    const std::vector<Use>& uses) {
  if (const auto found = known_.find(uses); found != known_.end()) return found->second;
  std::map<std::string_view, Link> in_node, to_network;
  for (std::size_t use = 0; use < uses.size(); ++use) {
    const auto& [group, algorithm, kind] = uses[use];
    const auto on_links = group->Of(algorithm, kind);
    if (!on_links) return tl::unexpected(on_links.error());
    for (const GroupLoads::Load& load : on_links->loads) {
      Link& link = (load.scale_up ? in_node : to_network)[load.link];
      link.resize(uses.size());
      link[use] = load.busy * on_links->scale;
    }
  }
  std::vector<Busy> result(uses.size(), Busy{});
  const auto add = [&](std::map<std::string_view, Link>& by_name, Resource first, int most) {
    // Nodes are copies, and so are most of their links.
    std::vector<Link> links;
    std::set<Link> seen;
    for (auto& [name, link] : by_name) {
      if (seen.insert(link).second) links.push_back(std::move(link));
    }
    auto at = static_cast<std::size_t>(first) - static_cast<std::size_t>(Resource::kNodeLinks);
    for (const Link& link : Deciding(std::move(links), static_cast<std::size_t>(most))) {
      for (std::size_t use = 0; use < uses.size(); ++use) result[use][at] = link[use];
      ++at;
    }
  };
  constexpr int kInNode =
      static_cast<int>(Resource::kNetworkLinks) - static_cast<int>(Resource::kNodeLinks);
  add(in_node, Resource::kNodeLinks, kInNode);
  add(to_network, Resource::kNetworkLinks, kSharedLinks - kInNode);
  constexpr std::size_t kMostKnown = 1024;
  if (known_.size() == kMostKnown) known_.clear();
  known_.emplace(uses, result);
  return result;
}

}  // namespace stepcast::cost
