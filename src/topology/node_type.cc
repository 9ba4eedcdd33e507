#include "src/topology/node_type.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "src/base/check.h"

namespace stepcast::topology {

const char* Name(Join join) { return join == Join::kInOrder ? "in-order" : "all-to-all"; }

const char* Name(Processor processor) {
  switch (processor) {
    case Processor::kIntelBroadwell:
      return "intel-broadwell";
    case Processor::kIntelSkylake:
      return "intel-skylake";
    case Processor::kIntelSapphireRapids:
      return "intel-sapphire-rapids";
    case Processor::kIntelEmeraldRapids:
      return "intel-emerald-rapids";
    case Processor::kAmd:
      return "amd";
    case Processor::kArm:
      return "arm";
    case Processor::kPower9:
      return "power9";
  }
  return "";
}

const char* Name(FabricKind kind) {
  switch (kind) {
    case FabricKind::kOneSwitch:
      return "one-switch";
    case FabricKind::kRailOptimised:
      return "rail-optimised";
    case FabricKind::kFatTree:
      return "fat-tree";
  }
  return "";
}

const char* Name(RouteChoice choice) {
  switch (choice) {
    case RouteChoice::kAdaptive:
      return "adaptive";
    case RouteChoice::kStatic:
      return "static";
    case RouteChoice::kEcmp:
      return "ecmp";
  }
  return "";
}

std::vector<std::pair<int, int>> PairsOf(const LinkRule& rule) {
  const std::vector<int>& from = rule.from.indices;
  const std::vector<int>& to = rule.to.indices;
  std::vector<std::pair<int, int>> pairs;
  if (rule.join == Join::kInOrder) {
    const std::size_t count = std::max(from.size(), to.size());
    pairs.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      pairs.emplace_back(from[i * from.size() / count], to[i * to.size() / count]);
    }
    return pairs;
  }
  pairs.reserve(from.size() * to.size());
  for (int a : from) {
    for (int b : to) {
      if (rule.from.kind == rule.to.kind) {
        if (a == b) continue;
        // Both ends name both devices, so the pair occurs twice; keep the ascending one.
        const bool mirrored = std::find(to.begin(), to.end(), a) != to.end() &&
                              std::find(from.begin(), from.end(), b) != from.end();
        if (mirrored && a > b) continue;
      }
      pairs.emplace_back(a, b);
    }
  }
  return pairs;
}

void SetOversubscription(Fabric& fabric, int nics_per_node, double ratio) {
  STEPCAST_CHECK(fabric.spines > 0 && ratio > 0, "an oversubscription needs spines and a ratio");
  fabric.oversubscription = ratio;
  const double below = static_cast<double>(fabric.link.bandwidth.bytes_per_second()) *
                       nics_per_node * fabric.nodes_per_unit;
  const double uplink = std::round(below / ratio / fabric.spines);
  // A figure beyond int64 exceeds any link; faults.h refuses it.
  constexpr double kMost = 9e18;
  fabric.uplink.bandwidth =
      Bandwidth::BytesPerSecond(static_cast<std::int64_t>(std::min(uplink, kMost)));
}

}  // namespace stepcast::topology
