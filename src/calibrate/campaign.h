#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/base/data_type.h"
#include "src/base/time.h"
#include "src/calibrate/calibrate.h"
#include "src/calibrate/profile_values.h"
#include "src/calibrate/repetition.h"
#include "src/calibrate/session.h"
#include "src/calibrate/statistics.h"
#include "src/calibration/calibration.h"

// What all measurements of a calibration share.
namespace stepcast::calibrate {

// Sizes, and what was measured at each.
using Results = std::vector<std::pair<std::int64_t, Summary>>;

// How thorough a calibration is.
struct Effort {
  Repetition kernels;
  Repetition collectives;
  Time longest_kernel;
  Time kernel_budget;  // of one curve
  Time longest_collective;
  std::int64_t largest_bytes;    // of curves over bytes
  std::int64_t largest_product;  // of m, n and k
};

// About how long to measure.
Time TimeOf(const Options& options);
// Whether there is no time for more than a coarse grid, measured a few times.
bool IsCoarse(const Options& options);

struct Campaign {
  // `session` and `options` outlive it.
  Campaign(Session& session, const Options& options, std::vector<int> node_of_rank);

  bool Wants(Part part) const;
  bool WantsKernels() const;
  int rank() const { return session.job().place().rank; }
  int ranks() const { return static_cast<int>(node_of_rank.size()); }
  std::vector<int> AllRanks() const;
  std::vector<DataType> Types() const;

  // The profile's section, made when first asked for.
  calibration::KernelCosts& kernels();
  // Results over bytes as a curve of the profile; also kept for residuals and fits.
  calibration::Curve CurveOf(const std::string& part, const std::string& what,
                             const Results& results, Between between);

  Session& session;
  const Options& options;
  std::vector<int> node_of_rank;
  Effort effort;
  Outcome outcome;
  ResidualNotes residuals;
  std::vector<double> reference;  // seconds of the reference kernel, each time
};

// From `from`, a positive number, to no more than `to`.
std::vector<std::int64_t> PowersOfTwo(std::int64_t from, std::int64_t to);

}  // namespace stepcast::calibrate
