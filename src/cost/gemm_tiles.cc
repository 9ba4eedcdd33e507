#include "src/cost/gemm_tiles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "src/base/check.h"
#include "src/cost/exact_time.h"

namespace stepcast::cost {
namespace {

// Below this depth a part is mostly pipeline fill; cuBLAS splits no further.
constexpr std::int64_t kLeastPart = 512;
constexpr std::int64_t kMostParts = 16;
// Splitting is for devices that are not full: more waves than this gain nothing.
constexpr std::int64_t kFullWaves = 4;

double Ceiling(std::int64_t size, std::int64_t tile) {
  return static_cast<double>((size + tile - 1) / tile);
}

}  // namespace

TiledProduct TiledArithmetic(const Kernel& product, const TileSetting& setting) {
  STEPCAST_CHECK(!setting.tiling.empty() && setting.peak > FlopRate(), "a product needs tiles");
  const double multiprocessors = setting.multiprocessors;
  const double rate =
      static_cast<double>(setting.peak.flops_per_second()) * setting.rate / multiprocessors;
  const double outcome = static_cast<double>(product.batch) * static_cast<double>(product.m) *
                         static_cast<double>(product.n);
  const double fill = setting.tiling.fill + (product.adds_to_fp32 ? setting.tiling.add_fill : 0);
  double best = std::numeric_limits<double>::infinity();
  double wanted = 0;
  for (const calibration::GemmTile& shape : setting.tiling.tiles) {
    const std::array<std::pair<std::int64_t, std::int64_t>, 2> ways = {
        {{shape.m, shape.n}, {shape.n, shape.m}}};
    for (std::size_t way = 0; way < (shape.m == shape.n ? 1 : 2); ++way) {
      const auto [m, n] = ways[way];
      const double tiles =
          static_cast<double>(product.batch) * Ceiling(product.m, m) * Ceiling(product.n, n);
      const double tile = 2.0 * static_cast<double>(m) * static_cast<double>(n);
      for (std::int64_t parts = 1; parts <= kMostParts; parts *= 2) {
        if (parts > 1 && product.k / parts < kLeastPart) break;
        const double cut = static_cast<double>(parts);
        const double waves = std::ceil(tiles * cut / multiprocessors);
        const double depth = static_cast<double>(product.k) / cut + fill;
        double seconds = waves * tile * depth / (rate * shape.efficiency);
        if (parts > 1) {
          seconds += setting.start_latency.seconds() +
                     8 * outcome * cut / static_cast<double>(setting.memory.bytes_per_second());
        }
        if (seconds < best) {
          best = seconds;
          wanted = std::ceil(tiles * cut / waves);
        }
        if (tiles * cut >= kFullWaves * multiprocessors) break;
      }
    }
  }
  // A whole number of picoseconds comes out a hair above itself; less than that is no time.
  const double picoseconds = std::ceil(best * 1e12 * (1 - 1e-12));
  if (picoseconds >= static_cast<double>(kLongestTime.picoseconds())) return {kLongestTime, wanted};
  // No tile is faster than the data sheet; rounding of the quotient may come a hair below.
  return {std::max(Picoseconds(static_cast<std::int64_t>(picoseconds)),
                   TimeOf(product.flops, setting.peak)),
          wanted};
}

}  // namespace stepcast::cost
