#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/base/data_type.h"
#include "src/base/time.h"
#include "src/calibrate/benchmark.h"
#include "src/calibrate/calibrate.h"
#include "src/calibrate/session.h"
#include "src/calibrate/statistics.h"
#include "src/calibration/calibration.h"

// The state shared by all measurements of a calibration.
namespace stepcast::calibrate {

// Converts measurement results to values of a profile.

struct Fitted;

// Returns a time rounded to five significant digits, which is the precision of measurements.
Time RoundedTime(double seconds);
// Returns the factor by which an operation becomes slower beside another operation, to three
// decimals. The result is at least 1, because a lower measured value is noise.
double SlowDown(double beside, double alone);

// Returns the medians of the results, adjusted so that times do not decrease with size.
std::vector<Time> TimesOf(const std::vector<std::pair<std::int64_t, Summary>>& results);

// Fits a line (start and rate) to the medians of the results.
Fitted FitOf(const std::string& what, const std::vector<std::pair<std::int64_t, Summary>>& results);

// How the simulator interpolates times between sizes. kLinear: time is linear in size.
// kLogarithmic: time is linear in log(size). kPowerLaw: log(time) is linear in log(size).
enum class Between : std::uint8_t { kLinear, kLogarithmic, kPowerLaw };

// Collects the residuals of each part of a profile.
class ResidualNotes {
 public:
  void Add(const std::string& part, const std::vector<std::pair<std::int64_t, Summary>>& results,
           Between between);
  // Adds the residuals of a surface. `summaries` are in the order of the surface's times.
  void AddSurface(const std::string& part, const calibration::GemmSurface& surface,
                  const std::vector<Summary>& summaries);
  std::vector<calibration::Residual> Take() const;

 private:
  struct Notes {
    std::vector<double> spreads;
    std::vector<double> misses;  // relative errors of interpolation at inner points
  };
  std::map<std::string, Notes> parts_;
};

// Returns a benchmark with only the probes at the positions `wanted`, in this order.
Benchmark Reordered(Benchmark benchmark, const std::vector<std::size_t>& wanted);

// Pairs of a size and its measurement.
using Results = std::vector<std::pair<std::int64_t, Summary>>;

// The grid and repetitions of a calibration.
struct Effort {
  Repetition kernels;
  Repetition collectives;
  Time longest_kernel;
  Time kernel_budget;  // per curve
  Time longest_collective;
  std::int64_t largest_bytes;    // largest size of operations in bytes
  std::int64_t largest_product;  // largest m, n and k
};

// Returns the approximate duration of the calibration.
Time TimeOf(const Options& options);
// Returns whether there is time only for a coarse grid with few repetitions.
bool IsCoarse(const Options& options);

struct Campaign {
  // `session` and `options` must outlive this object.
  Campaign(Session& session, const Options& options, std::vector<int> node_of_rank);

  bool Wants(Part part) const;
  bool WantsKernels() const;
  int rank() const { return session.job().place().rank; }
  int ranks() const { return static_cast<int>(node_of_rank.size()); }
  std::vector<int> AllRanks() const;
  std::vector<DataType> Types() const;

  // Returns the profile's section `kernels`, which the first call creates.
  calibration::KernelCosts& kernels();
  // Converts results by bytes to a curve of the profile. Also updates the profile's residuals and
  // the fitted lines.
  calibration::Curve CurveOf(const std::string& part, const std::string& what,
                             const Results& results, Between between);

  Session& session;
  const Options& options;
  std::vector<int> node_of_rank;
  Effort effort;
  Outcome outcome;
  ResidualNotes residuals;
  std::vector<double> reference;  // times of the reference kernel, in seconds
};

// Returns `from` times 1, 2, 4, ..., up to `to`. Requires `from` > 0.
std::vector<std::int64_t> PowersOfTwo(std::int64_t from, std::int64_t to);

}  // namespace stepcast::calibrate
