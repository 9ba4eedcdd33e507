#include "src/cost/shared_links.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
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

// How long each link is busy, with each of so many uses.
class LinksInUse {
 public:
  explicit LinksInUse(std::size_t uses) : uses_(uses) {}

  double* At(const GroupLoads::Load& load) {
    if (row_of_.size() <= load.link) row_of_.resize(load.link + 1, kNone);
    std::size_t& row = row_of_[load.link];
    if (row == kNone) {
      row = names_.size();
      names_.push_back(load.name);
      busy_.resize(busy_.size() + uses_);
    }
    return &busy_[row * uses_];
  }

  // Nodes are copies, and so are most of their links. By the names of the first among links alike.
  std::vector<Link> Distinct() const {
    std::map<Link, std::string_view> first;
    for (std::size_t row = 0; row < names_.size(); ++row) {
      const double* begin = &busy_[row * uses_];
      const auto [known, added] = first.try_emplace(Link(begin, begin + uses_), names_[row]);
      if (!added) known->second = std::min(known->second, names_[row]);
    }
    std::vector<std::pair<std::string_view, const Link*>> by_name;
    for (const auto& [link, name] : first) by_name.emplace_back(name, &link);
    std::sort(by_name.begin(), by_name.end());
    std::vector<Link> links;
    for (const auto& [name, link] : by_name) links.push_back(*link);
    return links;
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::size_t uses_;
  std::vector<std::size_t> row_of_;      // [GroupLoads::Load::link]
  std::vector<std::string_view> names_;  // [row]
  std::vector<double> busy_;             // [row][use]
};

}  // namespace

tl::expected<std::vector<SharedLinks::Busy>, network::Fault> SharedLinks::Of(
    const std::vector<Use>& uses) {
  if (const auto found = known_.find(uses); found != known_.end()) return found->second;
  LinksInUse in_node(uses.size()), to_network(uses.size());
  for (std::size_t use = 0; use < uses.size(); ++use) {
    const auto& [group, algorithm, kind] = uses[use];
    const auto on_links = group->Of(algorithm, kind);
    if (!on_links) return tl::unexpected(on_links.error());
    for (const GroupLoads::Load& load : on_links->loads) {
      (load.scale_up ? in_node : to_network).At(load)[use] = load.busy * on_links->scale;
    }
  }
  std::vector<Busy> result(uses.size(), Busy{});
  const auto add = [&](const LinksInUse& links, Resource first, int most) {
    auto at = static_cast<std::size_t>(first) - static_cast<std::size_t>(Resource::kNodeLinks);
    for (const Link& link : Deciding(links.Distinct(), static_cast<std::size_t>(most))) {
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
