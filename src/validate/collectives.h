#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/calibration/collective_curves.h"
#include "src/cost/demand.h"

// Compares every published measurement of a collective with a forecast for the same machine.
//
// Forecasts for a source use the profile of its GPU type. The source's fit points replace fit
// points of other sources, as if measured for the profile. Held-back points are not used in
// forecasts.
namespace stepcast::validate {

enum class Role : std::uint8_t { kFit, kHeldBack, kUncertain };
constexpr std::string_view Name(Role role) {
  constexpr std::string_view kNames[] = {"fit", "held back", "uncertain"};
  return kNames[static_cast<std::size_t>(role)];
}

// The bands of collective sizes. Accuracy targets do not apply to the first band, kTiny.
enum class SizeBand : std::uint8_t { kTiny, kSmall, kMedium, kLarge };
inline constexpr std::array kSizeBands = {SizeBand::kTiny, SizeBand::kSmall, SizeBand::kMedium,
                                          SizeBand::kLarge};
constexpr std::string_view Name(SizeBand band) {
  constexpr std::string_view kNames[] = {"below 32 KiB", "32 KiB to 1 MiB", "1 to 64 MiB",
                                         "above 64 MiB"};
  return kNames[static_cast<std::size_t>(band)];
}
SizeBand BandOf(Bytes size);

struct CollectivePoint {
  std::size_t source = 0;  // index in CollectiveAccuracy::sources
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int ranks = 0;
  int nodes = 0;
  bool nvlink = true;  // ranks of a node communicate over NVLink; false: over PCIe
  std::string forced;  // algorithm that the user forced; empty: NCCL's choice
  Bytes size;
  Role role = Role::kFit;
  Time measured;
  Time forecast;
  Time by_law;  // modeled, without measured curves
  std::string algorithm, protocol;
  int channels = 0;
  cost::Provenance provenance = cost::Provenance::kModelled;
  // The algorithm and protocol that the source reports. Empty if the source reports none.
  std::string documented_algorithm, documented_protocol;

  // These functions return the relative errors of `forecast` and of `by_law`: (forecast - measured)
  // / measured.
  double error() const { return forecast / measured - 1; }
  double law_error() const { return by_law / measured - 1; }
  bool documented() const { return !documented_algorithm.empty(); }
  bool as_documented() const {
    return algorithm == documented_algorithm &&
           (documented_protocol.empty() || protocol == documented_protocol);
  }
};

struct CollectiveSource {
  std::string name, source, machine, rule, not_counted;
  bool counts() const { return not_counted.empty(); }
};

// A summary of errors. `median` and `p90` summarize absolute errors; `bias` is the mean of signed
// errors.
struct ErrorSummary {
  std::size_t points = 0;
  double median = 0;
  double p90 = 0;
  double bias = 0;
};
ErrorSummary Summarise(std::vector<double> errors);

struct CollectiveAccuracy {
  std::vector<CollectiveSource> sources;
  std::vector<CollectivePoint> points;

  // The errors of forecasts and of `by_law` for points of one role with sizes from 32 KiB to 16
  // GiB, in sources with accuracy targets.
  ErrorSummary Total(Role role) const;
  ErrorSummary TotalByLaw(Role role) const;
  std::size_t documented() const;
  std::size_t as_documented() const;

  // The targets for held-back points. The median error is at most 5 %, 90 % of the errors are at
  // most 15 %, and every documented choice is forecast correctly.
  static constexpr double kMedianTarget = 0.05;
  static constexpr double kP90Target = 0.15;
  bool MeetsTargets() const;
};

// Compares all calibration/collectives/*.yaml of the data root. Errors: the errors of the files.
Result<CollectiveAccuracy> CompareCollectives();

// Like CompareCollectives, but for `files`. If `own` is true, forecasts use the fit points of these
// files. Otherwise, forecasts use only the fit points of profiles.
Result<CollectiveAccuracy> CompareCurves(
    std::span<const std::shared_ptr<const calibration::CurveFile>> files, bool own);

}  // namespace stepcast::validate
