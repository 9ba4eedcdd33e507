#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/forecast/values.h"
#include "src/scenario/published_file.h"

// Compares every published measurement of a training step with a forecast of the same run.
namespace stepcast::validate {

// Computes the accuracy of forecast values from forecast and measured values.

struct Pair {
  double measured = 0;  // positive
  double forecast = 0;

  double error() const { return forecast / measured - 1; }
};

// The accuracy of a set of forecasts. Errors are fractions of the measured value: 0.04 means 4 %.
struct AccuracyFigures {
  std::size_t cases = 0;
  double mean = 0;    // mean of absolute errors
  double median = 0;  // median of absolute errors; for an even number, the lower middle value
  double p90 = 0;     // smallest value that 90 % of absolute errors do not exceed
  double bias = 0;    // mean of signed errors
  // Spearman's rank correlation of forecast and measured values. Equal values have their mean rank.
  // Not set for fewer than three cases, or if all forecast or all measured values are equal.
  std::optional<double> rank_correlation;
};

AccuracyFigures FiguresOf(const std::vector<Pair>& pairs);

// The baseline without simulation: the step time of a run that achieves the same fraction of the
// peak rate as the most similar fit row.
//
// The most similar row has the same GPU type and the smallest distance. The distance is the sum of
// squares of log2 of the ratios of parameters, sequence length, GPUs, micro-batch size and
// micro-batches. Each difference in precision, recomputation or ZeRO stage adds 4 (two doublings).
// Among equally similar rows, the first row is used. Candidates are the fit rows of the same source
// or, if the source has no fit rows for the GPU, of all sources. A row is not compared with itself.
struct Rival {
  std::optional<Time> step_time;
  // The baseline's step time if only rows with up to 64 GPUs are used.
  std::optional<Time> from_small;
};
inline constexpr int kSmall = 64;

struct MemoryOutcome {
  scenario::MemoryKind kind = scenario::MemoryKind::kAllocated;
  Bytes measured, forecast;
  std::optional<forecast::BytesRange>
      range;  // range of the forecast; not set if the profile has no residual
  // The probability with which the forecast fits on a device with as much memory as the measured
  // peak (FitProbability, forecast/uncertainty.h).
  double just_fits = 0;
};

struct PublishedOutcome {
  std::size_t source = 0;  // the case PublishedAccuracy::sources[source].cases[index]
  std::size_t index = 0;
  std::string reason;  // why the case was not simulated; empty: it was simulated
  bool simulated() const { return reason.empty(); }

  // The members below are set only for simulated cases.
  std::string model, gpu;
  int devices = 0;
  std::int64_t sequence_length = 0;
  double tokens = 0;  // per step
  Time forecast;
  std::optional<forecast::TimeRange> range;  // range of the forecast
  std::vector<MemoryOutcome> memory;
  double filled = 0;  // forecast memory as a fraction of the device's memory
  Bytes over;         // forecast memory beyond the device's memory; zero: the case fits
  // The bytes by which the lower end of the memory forecast's range exceeds the device's memory.
  // Without a range, the bytes by which the memory forecast exceeds the device's memory.
  Bytes surely_over;
  Rival rival;
};

// A choice among plans of one source with the same model, sequence length, GPU type and number of
// GPUs. `chosen` has the most forecast tokens per second; `best` was measured to be fastest.
struct PlanChoice {
  std::vector<std::size_t> outcomes;
  std::size_t chosen = 0;  // index in PublishedAccuracy::outcomes
  std::size_t best = 0;    // index of the plan with the best measurement
  double regret = 0;       // time per token of the chosen plan relative to the best plan, minus 1
};
inline constexpr double kGoodChoice = 0.03;

// The number of measurements within the range of their forecast. The goal is 90 % of all
// measurements with a range.
struct Coverage {
  std::size_t cases = 0;  // number of cases with a range
  std::size_t inside = 0;
};

// The accuracy of ranges for unknown sources: each source's check rows are compared with the check
// rows of all other sources. A source is weighted by the square root of its number of rows, because
// errors within a source are correlated. A band that covers 90 % of the other sources' rows is too
// narrow for a source unlike any of them. The level is therefore raised until 90 % of all rows are
// inside.
struct TransferError {
  std::size_t sources = 0;
  std::size_t cases = 0, inside = 0;  // `inside`: within the band of the other sources
  double half_width = 0;              // |measured / forecast - 1| is at most this value for 90 % of
                                      // all rows
  double residual = 0;  // value for a profile's `source` or `memory` (forecast/uncertainty.h)
};

// The calibration of fit probabilities: the fraction of measured peaks that fit should be close to
// the forecast probability. For each check row and each step of 1 % in a bin of probabilities, the
// peak is compared with the device capacity that has this probability (FitProbability,
// forecast/uncertainty.h).
struct FitCalibration {
  double from = 0, to = 0;  // range of forecast probabilities
  std::size_t peaks = 0;    // number of check rows with known peaks
  std::size_t cases = 0, fitting = 0;
  double mean_probability = 0;
  double fitted() const { return static_cast<double>(fitting) / static_cast<double>(cases); }
};
inline constexpr double kFitCalibrationLimit = 0.10;

// Errors of forecasts for one GPU type, over the rows that are used for fitting (Split::kFit). `of`
// is "step" or "memory". The residual of the same name in a profile is set to `median`.
struct FitResidual {
  std::string gpu, of;
  std::size_t cases = 0;
  double median = 0;  // median of absolute errors
};

// Selects outcomes. A member that is not set selects all outcomes.
struct Selection {
  std::optional<std::size_t> source{};  // not set: all sources with measured times
  std::optional<scenario::Split> split{};
  std::optional<scenario::Quality> quality{};
  bool large = false;  // only cases with more than 64 GPUs
  // true: only sources with fit rows; false: only sources without fit rows.
  std::optional<bool> fitted_source{};
  double least_filled = 0;  // minimum of PublishedOutcome's `filled`
  // The smallest and the largest number of GPUs that are selected.
  int least_devices = 0, most_devices = std::numeric_limits<int>::max();
};

enum class AimUnit : std::uint8_t { kPart, kCorrelation, kCount };

struct PublishedAim {
  std::string source, what;
  AimUnit unit = AimUnit::kPart;
  double value = 0, limit = 0;
  bool at_least = false;  // the limit is a minimum, not a maximum
  bool met() const { return at_least ? value >= limit : value <= limit; }
};

struct PublishedAccuracy {
  std::vector<scenario::PublishedSource> sources;  // sorted by name
  std::vector<PublishedOutcome> outcomes;          // ordered by source, then as in the file

  const scenario::PublishedCase& CaseOf(const PublishedOutcome& outcome) const {
    return sources[outcome.source].cases[outcome.index];
  }
  bool Selected(const PublishedOutcome& outcome, const Selection& selection) const;
  // Returns whether profiles may be fitted to rows of this source.
  bool IsFitted(std::size_t source) const;

  AccuracyFigures StepTime(const Selection& selection) const;
  // These functions return the accuracy of the baseline, and of forecasts for the same cases.
  AccuracyFigures RivalStepTime(const Selection& selection, bool from_small) const;
  AccuracyFigures StepTimeBesideRival(const Selection& selection, bool from_small) const;
  AccuracyFigures Memory(const Selection& selection) const;
  Coverage StepTimeCoverage(const Selection& selection) const;
  Coverage MemoryCoverage(const Selection& selection) const;
  std::vector<FitResidual> FitResiduals() const;
  // Returns the transfer error, computed from all check rows. `inside` and `cases` include only the
  // selected rows.
  TransferError StepTimeTransfer(const Selection& selection) const;
  // Like StepTimeTransfer, but for memory. If a run has no known peak and is forecast not to fit,
  // its error is the forecast memory beyond the device's memory.
  TransferError MemoryTransfer(const Selection& selection) const;
  // Like MemoryTransfer, but only for completely specified runs whose memory was reported by the
  // allocator instead of the driver.
  TransferError SpecifiedMemoryTransfer() const;
  // Returns the calibration for three bins of fit probabilities: 50 to 70, 70 to 90 and 90 to 100
  // %. Empty if no peaks are known.
  std::vector<FitCalibration> FitCalibrations() const;
  std::vector<PlanChoice> Choices() const;

  // Returns the targets for check rows:
  //   - each source's own limits;
  //   - step times with a bias within 3 % and a rank correlation of at least 0.97;
  //   - at most half of the baseline's mean error for sources with fit rows, and also above 64
  //     GPUs;
  //   - a mean memory error of at most 6 %;
  //   - no case that ran although even the low end of its memory range does not fit.
  std::vector<PublishedAim> Aims() const;
  bool MeetsAims() const;
};

// Returns the cases of all calibration/published/*.yaml of the data root, or of one `source`. The
// outcomes of these cases have no forecasts. Errors: the errors of the files; command.no-source.
Result<PublishedAccuracy> PublishedCases(const std::string& source);

// Simulates the cases of PublishedCases. The result does not depend on the number of threads.
// Errors: the errors of PublishedCases.
Result<PublishedAccuracy> ComparePublished(const std::string& source);

// Returns the YAML files of a folder below the data root, in order. `contents` describes the
// expected files, such as "published steps", for the message about an empty folder.
Result<std::vector<std::string>> DataFiles(const std::string& folder, std::string_view contents);

// Returns the forecast of this kind of memory.
Bytes ForecastOf(scenario::MemoryKind kind, const forecast::MemoryForecast& memory);

}  // namespace stepcast::validate
