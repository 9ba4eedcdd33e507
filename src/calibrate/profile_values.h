#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/base/time.h"
#include "src/calibrate/benchmark.h"
#include "src/calibrate/statistics.h"
#include "src/calibration/calibration.h"

// From results to the values of a profile.
namespace stepcast::calibrate {

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

}  // namespace stepcast::calibrate
