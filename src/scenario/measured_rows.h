#pragma once

#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/calibration/calibration.h"
#include "src/scenario/document.h"

// Rows of measured figures, as profiles write them: [1 MiB, 13.1 ms], [1024, 1024, 4096, 25 us].
// Besides what documents report in general: calibration.bad-point (a row of wrong length) and
// calibration.no-points (an empty curve).
namespace stepcast::scenario {

// The items of one row; empty after a Diagnostic when there are not `count`. `needs`: what they
// are, in words.
std::vector<Node> ItemsOfRow(const Node& node, std::size_t count, std::string_view needs,
                             std::string_view example, Diagnostics& diagnostics);

// The nodes of an optional sequence that has something in it.
std::vector<Node> ReadRows(MappingReader& section, std::string_view key);

// Rows of a size and a time, each behind the points before.
void ReadPoints(const std::vector<Node>& nodes, calibration::Curve& points,
                Diagnostics& diagnostics);
// Those of an optional key.
calibration::Curve ReadCurve(MappingReader& section, std::string_view key,
                             Diagnostics& diagnostics);

}  // namespace stepcast::scenario
