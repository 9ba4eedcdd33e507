#include "src/scenario/learned_runs_section.h"

#include <cmath>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace stepcast::scenario {
namespace {

using calibration::LearnedRun;
using calibration::LearnedRuns;
using calibration::RunKind;
using calibration::RunSize;

LearnedRun ReadRun(const Node& node, Diagnostics& diagnostics) {
  constexpr DecimalRange kRatio = {0.01, 100};
  constexpr std::int64_t kMostRepeats = 1'000'000;
  MappingReader reader(node, diagnostics);
  LearnedRun run;
  run.log_ratio =
      std::log(reader.ReadDecimal("measured_over_forecast", Need::kRequired, kRatio).value_or(1));
  run.repeats = static_cast<int>(
      reader.ReadInteger("repeats", Need::kOptional, {1, kMostRepeats}).value_or(1));
  for (std::size_t i = 0; i < calibration::kRunSizes; ++i) {
    const auto size = static_cast<RunSize>(i);
    const bool may_miss = MayBeUnknown(size);
    run.settings.sizes[i] =
        reader
            .ReadInteger(Name(size), may_miss ? Need::kOptional : Need::kRequired,
                         {.least = may_miss ? 0 : 1})
            .value_or(may_miss ? 0 : 1);
  }
  for (std::size_t i = 0; i < calibration::kRunKinds; ++i) {
    const auto kind = static_cast<RunKind>(i);
    run.settings.kinds[i] =
        reader.ReadText(Name(kind), MayBeUnknown(kind) ? Need::kOptional : Need::kRequired)
            .value_or("");
  }
  reader.Finish();
  return run;
}

}  // namespace

std::shared_ptr<const LearnedRuns> ReadLearnedRuns(MappingReader& section) {
  Diagnostics& diagnostics = section.diagnostics();
  section.ReadText("source", Need::kOptional);
  std::vector<LearnedRun> runs;
  if (const auto cases = section.ReadSequence("cases", Need::kRequired)) {
    std::set<calibration::RunSettings> known;
    for (const Node& node : *cases) {
      runs.push_back(ReadRun(node, diagnostics));
      if (section.failed() || known.insert(runs.back().settings).second) continue;
      diagnostics.push_back({"calibration.runs", node.location(), "another run has these settings",
                             "write one case, with 'repeats'"});
    }
    if (cases->empty() || cases->size() > LearnedRuns::kMostRuns) {
      section.Report("cases", "calibration.runs",
                     fmt::format("a profile has between 1 and {} runs: {}", LearnedRuns::kMostRuns,
                                 cases->size()),
                     "leave the section out, or keep the runs that are like yours");
    }
  }
  section.Finish();
  if (section.failed()) return nullptr;
  return std::make_shared<const LearnedRuns>(std::move(runs));
}

}  // namespace stepcast::scenario
