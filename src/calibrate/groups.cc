#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "src/calibrate/kernel_measurements.h"
#include "src/parallel/group_layout.h"

namespace stepcast::calibrate {
namespace {

using parallel::GroupLayout;

int NodesOf(const std::vector<int>& group, const std::vector<int>& node_of_rank) {
  std::set<int> nodes;
  for (const int rank : group) nodes.insert(node_of_rank[static_cast<std::size_t>(rank)]);
  return static_cast<int>(nodes.size());
}

// Adds the groups if they have equal shapes, and the shape is new.
void AddShape(std::vector<std::vector<int>> groups, const std::vector<int>& node_of_rank,
              std::vector<GroupShape>& shapes) {
  if (groups.empty() || groups.front().size() < 2) return;
  GroupShape shape;
  shape.ranks = static_cast<int>(groups.front().size());
  shape.nodes = NodesOf(groups.front(), node_of_rank);
  for (const std::vector<int>& group : groups) {
    if (static_cast<int>(group.size()) != shape.ranks) return;
    if (NodesOf(group, node_of_rank) != shape.nodes) return;
  }
  const bool known = std::any_of(shapes.begin(), shapes.end(), [&](const GroupShape& other) {
    return other.ranks == shape.ranks && other.nodes == shape.nodes;
  });
  if (known) return;
  shape.groups = std::move(groups);
  shapes.push_back(std::move(shape));
}

}  // namespace

std::vector<GroupShape> ShapesOf(const std::vector<int>& node_of_rank) {
  const int ranks = static_cast<int>(node_of_rank.size());
  std::vector<GroupShape> shapes;
  std::vector<int> all;
  std::map<int, std::vector<int>> by_node;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(rank);
    by_node[node_of_rank[static_cast<std::size_t>(rank)]].push_back(rank);
  }
  AddShape({all}, node_of_rank, shapes);

  std::vector<std::vector<int>> nodes;
  std::vector<std::vector<int>> across;
  for (const auto& [node, members] : by_node) {
    nodes.push_back(members);
    across.resize(std::max(across.size(), members.size()));
    for (std::size_t i = 0; i < members.size(); ++i) across[i].push_back(members[i]);
  }
  AddShape(std::move(nodes), node_of_rank, shapes);
  AddShape(std::move(across), node_of_rank, shapes);

  for (int size = 2; size < ranks; ++size) {
    if (ranks % size != 0) continue;
    const GroupLayout neighbours(ranks, {{.stride = 1, .degree = size}});
    const GroupLayout apart(ranks, {{.stride = size, .degree = ranks / size}});
    AddShape(neighbours.Groups(), node_of_rank, shapes);
    AddShape(apart.Groups(), node_of_rank, shapes);
  }
  return shapes;
}

}  // namespace stepcast::calibrate
