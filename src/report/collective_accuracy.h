#pragma once

#include <string>

#include "src/validate/collectives.h"

// How forecasts of collectives compare with what was published (docs/formats.md).
namespace stepcast::report {

// Tables by source and size band, totals, choices that differ from documented ones.
std::string CollectiveAccuracyText(const validate::CollectiveAccuracy& accuracy);
std::string CollectiveAccuracyJson(const validate::CollectiveAccuracy& accuracy);
// A record for each point.
std::string CollectiveAccuracyCsv(const validate::CollectiveAccuracy& accuracy);
// The section of docs/accuracy/collectives.md between its markers, without them.
std::string CollectiveAccuracyMarkdown(const validate::CollectiveAccuracy& accuracy);

}  // namespace stepcast::report
