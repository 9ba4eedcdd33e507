#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/forecast/values.h"
#include "src/scenario/published_file.h"
#include "src/validate/accuracy_figures.h"

// Compares every published measurement of a training step with a forecast of the same run.
namespace stepcast::validate {

// The baseline, without simulation: the most similar measured run's fraction of the peak, among fit
// rows, determines the step time.
//
// The most similar run is on the same GPU type. It has the least sum of squares of log2 of the
// ratios of parameters, sequence length, GPUs, micro-batch size and micro-batches. Each difference
// in precision, recomputation or ZeRO stage adds 4 (two doublings). The first of equals is taken.
// Candidates are the fit rows of the same source, or of all sources if that has none for the GPU. A
// row is not its own neighbor.
struct Rival {
  std::optional<Time> step_time;
  // The same with only rows of up to 64 GPUs.
  std::optional<Time> from_small;
};
inline constexpr int kSmall = 64;

struct MemoryOutcome {
  scenario::MemoryKind kind = scenario::MemoryKind::kAllocated;
  Bytes measured, forecast;
  std::optional<forecast::BytesRange>
      range;  // of the forecast; none if the profile has no residual
  // The forecast's fit probability on a device with exactly the measured memory
  // (forecast/uncertainty.h, FitProbability).
  double just_fits = 0;
};

struct PublishedOutcome {
  std::size_t source = 0;  // the case PublishedAccuracy::sources[source].cases[index]
  std::size_t index = 0;
  std::string reason;  // why it was not simulated; empty: it was
  bool simulated() const { return reason.empty(); }

  // The following are set for simulated cases.
  std::string model, gpu;
  int devices = 0;
  std::int64_t sequence_length = 0;
  double tokens = 0;  // per step
  Time forecast;
  std::optional<forecast::TimeRange> range;  // of the forecast
  std::vector<MemoryOutcome> memory;
  double filled = 0;  // forecast need, as a fraction of the device's memory
  Bytes over;         // forecast lack of memory; zero: it fits
  // The same for the lower end of the range, or for the forecast without a range.
  Bytes surely_over;
  Rival rival;
};

// Plans of one source for one model at one sequence length on equal numbers of GPUs of one type. Is
// the plan with the fastest forecast (tokens per second) as good as the best measured plan?
struct PlanChoice {
  std::vector<std::size_t> outcomes;
  std::size_t chosen = 0;  // index in PublishedAccuracy::outcomes
  std::size_t best = 0;    // the best measured plan
  double regret = 0;       // extra time per token of the chosen plan over the best
};
inline constexpr double kGoodChoice = 0.03;

// How often measurements are within their ranges, which should be 90 %.
struct Coverage {
  std::size_t cases = 0;  // that have a range
  std::size_t inside = 0;
};

// How well ranges hold for unknown sources. Each source's check rows are compared with the check
// rows of all other sources. A source has a weight of the square root of its rows, because rows of
// a source err together. A band that covers 90 % of the other sources' rows is too narrow for a
// source unlike any of them. The level is therefore raised until 90 % of all rows are inside.
struct TransferError {
  std::size_t sources = 0;
  std::size_t cases = 0, inside = 0;  // inside: within the band of the other sources
  double half_width = 0;  // |measured / forecast - 1| that holds that fraction of all rows
  double residual = 0;    // for a profile's `source` or `memory` (forecast/uncertainty.h)
};

// Calibration of fit probabilities. Each check row's peak is tried on devices of many capacities:
// those at which the forecast fits with each hundredth of the probabilities of a bin
// (forecast/uncertainty.h, FitProbability). It should fit with about the stated probability.
struct FitCalibration {
  double from = 0, to = 0;  // forecast probabilities
  std::size_t peaks = 0;    // number of known peaks of check rows
  std::size_t cases = 0, fitting = 0;
  double mean_probability = 0;
  double fitted() const { return static_cast<double>(fitting) / static_cast<double>(cases); }
};
inline constexpr double kFitCalibrationLimit = 0.10;

// Residuals of fit rows, for a profile's residual "step" or "memory".
struct FitResidual {
  std::string gpu, of;
  std::size_t cases = 0;
  double median = 0;  // of absolute errors
};

// Selects outcomes; unset members select all.
struct Selection {
  std::optional<std::size_t> source{};  // unset: all with measured times
  std::optional<scenario::Split> split{};
  std::optional<scenario::Quality> quality{};
  bool large = false;  // only more than 64 GPUs
  // Only sources with fit rows, or only sources without.
  std::optional<bool> fitted_source{};
  double least_filled = 0;  // only devices forecast to be filled at least this much
  // Numbers of GPUs, both ends included.
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
  std::vector<scenario::PublishedSource> sources;  // by name
  std::vector<PublishedOutcome> outcomes;          // by source, then as in the file

  const scenario::PublishedCase& CaseOf(const PublishedOutcome& outcome) const {
    return sources[outcome.source].cases[outcome.index];
  }
  bool Selected(const PublishedOutcome& outcome, const Selection& selection) const;
  // Whether profiles may be fitted to rows of this source.
  bool IsFitted(std::size_t source) const;

  AccuracyFigures StepTime(const Selection& selection) const;
  // Accuracy of the baseline, and of forecasts of the same cases.
  AccuracyFigures RivalStepTime(const Selection& selection, bool from_small) const;
  AccuracyFigures StepTimeBesideRival(const Selection& selection, bool from_small) const;
  AccuracyFigures Memory(const Selection& selection) const;
  Coverage StepTimeCoverage(const Selection& selection) const;
  Coverage MemoryCoverage(const Selection& selection) const;
  std::vector<FitResidual> FitResiduals() const;
  // Computed from all check rows; `inside` and `cases` count the selected ones.
  TransferError StepTimeTransfer(const Selection& selection) const;
  // A row without a known peak that ran and is forecast not to fit counts with the excess.
  TransferError MemoryTransfer(const Selection& selection) const;
  // For completely specified runs whose memory was reported by the allocator, not by the driver.
  TransferError SpecifiedMemoryTransfer() const;
  // For 50 to 70, 70 to 90 and 90 to 100 %. Empty without peaks.
  std::vector<FitCalibration> FitCalibrations() const;
  std::vector<PlanChoice> Choices() const;

  // Targets on check rows:
  // - each source's own limits;
  // - step times with a bias within 3 % and a rank correlation of at least 0.97;
  // - at most half of the baseline's mean error for sources with fit rows, and also above 64 GPUs;
  // - a mean memory error of at most 6 %;
  // - no case that ran and is forecast not to fit beyond its range.
  std::vector<PublishedAim> Aims() const;
  bool MeetsAims() const;
};

// For all calibration/published/*.yaml of the data root, or for one `source`. The result does not
// depend on the number of threads. Errors: those of the files; command.no-source.
Result<PublishedAccuracy> ComparePublished(const std::string& source);

}  // namespace stepcast::validate
