#include "src/calibrate/copy_measurements.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/calibrate/benchmark_programs.h"

namespace stepcast::calibrate {
namespace {

using runtime::Attempt;

std::string ShowBytes(std::int64_t bytes) { return FormatBytes(Bytes(bytes)); }

constexpr int kChain = 4;  // samples of a kernel in one step

}  // namespace

Attempt<void> MeasureCopies(Campaign& campaign, program::CopyDirection direction,
                            calibration::Curve& curve) {
  const std::string what = fmt::format("copies {}", program::Name(direction));
  const auto results =
      campaign.session.Climb({.what = what,
                              .sizes = PowersOfTwo(4096, campaign.effort.largest_bytes),
                              .show = ShowBytes,
                              .first = 6,
                              .next = 2,
                              .longest = campaign.effort.longest_kernel,
                              .budget = campaign.effort.kernel_budget},
                             campaign.effort.kernels, [&](const std::vector<std::int64_t>& counts) {
                               std::vector<Bytes> sizes;
                               for (const std::int64_t count : counts) sizes.emplace_back(count);
                               return CopyBenchmark(direction, sizes, kChain);
                             });
  if (!results) return tl::unexpected(results.error());
  curve = campaign.CurveOf("copies", what, *results, Between::kLinear);
  return {};
}

Attempt<void> MeasureBothWays(Campaign& campaign) {
  using program::CopyDirection;
  constexpr Bytes kSize = MiB(8);
  constexpr int kCopies = 10;
  const auto beside = campaign.session.Measure(
      {"copies host-to-device beside the other way", "copies device-to-host beside the other way"},
      campaign.effort.kernels, Time(), [&](const std::vector<std::size_t>& wanted) {
        return Reordered(TwoWayCopyBenchmark(kSize, kCopies), wanted);
      });
  if (!beside) return tl::unexpected(beside.error());
  double slowdown = 1;
  const CopyDirection directions[] = {CopyDirection::kHostToDevice, CopyDirection::kDeviceToHost};
  for (std::size_t i = 0; i < 2; ++i) {
    // Mostly known from the curve.
    const auto alone = campaign.session.Measure(
        {fmt::format("copies {}, {}", program::Name(directions[i]), ShowBytes(kSize.count()))},
        campaign.effort.kernels, Time(), [&](const std::vector<std::size_t>&) {
          return CopyBenchmark(directions[i], {kSize}, kChain);
        });
    if (!alone) return tl::unexpected(alone.error());
    slowdown = std::max(slowdown, SlowDown((*beside)[i].median, alone->front().median));
  }
  campaign.outcome.profile.copies.both_ways = slowdown;
  return {};
}

}  // namespace stepcast::calibrate
