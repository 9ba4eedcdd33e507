#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/accuracy.h"
#include "src/report/answer.h"

namespace stepcast::report {
namespace {

using validate::CollectiveAccuracy;
using validate::CollectivePoint;
using validate::CollectiveSource;
using validate::ErrorSummary;
using validate::Role;
using validate::SizeBand;

constexpr Role kRoles[] = {Role::kFit, Role::kHeldBack, Role::kUncertain};

struct MeasuredRow {
  std::size_t source = 0;
  SizeBand band = SizeBand::kTiny;
  Role role = Role::kFit;
  ErrorSummary forecast, law;
};

// Rows by source, band and role, if they have points.
std::vector<MeasuredRow> RowsOf(const CollectiveAccuracy& accuracy) {
  std::vector<MeasuredRow> rows;
  for (std::size_t source = 0; source < accuracy.sources.size(); ++source) {
    for (SizeBand band : validate::kSizeBands) {
      for (Role role : kRoles) {
        std::vector<double> forecast, law;
        for (const CollectivePoint& point : accuracy.points) {
          if (point.source != source || point.role != role ||
              validate::BandOf(point.size) != band) {
            continue;
          }
          forecast.push_back(point.error());
          law.push_back(point.law_error());
        }
        if (forecast.empty()) continue;
        rows.push_back({source, band, role, validate::Summarise(std::move(forecast)),
                        validate::Summarise(std::move(law))});
      }
    }
  }
  return rows;
}

std::string NameOf(const CollectiveSource& source) {
  return source.counts() ? source.name : source.name + " (not counted)";
}

std::string ChoiceOf(const std::string& algorithm, const std::string& protocol) {
  return protocol.empty() ? algorithm : algorithm + " " + protocol;
}

std::string TotalSentence(const CollectiveAccuracy& accuracy, Role role) {
  const ErrorSummary total = accuracy.Total(role);
  const ErrorSummary law = accuracy.TotalByLaw(role);
  return fmt::format(
      "{} from 32 KiB to 16 GiB ({} points): median error {} %, 90th percentile {} %, mean error "
      "{} %. Without measured curves: median error {} %, 90th percentile {} %, mean error {} %.\n",
      role == Role::kHeldBack ? "Points held back," : "Fit points,", total.points,
      PerCent(total.median), PerCent(total.p90), SignedPerCent(total.bias), PerCent(law.median),
      PerCent(law.p90), SignedPerCent(law.bias));
}

std::string Choices(const CollectiveAccuracy& accuracy) {
  std::string out = fmt::format("Algorithms: {} of {} forecast choices are as documented.\n",
                                accuracy.as_documented(), accuracy.documented());
  for (const CollectivePoint& point : accuracy.points) {
    if (!point.documented() || point.as_documented()) continue;
    out +=
        fmt::format("  {}: {} of {} over {} ranks: {}, documented {}\n",
                    accuracy.sources[point.source].name, Name(point.collective),
                    FormatBytes(point.size), point.ranks, ChoiceOf(point.algorithm, point.protocol),
                    ChoiceOf(point.documented_algorithm, point.documented_protocol));
  }
  return out;
}

std::string Targets(const CollectiveAccuracy& accuracy) {
  return fmt::format(
      "Targets for held-back points: a median error of at most {:.0f} %, a 90th percentile of at "
      "most {:.0f} %, and all documented choices of algorithms. The targets are {}.\n",
      100 * CollectiveAccuracy::kMedianTarget, 100 * CollectiveAccuracy::kP90Target,
      accuracy.MeetsTargets() ? "met" : "not met");
}

Json SummaryJson(const ErrorSummary& summary) {
  return Json{{"points", summary.points},
              {"median", summary.median},
              {"p90", summary.p90},
              {"bias", summary.bias}};
}

// Without `fit`, no rows of fit points: forecasts equal the curve at these points, so their errors
// are zero.
Table ErrorTable(const CollectiveAccuracy& accuracy, bool fit) {
  using enum Align;
  Table table({{"source", kLeft},
               {"sizes", kLeft},
               {"points are", kLeft},
               {"points"},
               {"median %"},
               {"p90 %"},
               {"mean %"},
               {"law median %"},
               {"law p90 %"}});
  for (const MeasuredRow& row : RowsOf(accuracy)) {
    if (!fit && row.role == Role::kFit) continue;
    table.AddRow({NameOf(accuracy.sources[row.source]), std::string(Name(row.band)),
                  std::string(Name(row.role)), fmt::format("{}", row.forecast.points),
                  PerCent(row.forecast.median), PerCent(row.forecast.p90),
                  SignedPerCent(row.forecast.bias), PerCent(row.law.median), PerCent(row.law.p90)});
  }
  return table;
}

}  // namespace

std::string CollectiveAccuracyText(const CollectiveAccuracy& accuracy) {
  return fmt::format(
      "An error is the forecast time minus the measured time, in percent of the measured time. The "
      "columns 'median' and 'p90' describe absolute errors; the column 'mean' is the mean of "
      "signed errors. The columns 'law' show errors of forecasts without measured curves.\n\n"
      "{}\n"
      "{}{}{}{}",
      ErrorTable(accuracy, true).ToString(), TotalSentence(accuracy, Role::kFit),
      TotalSentence(accuracy, Role::kHeldBack), Choices(accuracy), Targets(accuracy));
}

std::string CollectiveAccuracyMarkdown(const CollectiveAccuracy& accuracy) {
  return Markdown(ErrorTable(accuracy, false)) +
         fmt::format("\n{}\n{}\n{}\n{}", TotalSentence(accuracy, Role::kFit),
                     TotalSentence(accuracy, Role::kHeldBack), Choices(accuracy),
                     Targets(accuracy));
}

std::string CollectiveAccuracyJson(const CollectiveAccuracy& accuracy) {
  AnswerTable sources{Keys("name source machine rule counted not_counted")};
  for (const CollectiveSource& source : accuracy.sources) {
    sources.Add({source.name, source.source, source.machine, source.rule, source.counts(),
                 source.not_counted});
  }
  AnswerTable bands{Keys("source sizes role error law_error")};
  for (const MeasuredRow& row : RowsOf(accuracy)) {
    bands.Add({accuracy.sources[row.source].name, Name(row.band), Name(row.role),
               SummaryJson(row.forecast), SummaryJson(row.law)});
  }
  AnswerTable points{
      Keys("source collective ranks nodes forced_algorithm bytes role measured_s forecast_s law_s "
           "algorithm protocol channels provenance")};
  for (const CollectivePoint& point : accuracy.points) {
    points.Add({accuracy.sources[point.source].name, Name(point.collective), point.ranks,
                point.nodes, WordOr(point.forced), point.size.count(), Name(point.role),
                point.measured, point.forecast, point.by_law, point.algorithm, point.protocol,
                point.channels, cost::Name(point.provenance)});
  }
  const auto total = [&](Role role) {
    return Json{{"error", SummaryJson(accuracy.Total(role))},
                {"law_error", SummaryJson(accuracy.TotalByLaw(role))}};
  };
  return Text(Json{{"fit", total(Role::kFit)},
                   {"held_back", total(Role::kHeldBack)},
                   {"documented_choices", accuracy.documented()},
                   {"choices_as_documented", accuracy.as_documented()},
                   {"targets_met", accuracy.MeetsTargets()},
                   {"bands", bands.ToJson()},
                   {"sources", sources.ToJson()},
                   {"points", points.ToJson()}});
}

std::string CollectiveAccuracyCsv(const CollectiveAccuracy& accuracy) {
  AnswerTable table{
      Keys("source collective ranks nodes forced_algorithm bytes role counted measured_us "
           "forecast_us law_us algorithm protocol channels provenance documented_algorithm "
           "documented_protocol")};
  const auto microseconds = [](Time time) { return fmt::format("{:.3f}", time.microseconds()); };
  for (const CollectivePoint& point : accuracy.points) {
    const CollectiveSource& source = accuracy.sources[point.source];
    table.Add({source.name, Name(point.collective), point.ranks, point.nodes, point.forced,
               point.size.count(), Name(point.role), source.counts(), microseconds(point.measured),
               microseconds(point.forecast), microseconds(point.by_law), point.algorithm,
               point.protocol, point.channels, cost::Name(point.provenance),
               point.documented_algorithm, point.documented_protocol});
  }
  return table.Csv();
}

}  // namespace stepcast::report
