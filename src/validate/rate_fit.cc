#include "src/validate/rate_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

#include "src/cost/kernel_price.h"

namespace stepcast::validate {
namespace {

using calibration::KernelCosts;

// In microseconds; nothing if the profile has no rate for such kernels.
std::optional<double> ForecastOf(const MeasuredKernel& row, const topology::Gpu& gpu,
                                 const KernelCosts& costs, double limit_watts) {
  const auto demand =
      cost::PriceKernel(row.kernel, {.gpu = gpu, .costs = costs, .limit_watts = limit_watts});
  if (!demand) return std::nullopt;
  return demand->alone().microseconds() + row.besides;
}

double MeanLogarithm(std::span<const MeasuredKernel> rows, const topology::Gpu& gpu,
                     const KernelCosts& costs, double limit_watts) {
  double sum = 0;
  std::size_t count = 0;
  for (const MeasuredKernel& row : rows) {
    const auto forecast = ForecastOf(row, gpu, costs, limit_watts);
    if (!forecast) continue;
    sum += std::abs(std::log(*forecast / row.microseconds));
    ++count;
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

Time Nanoseconds(double nanoseconds) {
  return Picoseconds(static_cast<std::int64_t>(std::llround(nanoseconds * 1e3)));
}

// Rounded as in files: fractions to three digits, other figures to integers.
double Rounded(double value, double unit) { return std::round(value / unit) * unit; }
double Part(double value) { return std::round(value * 1e3) / 1e3; }

}  // namespace

int HalfOf(const MeasuredKernel& row) {
  std::uint32_t hash = 2'166'136'261U;  // FNV-1a
  for (const char c : row.shape) hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619U;
  return static_cast<int>((hash ^ hash >> 15) & 1U);
}

RateErrors ErrorsOf(std::span<const MeasuredKernel> rows, const topology::Gpu& gpu,
                    const KernelCosts& costs, double limit_watts) {
  RateErrors errors;
  for (const MeasuredKernel& row : rows) {
    const auto forecast = ForecastOf(row, gpu, costs, limit_watts);
    if (!forecast) continue;
    const double error = *forecast / row.microseconds - 1;
    errors.mean += std::abs(error);
    errors.bias += error;
    ++errors.rows;
  }
  if (errors.rows > 0) {
    errors.mean /= static_cast<double>(errors.rows);
    errors.bias /= static_cast<double>(errors.rows);
  }
  return errors;
}

void Descend(std::span<const FittedFigure> figures, const std::function<double()>& loss) {
  constexpr double kFirst = 0.2, kLast = 0.004;
  double best = loss();
  for (double step = kFirst; step > kLast;) {
    bool better = false;
    for (const FittedFigure& figure : figures) {
      const double before = *figure.value;
      for (const double factor : {1 + step, 1 / (1 + step)}) {
        *figure.value = std::clamp(before * factor, figure.least, figure.most);
        if (*figure.value == before) continue;
        const double at = loss();
        if (at < best * (1 - 1e-6)) {
          best = at;
          better = true;
          break;
        }
        *figure.value = before;
      }
    }
    if (!better) step /= 2;
  }
}

calibration::GemmTiling FitTiles(std::span<const MeasuredKernel> rows, const topology::Gpu& gpu,
                                 KernelCosts costs, DataType type) {
  calibration::GemmTiling& tiling = costs.gemm_tiling[static_cast<std::size_t>(type)];
  const double add_fill = tiling.add_fill;
  tiling = {.tiles = {{256, 256, 0.75},
                      {256, 128, 0.75},
                      {192, 128, 0.7},
                      {128, 128, 0.65},
                      {128, 64, 0.5},
                      {64, 64, 0.45}},
            .fill = 150,
            .add_fill = add_fill,
            .last_wave = 0.5,
            .start = {}};
  double start = 2000;  // nanoseconds
  std::vector<FittedFigure> figures;
  for (calibration::GemmTile& tile : tiling.tiles) figures.push_back({&tile.efficiency, 0.05, 1});
  figures.push_back({&tiling.fill, 20, 2000});
  figures.push_back({&tiling.last_wave, 0.05, 1});
  figures.push_back({&start, 300, 4000});
  Descend(figures, [&] {
    tiling.start = Nanoseconds(start);
    return MeanLogarithm(rows, gpu, costs, 0);
  });
  for (calibration::GemmTile& tile : tiling.tiles) tile.efficiency = Part(tile.efficiency);
  tiling.fill = std::round(tiling.fill);
  tiling.last_wave = Part(tiling.last_wave);
  tiling.start = Nanoseconds(Rounded(start, 10));
  return tiling;
}

double FitWatts(std::span<const MeasuredKernel> rows, const topology::Gpu& gpu, KernelCosts costs,
                DataType type) {
  double& watts = costs.power.of_type[static_cast<std::size_t>(type)];
  watts = gpu.power_limit;
  const FittedFigure figure{&watts, 1, 20'000};
  Descend({&figure, 1}, [&] {
    double sum = 0;
    for (const MeasuredKernel& row : rows) {
      const auto limited = ForecastOf(row, gpu, costs, gpu.power_limit);
      const auto full = ForecastOf(row, gpu, costs, 0);
      if (!limited || !full) continue;
      const double known = row.at_full_clock == 0 ? *full : row.at_full_clock;
      sum += std::abs(std::log(*limited / *full * known / row.microseconds));
    }
    return sum;
  });
  return Rounded(watts, 10);
}

calibration::AttentionEfficiency FitAttention(std::span<const MeasuredKernel> rows,
                                              const topology::Gpu& gpu, KernelCosts costs,
                                              std::uint8_t flash) {
  calibration::AttentionEfficiency& attention = costs.attention[flash - 1U];
  const calibration::AttentionEfficiency before = attention;
  attention.forward = 0.6;
  attention.forward_half_length = 600;
  attention.forward_window_length = 300;
  attention.forward_rows = 64;
  attention.forward_tail = 0.5;
  attention.head_64 = attention.head_256 = 0.9;
  double start = 5000;  // nanoseconds
  const FittedFigure figures[] = {{&attention.forward, 0.05, 1},
                                  {&attention.forward_half_length, 10, 5000},
                                  {&attention.forward_window_length, 1, 5000},
                                  {&attention.forward_tail, 0.02, 4},
                                  {&attention.head_64, 0.1, 1.5},
                                  {&attention.head_256, 0.1, 1.5},
                                  {&start, 500, 40'000}};
  Descend(figures, [&] {
    attention.forward_start = Nanoseconds(start);
    return MeanLogarithm(rows, gpu, costs, 0);
  });
  calibration::AttentionEfficiency fitted = before;
  if (fitted.backward == 0) fitted.backward = costs.attention_backward_efficiency;
  fitted.forward = Part(attention.forward);
  fitted.forward_half_length = std::round(attention.forward_half_length);
  fitted.forward_window_length = std::round(attention.forward_window_length);
  fitted.forward_rows = attention.forward_rows;
  fitted.forward_tail = Part(attention.forward_tail);
  fitted.head_64 = Part(attention.head_64);
  fitted.head_256 = Part(attention.head_256);
  fitted.forward_start = Nanoseconds(Rounded(start, 100));
  return fitted;
}

}  // namespace stepcast::validate
