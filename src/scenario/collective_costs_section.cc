#include "src/scenario/collective_costs_section.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "src/base/time.h"
#include "src/scenario/curve_file.h"
#include "src/scenario/measured_rows.h"
#include "src/scenario/required_values.h"

namespace stepcast::scenario {
namespace {

constexpr IntegerRange kGroupSize{1, 10'000'000};

std::pair<Time, Time> ReadQuantiles(const Node& node, Diagnostics& diagnostics) {
  const std::vector<Node> row = ItemsOfRow(node, 2, "two times", "[12.9 ms, 13.4 ms]", diagnostics);
  if (row.empty()) return {Picoseconds(1), Picoseconds(1)};
  const auto low = ReadTime(row[0], Zero::kAllowed, diagnostics);
  const auto high = ReadTime(row[1], Zero::kAllowed, diagnostics);
  if (!low || !high) return {Picoseconds(1), Picoseconds(1)};
  return {*low, *high};
}

}  // namespace

calibration::CollectiveTable ReadCollectiveTable(const Node& node, int index,
                                                 Diagnostics& diagnostics) {
  calibration::CollectiveTable table;
  table.location = node.location();
  MappingReader reader(node, diagnostics);
  const auto kind = ReadCollectiveKind(reader);
  const auto ranks = reader.ReadInteger("ranks", Need::kRequired, kGroupSize);
  const auto nodes = reader.ReadInteger("nodes", Need::kRequired, kGroupSize);
  if (kind && ranks && nodes) {
    table.collective = *kind;
    table.ranks = static_cast<int>(*ranks);
    table.nodes = static_cast<int>(*nodes);
  } else {
    table.ranks = static_cast<int>(kGroupSize.most) + 1 + index;  // no other table's key
    table.nodes = 1;
  }
  if (const auto points = reader.ReadSequence("points", Need::kRequired)) {
    ReadPoints(*points, table.points, diagnostics);
  }
  if (const auto quantiles = reader.ReadSequence("quantiles", Need::kOptional)) {
    for (const Node& node : *quantiles) table.quantiles.push_back(ReadQuantiles(node, diagnostics));
  }
  reader.Finish();
  return table;
}

calibration::CollectiveLaw ReadCollectiveLaw(MappingReader& section) {
  constexpr DecimalRange kStretch = {0, 1000};
  constexpr DecimalRange kEfficiency = {0.01, 2};
  calibration::CollectiveLaw law;
  law.launch = RequiredTime(section, "launch");
  for (calibration::WireClass wire : calibration::kWireClasses) {
    auto figures = section.ReadMapping(Name(wire), Need::kRequired);
    if (!figures) continue;
    calibration::CollectiveLaw::Ramp& ramp = law.ramp[static_cast<std::size_t>(wire)];
    ramp.stretch = figures->ReadDecimal("stretch", Need::kRequired, kStretch).value_or(0);
    const auto half = figures->ReadBytes("half", Need::kRequired, Zero::kRefused);
    ramp.half = half ? static_cast<double>(half->count()) : 1;
    ramp.efficiency = figures->ReadDecimal("efficiency", Need::kRequired, kEfficiency).value_or(1);
    figures->Finish();
  }
  section.Finish();
  return law;
}

}  // namespace stepcast::scenario
