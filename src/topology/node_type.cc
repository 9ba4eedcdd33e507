#include "src/topology/node_type.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/diagnostic.h"

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
  STEPCAST_CHECK(fabric.spines > 0 && ratio > 0,
                 "oversubscription needs a fabric with spines and "
                 "a ratio above zero");
  fabric.oversubscription = ratio;
  const double below = static_cast<double>(fabric.link.bandwidth.bytes_per_second()) *
                       nics_per_node * fabric.nodes_per_unit;
  const double uplink = std::round(below / ratio / fabric.spines);
  // A bandwidth above int64 exceeds the maximum of a link; faults.h refuses it.
  constexpr double kMost = 9e18;
  fabric.uplink.bandwidth =
      Bandwidth::BytesPerSecond(static_cast<std::int64_t>(std::min(uplink, kMost)));
}

namespace {

constexpr std::string_view kExample = "write for example 'gpu', 'gpu[0..3]' or 'nvswitch[0, 3]'";

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<int> ParseIndex(std::string_view text) {
  text = Trimmed(text);
  if (text.empty() || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  int index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size() || index < 0) return std::nullopt;
  return index;
}

}  // namespace

tl::expected<DeviceSet, DeviceSetError> ParseDeviceSet(
    std::string_view text, const std::array<int, kNodeDeviceKinds>& devices) {
  const auto failure = [](std::string message, std::string_view hint) {
    return tl::make_unexpected(DeviceSetError{std::move(message), std::string(hint)});
  };
  const std::string_view all = Trimmed(text);
  const std::size_t bracket = all.find('[');
  const std::string_view word = Trimmed(all.substr(0, bracket));
  const std::optional<DeviceKind> kind = NodeDeviceKindFromName(word);
  if (!kind) {
    return failure("a node has no devices of this kind: " + Quoted(word),
                   "write gpu, nvswitch, pcie_switch, cpu or nic");
  }
  const int count = devices[static_cast<std::size_t>(*kind)];
  DeviceSet set;
  set.kind = *kind;
  if (bracket == std::string_view::npos) {
    for (int i = 0; i < count; ++i) set.indices.push_back(i);
    if (count == 0) {
      return failure(fmt::format("the node has no {}: {}", Name(*kind), Quoted(text)),
                     fmt::format("add this kind to 'devices', which states the number of devices "
                                 "of each kind: {}",
                                 Name(*kind)));
    }
    return set;
  }
  if (all.back() != ']') return failure("a ']' is missing: " + Quoted(text), kExample);

  std::string_view inside = all.substr(bracket + 1, all.size() - bracket - 2);
  std::vector<bool> seen(static_cast<std::size_t>(std::max(count, 0)));
  while (true) {
    const std::size_t comma = inside.find(',');
    const std::string_view part = inside.substr(0, comma);
    const std::size_t dots = part.find("..");
    const std::optional<int> first = ParseIndex(part.substr(0, dots));
    const std::optional<int> last =
        dots == std::string_view::npos ? first : ParseIndex(part.substr(dots + 2));
    if (!first || !last) {
      return failure("this is neither an index nor a range: " + Quoted(Trimmed(part)), kExample);
    }
    if (*last < *first) return failure("a range must ascend: " + Quoted(Trimmed(part)), kExample);
    if (*last >= count) {
      return failure(
          fmt::format("the device does not exist: {}{}", Name(*kind), std::max(*first, count)),
          fmt::format("choose an existing device: the node has {} devices of kind {}, numbered "
                      "from 0",
                      count, Name(*kind)));
    }
    for (int i = *first; i <= *last; ++i) {
      if (seen[static_cast<std::size_t>(i)]) {
        return failure(fmt::format("a device is listed twice: {}{}", Name(*kind), i), "");
      }
      seen[static_cast<std::size_t>(i)] = true;
      set.indices.push_back(i);
    }
    if (comma == std::string_view::npos) return set;
    inside.remove_prefix(comma + 1);
  }
}

std::string Format(const DeviceSet& set) {
  std::string text(Name(set.kind));
  text += '[';
  const std::vector<int>& indices = set.indices;
  for (std::size_t i = 0; i < indices.size();) {
    std::size_t last = i;
    while (last + 1 < indices.size() && indices[last + 1] == indices[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += last == i ? fmt::format("{}", indices[i])
                      : fmt::format("{}..{}", indices[i], indices[last]);
    i = last + 1;
  }
  text += ']';
  return text;
}

}  // namespace stepcast::topology
