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

// Fits rates of kernels to tables of measured times. Each GPU type and data type has only few
// parameters, and each of them applies to many shapes. A fit minimizes the mean absolute logarithm
// of forecast over measured time, so that twice as slow and twice as fast count equally. It changes
// one parameter after another in shrinking steps.
namespace stepcast::validate {

// A measured kernel without contention, either at full clock or, after a long time, at the power
// limit.
struct MeasuredKernel {
  Kernel kernel;
  double microseconds = 0;  // positive
  // The part of the table's time that the kernel does not take, in microseconds: writing the cache
  // in serving.
  double besides = 0;
  // The time at full clock, in microseconds, of a kernel that ran for a long time. Zero if unknown.
  double at_full_clock = 0;
  // A text that identifies rows that are fitted or checked together: the size of the weights, or
  // the heads.
  std::string shape;
};

// A measured layer of experts on one rank in serving. It consists of forward products, each of
// which is one kernel for all experts, and of kernels for routing, permutation, activation and the
// weighted sum.
struct MeasuredExperts {
  std::vector<Kernel> products;
  double bytes = 0;         // memory traffic of the other kernels
  double choices = 0;       // pairs of a token and an expert that routing makes
  double microseconds = 0;  // positive
  std::string shape;        // as in MeasuredKernel
};

// Returns the half to which a shape belongs, 0 or 1. The half of a shape is the same in all tables.
int HalfOf(std::string_view shape);

// The errors of forecasts of `rows` rows, as fractions of the measured time.
struct RateErrors {
  std::size_t rows = 0;
  double mean = 0;  // of absolute errors
  double bias = 0;  // mean of signed errors; above zero: forecasts are too slow
};

// Returns the errors of forecasts that use `costs`, at a power limit of `limit_watts` watts (0: at
// full clock). Rows whose time cannot be computed from `costs` are skipped.
RateErrors ErrorsOf(std::span<const MeasuredKernel> rows, const topology::Gpu& gpu,
                    const calibration::KernelCosts& costs, double limit_watts = 0);

// Like the function above, but for layers of experts. The time of the other kernels belongs to
// serving. The serving's start, its time per choice and its fraction of the memory's bandwidth are
// first fitted to the rows.
RateErrors ErrorsOf(std::span<const MeasuredExperts> rows, const topology::Gpu& gpu,
                    const calibration::KernelCosts& costs);

// A parameter that is fitted, between `least` and `most`.
struct FittedFigure {
  double* value = nullptr;
  double least = 0, most = 0;
};

// Changes the parameters until no step reduces `loss`, which reads the parameters.
void Descend(std::span<const FittedFigure> figures, const std::function<double()>& loss);

// Fits the tiles for products of `type` and keeps the rest of `costs`. `rows` are products of this
// type at full clock.
calibration::GemmTiling FitTiles(std::span<const MeasuredKernel> rows, const topology::Gpu& gpu,
                                 calibration::KernelCosts costs, DataType type);

// Fits the fraction of the tiles' rate that remains in kernels for all experts
// (GemmTiling::grouped).
double FitGrouped(std::span<const MeasuredExperts> rows, const topology::Gpu& gpu,
                  calibration::KernelCosts costs, DataType type);

// Fits the additional watts that a device draws if it computes products of `type` instead of being
// idle (PowerDraw::of_type). The fit uses the slowdown of products that run for a long time at the
// device's power limit; another library's kernels also count. For a row without a time at full
// clock, the forecast is used.
double FitWatts(std::span<const MeasuredKernel> rows, const topology::Gpu& gpu,
                calibration::KernelCosts costs, DataType type);

// Fits the forward rates of one generation of fused attention (AttentionEfficiency) and keeps the
// backward rates. `rows` are kernels of this generation at full clock.
calibration::AttentionEfficiency FitAttention(std::span<const MeasuredKernel> rows,
                                              const topology::Gpu& gpu,
                                              calibration::KernelCosts costs, std::uint8_t flash);

}  // namespace stepcast::validate
