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
// parameters, which apply to many shapes. A fit minimizes the mean of |log(forecast time / measured
// time)|, so that factors of 2 and 1/2 have equal weight. The fit changes one parameter at a time,
// in decreasing steps.
namespace stepcast::validate {

// A measured kernel without contention, either at full clock or, in a long run, at the power limit.
struct MeasuredKernel {
  Kernel kernel;
  double microseconds = 0;  // positive
  // The time, in microseconds, that `microseconds` includes for other work: KV-cache writes in
  // serving.
  double besides = 0;
  // The time at full clock, in microseconds, of a kernel that ran for a long time. Zero if unknown.
  double at_full_clock = 0;
  // A text that identifies rows that are fitted or checked together: the size of the weights, or
  // the heads.
  std::string shape;
};

// A measured layer of experts on one rank in serving. The layer consists of forward GEMMs, with one
// kernel for all experts, and of kernels for routing, permutation, activation and the weighted sum.
struct MeasuredExperts {
  std::vector<Kernel> products;
  double bytes = 0;         // memory traffic of the other kernels
  double choices = 0;       // number of pairs of a token and one of its experts
  double microseconds = 0;  // positive
  std::string shape;        // as in MeasuredKernel
};

// Returns the half to which a shape belongs, 0 or 1, for fits to one half and checks with the other
// half. The half of a shape is the same in all tables.
int HalfOf(std::string_view shape);

// The errors of forecasts of `rows` rows, as fractions of the measured time.
struct RateErrors {
  std::size_t rows = 0;
  double mean = 0;  // mean of absolute errors
  double bias = 0;  // mean of signed errors; above zero: forecasts are too slow
};

// Returns the errors of forecasts that use `costs`, at a power limit of `limit_watts` watts (0: at
// full clock). Rows whose time cannot be computed from `costs` are skipped.
RateErrors ErrorsOf(std::span<const MeasuredKernel> rows, const topology::Gpu& gpu,
                    const calibration::KernelCosts& costs, double limit_watts = 0);

// Like the other overload, but for layers of experts. All kernels except GEMMs belong to the
// serving software. The start time, the time per choice and the fraction of the memory bandwidth of
// these other kernels are first fitted to the rows.
RateErrors ErrorsOf(std::span<const MeasuredExperts> rows, const topology::Gpu& gpu,
                    const calibration::KernelCosts& costs);

// A parameter that is fitted, between `least` and `most`.
struct FittedFigure {
  double* value = nullptr;
  double least = 0, most = 0;
};

// Changes the parameters until no step reduces `loss`, which reads the parameters.
void Descend(std::span<const FittedFigure> figures, const std::function<double()>& loss);

// Fits the tiles for GEMMs of `type`; all other values are copied from `costs`. `rows` are GEMMs of
// this type at full clock.
calibration::GemmTiling FitTiles(std::span<const MeasuredKernel> rows, const topology::Gpu& gpu,
                                 calibration::KernelCosts costs, DataType type);

// Fits the rate of GEMM kernels for all experts, as a fraction of the tiles' rate
// (GemmTiling::grouped).
double FitGrouped(std::span<const MeasuredExperts> rows, const topology::Gpu& gpu,
                  calibration::KernelCosts costs, DataType type);

// Fits the additional power, in watts, of a device that computes GEMMs of `type`, compared with an
// idle device (PowerDraw::of_type). The fit uses the slowdown of long runs of GEMMs at the device's
// power limit. The library of the kernels does not matter. The forecast replaces a missing time at
// full clock.
double FitWatts(std::span<const MeasuredKernel> rows, const topology::Gpu& gpu,
                calibration::KernelCosts costs, DataType type);

// Fits the forward rates of one generation of fused attention (AttentionEfficiency) and keeps the
// backward rates of `costs`. `rows` are kernels of this generation at full clock.
calibration::AttentionEfficiency FitAttention(std::span<const MeasuredKernel> rows,
                                              const topology::Gpu& gpu,
                                              calibration::KernelCosts costs, std::uint8_t flash);

}  // namespace stepcast::validate
