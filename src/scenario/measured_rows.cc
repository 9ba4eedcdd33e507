#include <optional>

#include "fmt/format.h"
#include "src/scenario/calibration_file.h"

namespace stepcast::scenario {
namespace {

// Appends a point. An unreadable value is replaced by a plausible one after the previous points, so
// that the rest can be checked; the diagnostics prevent use of the profile.
void AddAfter(calibration::Curve& points, std::optional<Bytes> size, std::optional<Time> time) {
  if (size && time) {
    points.emplace_back(*size, *time);
  } else if (points.empty()) {
    points.emplace_back(Bytes(1), Picoseconds(1));
  } else {
    points.emplace_back(points.back().first + Bytes(1), points.back().second);
  }
}

}  // namespace

std::vector<Node> ItemsOfRow(const Node& node, std::size_t count, std::string_view needs,
                             std::string_view example, Diagnostics& diagnostics) {
  std::vector<Node> row = node.items();
  if (row.size() == count) return row;
  diagnostics.push_back({"calibration.bad-point", node.location(),
                         fmt::format("{} needs {}: {}", node.path(), needs, node.Described()),
                         fmt::format("write {}", example)});
  return {};
}

void ReadPoints(const std::vector<Node>& nodes, calibration::Curve& points,
                Diagnostics& diagnostics) {
  for (const Node& node : nodes) {
    const std::vector<Node> row =
        ItemsOfRow(node, 2, "a size and a time", "[1 MiB, 13.1 ms]", diagnostics);
    std::optional<Bytes> size;
    std::optional<Time> time;
    if (!row.empty()) {
      size = ReadBytes(row[0], Zero::kAllowed, diagnostics);
      time = ReadTime(row[1], Zero::kAllowed, diagnostics);
    }
    AddAfter(points, size, time);
  }
}

std::vector<Node> ReadRows(MappingReader& section, std::string_view key) {
  const auto nodes = section.ReadSequence(key, Need::kOptional);
  if (!nodes) return {};
  if (nodes->empty()) {
    section.Report(key, "calibration.no-points", "a curve needs at least one point",
                   "remove the key if nothing was measured");
  }
  return *nodes;
}

calibration::Curve ReadCurve(MappingReader& section, std::string_view key) {
  calibration::Curve curve;
  ReadPoints(ReadRows(section, key), curve, section.diagnostics());
  return curve;
}

}  // namespace stepcast::scenario
