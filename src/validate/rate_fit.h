#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/calibration/calibration.h"
#include "src/topology/device.h"

// Fits rates of kernels to tables of measured times. Each GPU type and data type has few
// parameters, none of which belongs to a single shape. A fit minimizes the mean absolute logarithm
// of forecast over measured time, so that twice as slow and twice as fast count equally. It changes
// one parameter after another in shrinking steps.
namespace stepcast::validate {

// A measured kernel, uncontended, either at full clock or, after a long time, at the power limit.
struct MeasuredKernel {
  Kernel kernel;
  double microseconds = 0;  // positive
  // The time in the table, in microseconds, that the kernel does not include: writing the cache in
  // serving.
  double besides = 0;
  // The time at full clock, in microseconds, for a kernel that ran for a long time; zero if
  // unknown.
  double at_full_clock = 0;
  // A text that identifies rows to be fitted or checked together: the size of weights, or heads.
  std::string shape;
};

// A measured layer of experts on one rank in serving. It consists of forward products, each one
// kernel for all experts, and of kernels for routing, permutation, activation and the weighted sum.
struct MeasuredExperts {
  std::vector<Kernel> products;
  double bytes = 0;         // memory traffic of the other kernels
  double choices = 0;       // pairs of a token and an expert that routing makes
  double microseconds = 0;  // positive
  std::string shape;        // as in MeasuredKernel
};

// Returns the half, 0 or 1, to which a shape belongs; the same in all tables.
int HalfOf(std::string_view shape);

// The errors of forecasts of `rows` rows, as fractions of the measured time.
struct RateErrors {
  std::size_t rows = 0;
  double mean = 0;  // of absolute errors
  double bias = 0;  // mean of signed errors; above zero: forecasts are too slow
};

// Returns the errors of forecasts with `costs` at a power limit of `limit_watts`; 0: at full clock.
// Rows without a price are skipped.
RateErrors ErrorsOf(std::span<const MeasuredKernel> rows, const topology::Gpu& gpu,
                    const calibration::KernelCosts& costs, double limit_watts = 0);

// Like the function above, for layers of experts. The time of the other kernels belongs to serving:
// a start, a time per choice and a fraction of the memory's bandwidth are fitted to the rows first.
RateErrors ErrorsOf(std::span<const MeasuredExperts> rows, const topology::Gpu& gpu,
                    const calibration::KernelCosts& costs);

// A parameter to fit, between `least` and `most`.
struct FittedFigure {
  double* value = nullptr;
  double least = 0, most = 0;
};

// Changes the parameters until no step reduces `loss`, which reads them.
void Descend(std::span<const FittedFigure> figures, const std::function<double()>& loss);

// Fits the tiles for products of `type`, and keeps the rest of `costs`. `rows`: products of this
// type at full clock.
calibration::GemmTiling FitTiles(std::span<const MeasuredKernel> rows, const topology::Gpu& gpu,
                                 calibration::KernelCosts costs, DataType type);

// Fits the fraction of the tiles' rate that kernels for all experts keep (GemmTiling::grouped).
double FitGrouped(std::span<const MeasuredExperts> rows, const topology::Gpu& gpu,
                  calibration::KernelCosts costs, DataType type);

// Fits the watts that products of `type` draw above an idle device (PowerDraw::of_type). The fit
// uses the slowdown of products that run for a long time at the device's power limit, also of
// another library's kernels. For a row without a time at full clock, the forecast is used.
double FitWatts(std::span<const MeasuredKernel> rows, const topology::Gpu& gpu,
                calibration::KernelCosts costs, DataType type);

// Fits the forward rates of one generation of fused attention (AttentionEfficiency); backward rates
// are kept. `rows`: kernels of this generation at full clock.
calibration::AttentionEfficiency FitAttention(std::span<const MeasuredKernel> rows,
                                              const topology::Gpu& gpu,
                                              calibration::KernelCosts costs, std::uint8_t flash);

}  // namespace stepcast::validate
