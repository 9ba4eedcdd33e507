#include "src/topology/link_rules.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace stepcast::topology {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

bool Alike(const LinkedPair& a, const LinkedPair& b) {
  return a.kind == b.kind && a.from_kind == b.from_kind && a.to_kind == b.to_kind &&
         a.count == b.count && a.link.latency == b.link.latency &&
         a.link.bandwidth == b.link.bandwidth;
}

// A link has no direction: (1, 0) is (0, 1) between devices of one kind.
Pairs Sorted(Pairs pairs, bool one_kind) {
  if (one_kind) {
    for (auto& [a, b] : pairs) {
      if (a > b) std::swap(a, b);
    }
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

class Group {
 public:
  explicit Group(const LinkedPair& like) : like_(like) {}
  bool Takes(const LinkedPair& pair) const { return Alike(like_, pair); }
  void Add(const LinkedPair& pair) { pairs_.emplace_back(pair.from, pair.to); }

  void AddRules(std::vector<LinkRule>& rules) const {
    std::set<int> from;
    std::set<int> to;
    for (const auto& [a, b] : pairs_) {
      from.insert(a);
      to.insert(b);
    }
    const bool one_kind = like_.from_kind == like_.to_kind;
    if (one_kind) {  // a clique names its devices on both sides
      std::set<int> all = from;
      all.insert(to.begin(), to.end());
      const LinkRule clique = Rule(all, all, Join::kAllToAll);
      if (IsAll(clique)) {
        rules.push_back(clique);
        return;
      }
    }
    for (const Join join : {Join::kInOrder, Join::kAllToAll}) {
      const LinkRule rule = Rule(from, to, join);
      if (IsAll(rule)) {
        rules.push_back(rule);
        return;
      }
    }
    // Devices with the same neighbors have one rule.
    std::map<int, std::set<int>> neighbours;
    for (const auto& [a, b] : pairs_) neighbours[b].insert(a);
    std::map<std::set<int>, std::set<int>> sharing;
    std::vector<std::set<int>> order;
    for (const auto& [b, set] : neighbours) {
      if (!sharing.contains(set)) order.push_back(set);
      sharing[set].insert(b);
    }
    for (const std::set<int>& set : order) {
      const std::set<int>& targets = sharing[set];
      rules.push_back(Rule(
          set, targets, targets.size() == 1 || set.size() == 1 ? Join::kInOrder : Join::kAllToAll));
    }
  }

 private:
  LinkRule Rule(const std::set<int>& from, const std::set<int>& to, Join join) const {
    return {.kind = like_.kind,
            .from = {like_.from_kind, {from.begin(), from.end()}},
            .to = {like_.to_kind, {to.begin(), to.end()}},
            .join = join,
            .count = like_.count,
            .link = like_.link};
  }

  bool IsAll(const LinkRule& rule) const {
    const std::size_t from = rule.from.indices.size();
    const std::size_t to = rule.to.indices.size();
    if (rule.join == Join::kInOrder && from % to != 0 && to % from != 0) return false;
    const bool one_kind = like_.from_kind == like_.to_kind;
    return Sorted(PairsOf(rule), one_kind) == Sorted(pairs_, one_kind);
  }

  LinkedPair like_;
  Pairs pairs_;
};

}  // namespace

std::vector<LinkRule> RulesOf(const std::vector<LinkedPair>& pairs) {
  std::vector<Group> groups;
  for (const LinkedPair& pair : pairs) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& candidate) { return candidate.Takes(pair); });
    if (group == groups.end()) group = groups.insert(groups.end(), Group(pair));
    group->Add(pair);
  }
  std::vector<LinkRule> rules;
  for (const Group& group : groups) group.AddRules(rules);
  return rules;
}

}  // namespace stepcast::topology
