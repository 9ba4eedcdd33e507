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

// What all measurements of a calibration share.
namespace stepcast::calibrate {

// From results to the values of a profile.

struct Fitted;

// Five significant digits: no measurement has more.
Time RoundedTime(double seconds);
// How much longer something takes beside something else, three decimals; not less than 1: what ran
// faster beside others was measured at another time.
double SlowDown(double beside, double alone);

// The medians as times that do not fall with the size.
std::vector<Time> TimesOf(const std::vector<std::pair<std::int64_t, Summary>>& results);

// Start and rate through the medians.
Fitted FitOf(const std::string& what, const std::vector<std::pair<std::int64_t, Summary>>& results);

// How the simulator reads between points: the time over the size, over the size's logarithm, or the
// time's logarithm over the size's.
enum class Between : std::uint8_t { kLinear, kLogarithmic, kPowerLaw };

// Collects how well each part is known.
class ResidualNotes {
 public:
  void Add(const std::string& part, const std::vector<std::pair<std::int64_t, Summary>>& results,
           Between between);
  // `summaries` in the order of the surface's times.
  void AddSurface(const std::string& part, const calibration::GemmSurface& surface,
                  const std::vector<Summary>& summaries);
  std::vector<calibration::Residual> Take() const;

 private:
  struct Notes {
    std::vector<double> spreads;
    std::vector<double> misses;  // of inner points, from what their neighbours say
  };
  std::map<std::string, Notes> parts_;
};

// The benchmark with the probes at these positions alone, in this order.
Benchmark Reordered(Benchmark benchmark, const std::vector<std::size_t>& wanted);

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
