#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/calibration/calibration.h"
#include "src/topology/device.h"

// Rates of kernels from tables of measured times: few figures for each GPU type and data type, none
// of which belongs to a single shape. A fit minimises the mean absolute logarithm of forecast over
// measured time, so that a kernel that is twice as slow counts as one that is twice as fast, by
// moving one figure after the other in steps that shrink.
namespace stepcast::validate {

// A kernel that ran alone, at full clock or for long at the power limit.
struct MeasuredKernel {
  Kernel kernel;
  double microseconds = 0;  // above zero
  // What the table counts besides the kernel, in microseconds: a cache that serving writes.
  double besides = 0;
  // The same kernel at full clock, in microseconds, of one that ran for long; zero: not known.
  double at_full_clock = 0;
  // Whose rows are fitted together or checked together: the sizes of its weights, its heads.
  std::string shape;
};

// Which half of the shapes a row is of: 0 or 1, the same in every table.
int HalfOf(const MeasuredKernel& row);

// How far forecasts of `rows` are off, as parts of the measured time.
struct RateErrors {
  std::size_t rows = 0;
  double mean = 0;  // of absolute errors
  double bias = 0;  // of errors; above zero: too slow
};

// Forecasts by `costs` with up to `limit_watts`; 0: at full clock. Rows without a price are left
// out.
RateErrors ErrorsOf(std::span<const MeasuredKernel> rows, const topology::Gpu& gpu,
                    const calibration::KernelCosts& costs, double limit_watts = 0);

// A figure of a fit, which lies between `least` and `most`.
struct FittedFigure {
  double* value = nullptr;
  double least = 0, most = 0;
};

// Moves the figures until no step makes `loss` smaller. `loss` reads them.
void Descend(std::span<const FittedFigure> figures, const std::function<double()>& loss);

// The tiles of products of `type`, with the rest of `costs` as it is. `rows` are such products at
// full clock.
calibration::GemmTiling FitTiles(std::span<const MeasuredKernel> rows, const topology::Gpu& gpu,
                                 calibration::KernelCosts costs, DataType type);

// Watts that products of `type` draw beyond those of a device at rest (PowerDraw::of_type), from
// how much longer products take that run for long at the device's limit: another library's kernel
// says so as well. Where a row has no time at full clock, the
// forecast's stands for it.
double FitWatts(std::span<const MeasuredKernel> rows, const topology::Gpu& gpu,
                calibration::KernelCosts costs, DataType type);

// A generation of fused attention in forward (AttentionEfficiency); what it says of backward stays.
// `rows` are its cores at full clock.
calibration::AttentionEfficiency FitAttention(std::span<const MeasuredKernel> rows,
                                              const topology::Gpu& gpu,
                                              calibration::KernelCosts costs, std::uint8_t flash);

}  // namespace stepcast::validate
