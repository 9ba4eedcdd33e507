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

// Every published measurement of a training step against the forecast of the same run.
namespace stepcast::validate {

// The baseline: looks up the measured run that is most like this one among those that may be
// fitted, takes its share of the GPUs' peak, and divides. No simulation at all.
//
// Most like: on the same GPU type, the least sum of squares of log2 of the ratios of parameters,
// sequence length, GPUs, micro-batch size and micro-batches, plus 4 (two doublings) for each of
// precision, recomputation and ZeRO stage that differs; the first of equals. Among the fit rows of
// the same source; of all sources, where that has none for the GPU. A row is not its own neighbour.
struct Rival {
  std::optional<Time> step_time;
  // The same when only rows of up to 64 GPUs are known.
  std::optional<Time> from_small;
};
inline constexpr int kSmall = 64;

struct MemoryOutcome {
  scenario::MemoryKind kind = scenario::MemoryKind::kAllocated;
  Bytes measured, forecast;
  std::optional<forecast::BytesRange>
      range;  // of the forecast; none where the profile does not say
  // With which probability the forecast fits where there is as much memory as was measured
  // (forecast/uncertainty.h, FitProbability).
  double just_fits = 0;
};

struct PublishedOutcome {
  std::size_t source = 0;  // PublishedAccuracy::sources[source].cases[index]
  std::size_t index = 0;
  std::string reason;  // why it was not simulated; empty: it was
  bool simulated() const { return reason.empty(); }

  // Of simulated cases.
  std::string model, gpu;
  int devices = 0;
  std::int64_t sequence_length = 0;
  double tokens = 0;  // of a step
  Time forecast;
  std::optional<forecast::TimeRange> range;  // of the forecast
  std::vector<MemoryOutcome> memory;
  double filled = 0;  // what is forecast to be needed, of the device's memory
  Bytes over;         // by how much it is forecast not to fit; zero: it fits
  // The same with the smallest memory that its range allows; the whole where there is none.
  Bytes surely_over;
  Rival rival;
};

// Plans for one model at one sequence length on as many GPUs of one type, of one source: is the
// plan that is forecast to be the fastest (tokens per second) as good as the best that was
// measured?
struct PlanChoice {
  std::vector<std::size_t> outcomes;
  std::size_t chosen = 0;  // in PublishedAccuracy::outcomes
  std::size_t best = 0;    // measured
  double regret = 0;       // how much longer the chosen one takes for a token than the best
};
inline constexpr double kGoodChoice = 0.03;

// How often what was measured lies where nine of ten are expected.
struct Coverage {
  std::size_t cases = 0;  // that have a range
  std::size_t inside = 0;
};

// How well the ranges of sources that are not known yet hold: each source's check rows against what
// the check rows of all others say. A source counts by the root of its rows: between counting
// sources, of which a few say little, and counting rows, which err together within a source. Rows
// within what nine of ten of the others lie in are fewer than nine of ten, because no source is
// quite like the others; so the level is raised until nine of ten of all rows are.
struct TransferError {
  std::size_t sources = 0;
  std::size_t cases = 0, inside = 0;  // inside: within what the other sources say
  double half_width = 0;  // that part of the rows of all sources: |measured / forecast - 1| at most
  double residual = 0;    // as a profile's `source` or `memory` (forecast/uncertainty.h)
};

// Whether what fits with a stated probability fits as often. Each check row's peak stands for steps
// on devices of many capacities, one at each hundredth of the probabilities of a bin: those at
// which the forecast fits with that probability (forecast/uncertainty.h, FitProbability).
struct FitCalibration {
  double from = 0, to = 0;  // forecast probabilities
  std::size_t peaks = 0;    // check rows' that are known
  std::size_t cases = 0, fitting = 0;
  double mean_probability = 0;
  double fitted() const { return static_cast<double>(fitting) / static_cast<double>(cases); }
};
inline constexpr double kFitCalibrationLimit = 0.10;

// Residuals of fit rows: for a profile's residual "step" or "memory".
struct FitResidual {
  std::string gpu, of;
  std::size_t cases = 0;
  double median = 0;  // of absolute errors
};

// Which outcomes count; what is not set is any.
struct Selection {
  std::optional<std::size_t> source{};  // not set: any whose times were measured
  std::optional<scenario::Split> split{};
  std::optional<scenario::Quality> quality{};
  bool large = false;  // only more than 64 GPUs
  // Of sources that have rows which profiles may be fitted to, or of those that have none.
  std::optional<bool> fitted_source{};
  double least_filled = 0;  // only devices that are forecast to be filled at least so far
  // Only so many GPUs, both included.
  int least_devices = 0, most_devices = std::numeric_limits<int>::max();
};

enum class AimUnit : std::uint8_t { kPart, kCorrelation, kCount };

struct PublishedAim {
  std::string source, what;
  AimUnit unit = AimUnit::kPart;
  double value = 0, limit = 0;
  bool at_least = false;  // the value is to be at least, not at most, the limit
  bool met() const { return at_least ? value >= limit : value <= limit; }
};

struct PublishedAccuracy {
  std::vector<scenario::PublishedSource> sources;  // by name
  std::vector<PublishedOutcome> outcomes;          // by source, then as in the file

  const scenario::PublishedCase& CaseOf(const PublishedOutcome& outcome) const {
    return sources[outcome.source].cases[outcome.index];
  }
  bool Selected(const PublishedOutcome& outcome, const Selection& selection) const;
  // Whether profiles were, or may be, fitted to rows of this source.
  bool IsFitted(std::size_t source) const;

  AccuracyFigures StepTime(const Selection& selection) const;
  // The rival's, and what is forecast of the same cases.
  AccuracyFigures RivalStepTime(const Selection& selection, bool from_small) const;
  AccuracyFigures StepTimeBesideRival(const Selection& selection, bool from_small) const;
  AccuracyFigures Memory(const Selection& selection) const;
  Coverage StepTimeCoverage(const Selection& selection) const;
  Coverage MemoryCoverage(const Selection& selection) const;
  std::vector<FitResidual> FitResiduals() const;
  // Of all check rows; `inside` and `cases` of those that are selected.
  TransferError StepTimeTransfer(const Selection& selection) const;
  // Of those whose peak is not known, what ran and is forecast not to fit counts with what is over.
  TransferError MemoryTransfer(const Selection& selection) const;
  // Of runs that are specified completely, by what the allocator says, not the driver.
  TransferError SpecifiedMemoryTransfer() const;
  // From 50 to 70, 70 to 90 and 90 to 100 %. Empty without any peaks.
  std::vector<FitCalibration> FitCalibrations() const;
  std::vector<PlanChoice> Choices() const;

  // Target on check rows: each source's own limits; a bias within 3 % and a rank correlation of at
  // least 0.97 of step times; at most half of the rival's mean error where the source has fit rows,
  // and again above 64 GPUs; a mean error of memory of at most 6 %; no case that ran forecast as
  // not fitting beyond the range of the forecast.
  std::vector<PublishedAim> Aims() const;
  bool MeetsAims() const;
};

// Of all calibration/published/*.yaml of the data root; of one, where `source` is not empty. The
// same on any number of threads. Errors are those of the files; command.no-source.
Result<PublishedAccuracy> ComparePublished(const std::string& source);

}  // namespace stepcast::validate
