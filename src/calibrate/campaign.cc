#include "src/calibrate/campaign.h"

#include <algorithm>
#include <utility>

namespace stepcast::calibrate {
namespace {

Effort QuickEffort() {
  return {.kernels = {.least = 5, .most = 30, .uncertainty = 0.02, .limit = Milliseconds(100)},
          .collectives = {.least = 7, .most = 60, .uncertainty = 0.02, .limit = Milliseconds(600)},
          .longest_kernel = Milliseconds(30),
          .kernel_budget = Seconds(2),
          .longest_collective = Seconds(10),
          .largest_bytes = std::int64_t{64} << 20,
          .largest_product = 4096};
}

Effort ThoroughEffort() {
  return {.kernels = {.least = 10, .most = 300, .uncertainty = 0.005, .limit = Seconds(1)},
          .collectives = {.least = 15, .most = 300, .uncertainty = 0.01, .limit = Seconds(3)},
          .longest_kernel = Milliseconds(500),
          .kernel_budget = Seconds(20),
          .longest_collective = Seconds(20),
          .largest_bytes = std::int64_t{512} << 20,
          .largest_product = 8192};
}

constexpr Time kQuickTime = Seconds(90);
constexpr Time kThoroughTime = Seconds(20 * 60);

}  // namespace

Time TimeOf(const Options& options) {
  if (options.time > Time()) return options.time;
  return options.quick ? kQuickTime : kThoroughTime;
}

bool IsCoarse(const Options& options) {
  return options.quick || TimeOf(options) < Seconds(10 * 60);
}

Campaign::Campaign(Session& session, const Options& options, std::vector<int> node_of_rank)
    : session(session),
      options(options),
      node_of_rank(std::move(node_of_rank)),
      effort(IsCoarse(options) ? QuickEffort() : ThoroughEffort()) {}

bool Campaign::Wants(Part part) const {
  return options.parts.empty() ||
         std::find(options.parts.begin(), options.parts.end(), part) != options.parts.end();
}

bool Campaign::WantsKernels() const {
  return Wants(Part::kLaunch) || Wants(Part::kMemory) || Wants(Part::kGemm) ||
         Wants(Part::kAttention) || Wants(Part::kOptimizer);
}

std::vector<int> Campaign::AllRanks() const {
  std::vector<int> all;
  for (int rank = 0; rank < ranks(); ++rank) all.push_back(rank);
  return all;
}

std::vector<DataType> Campaign::Types() const {
  if (!options.types.empty()) return options.types;
  return {DataType::kFp32, DataType::kBf16};
}

calibration::KernelCosts& Campaign::kernels() {
  if (!outcome.profile.kernels) outcome.profile.kernels.emplace();
  return *outcome.profile.kernels;
}

calibration::Curve Campaign::CurveOf(const std::string& part, const std::string& what,
                                     const Results& results, Between between) {
  residuals.Add(part, results, between);
  if (results.size() > 1) outcome.fits.push_back(FitOf(what, results));
  calibration::Curve curve;
  const std::vector<Time> times = TimesOf(results);
  for (std::size_t i = 0; i < results.size(); ++i) {
    curve.emplace_back(Bytes(results[i].first), times[i]);
  }
  return curve;
}

std::vector<std::int64_t> PowersOfTwo(std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> values;
  for (std::int64_t value = from; value <= to; value *= 2) values.push_back(value);
  return values;
}

}  // namespace stepcast::calibrate
