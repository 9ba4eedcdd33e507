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
  const auto demand = cost::PriceKernel(
      row.kernel, {.gpu = gpu, .costs = costs, .limit_watts = limit_watts, .serving = true});
  if (!demand) return std::nullopt;
  return demand->uncontended().microseconds() + row.besides;
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

void Add(double error, RateErrors& errors) {
  errors.mean += std::abs(error);
  errors.bias += error;
  ++errors.rows;
}

RateErrors Mean(RateErrors errors) {
  if (errors.rows > 0) {
    errors.mean /= static_cast<double>(errors.rows);
    errors.bias /= static_cast<double>(errors.rows);
  }
  return errors;
}

// What serving's kernels besides the products of experts take.
struct RoutingTime {
  double start = 20;         // microseconds
  double per_choice = 3e-4;  // likewise
  double bandwidth = 1;      // fraction of the achieved memory bandwidth; above 1: caches

  std::vector<FittedFigure> figures() {
    return {{&start, 1, 200}, {&per_choice, 1e-6, 1e-2}, {&bandwidth, 0.1, 3}};
  }
};

// In microseconds; nothing if the profile has no rate for such products.
std::optional<double> ProductsOf(const MeasuredExperts& row, const topology::Gpu& gpu,
                                 const KernelCosts& costs) {
  double sum = 0;
  for (const Kernel& product : row.products) {
    const auto demand = cost::PriceKernel(product, {.gpu = gpu, .costs = costs});
    if (!demand) return std::nullopt;
    sum += demand->uncontended().microseconds();
  }
  return sum;
}

double Besides(const MeasuredExperts& row, const topology::Gpu& gpu, const KernelCosts& costs,
               const RoutingTime& routing) {
  const double bytes_per_microsecond =
      1e-6 * static_cast<double>(gpu.memory_bandwidth.bytes_per_second()) *
      costs.memory_efficiency * routing.bandwidth;
  return routing.start + routing.per_choice * row.choices + row.bytes / bytes_per_microsecond;
}

// Forecasts of the products, or nothing, by row.
using Products = std::vector<std::optional<double>>;

Products AllProducts(std::span<const MeasuredExperts> rows, const topology::Gpu& gpu,
                     const KernelCosts& costs) {
  Products products;
  products.reserve(rows.size());
  for (const MeasuredExperts& row : rows) products.push_back(ProductsOf(row, gpu, costs));
  return products;
}

double MeanLogarithm(std::span<const MeasuredExperts> rows, const Products& products,
                     const topology::Gpu& gpu, const KernelCosts& costs,
                     const RoutingTime& routing) {
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!products[i]) continue;
    const double forecast = *products[i] + Besides(rows[i], gpu, costs, routing);
    sum += std::abs(std::log(forecast / rows[i].microseconds));
    ++count;
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

}  // namespace

int HalfOf(std::string_view shape) {
  std::uint32_t hash = 2'166'136'261U;  // FNV-1a
  for (const char c : shape) hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619U;
  return static_cast<int>((hash ^ hash >> 15) & 1U);
}

RateErrors ErrorsOf(std::span<const MeasuredKernel> rows, const topology::Gpu& gpu,
                    const KernelCosts& costs, double limit_watts) {
  RateErrors errors;
  for (const MeasuredKernel& row : rows) {
    const auto forecast = ForecastOf(row, gpu, costs, limit_watts);
    if (!forecast) continue;
    Add(*forecast / row.microseconds - 1, errors);
  }
  return Mean(errors);
}

RateErrors ErrorsOf(std::span<const MeasuredExperts> rows, const topology::Gpu& gpu,
                    const KernelCosts& costs) {
  const Products products = AllProducts(rows, gpu, costs);
  RoutingTime routing;
  Descend(routing.figures(), [&] { return MeanLogarithm(rows, products, gpu, costs, routing); });
  RateErrors errors;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!products[i]) continue;
    const double forecast = *products[i] + Besides(rows[i], gpu, costs, routing);
    Add(forecast / rows[i].microseconds - 1, errors);
  }
  return Mean(errors);
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
            .overlap = 3,
            .split = 1,
            .start = {}};
  double start = 2000;  // nanoseconds
  std::vector<FittedFigure> figures;
  for (calibration::GemmTile& tile : tiling.tiles) figures.push_back({&tile.efficiency, 0.05, 1});
  figures.push_back({&tiling.fill, 20, 2000});
  figures.push_back({&tiling.last_wave, 0.05, 1});
  figures.push_back({&start, 300, 12'000});
  figures.push_back({&tiling.overlap, 1, 20});
  figures.push_back({&tiling.split, 0.02, 100});
  Descend(figures, [&] {
    tiling.start = Nanoseconds(start);
    return MeanLogarithm(rows, gpu, costs, 0);
  });
  for (calibration::GemmTile& tile : tiling.tiles) tile.efficiency = Part(tile.efficiency);
  tiling.fill = std::round(tiling.fill);
  tiling.last_wave = Part(tiling.last_wave);
  tiling.overlap = std::round(tiling.overlap * 100) / 100;
  tiling.split = std::round(tiling.split * 100) / 100;
  tiling.start = Nanoseconds(Rounded(start, 10));
  return tiling;
}

double FitGrouped(std::span<const MeasuredExperts> rows, const topology::Gpu& gpu,
                  KernelCosts costs, DataType type) {
  double& grouped = costs.gemm_tiling[static_cast<std::size_t>(type)].grouped;
  grouped = 0.8;
  RoutingTime routing;
  std::vector<FittedFigure> figures = routing.figures();
  figures.push_back({&grouped, 0.05, 1});
  Descend(figures,
          [&] { return MeanLogarithm(rows, AllProducts(rows, gpu, costs), gpu, costs, routing); });
  return std::round(grouped * 100) / 100;
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
  attention.forward_unshared_length = 300;
  attention.forward_rows = 48;
  attention.forward_tail = 0.5;
  attention.head_64 = attention.head_256 = 0.9;
  double start = 5000;  // nanoseconds
  const FittedFigure figures[] = {{&attention.forward, 0.05, 1},
                                  {&attention.forward_half_length, 10, 5000},
                                  {&attention.forward_window_length, 1, 5000},
                                  {&attention.forward_unshared_length, 1, 5000},
                                  {&attention.forward_rows, 8, 256},
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
  fitted.forward_unshared_length = std::round(attention.forward_unshared_length);
  fitted.forward_rows = std::round(attention.forward_rows);
  fitted.forward_tail = Part(attention.forward_tail);
  fitted.head_64 = Part(attention.head_64);
  fitted.head_256 = Part(attention.head_256);
  fitted.forward_start = Nanoseconds(Rounded(start, 100));
  return fitted;
}

}  // namespace stepcast::validate
