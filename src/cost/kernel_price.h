#pragma once

#include "src/base/kernel.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/base/version.h"
#include "src/calibration/calibration.h"
#include "src/cost/demand.h"
#include "src/topology/device.h"
#include "tl/expected.hpp"

// Kernels by roofline (Williams, Waterman and Patterson 2009): a kernel takes as long as the slower
// of its arithmetic and its memory traffic, each at the part of the peak that such kernels reach,
// after the shortest time that any kernel takes.
//
//   latency = start_latency
//   work    = max(arithmetic, traffic)
//   traffic = (bytes read + bytes written) / (memory bandwidth x memory_efficiency)
//
//   kind           arithmetic
//   kGemm          tiles in waves (kernel_price.h), with the tiling's start for the latency; without
//                  tiles (flops + half_flops) / (peak of the data type x max_efficiency);
//                  both slower where rows are no multiple of 16 bytes (kernel_time.h)
//   kAttention,    max(flops + tail x longest, longest) (1 + half_length / sequence) / (peak of the
//   kAttentionGradient  data type x efficiency of its generation, direction and size of heads),
//                  longest: what the device could compute during the longest thread block
//                  (calibration.h, AttentionEfficiency), with forward_start for the latency
//   kMemoryBound,  flops / FP32 peak: vector work, which traffic hides
//   kOptimizer
// Kernels of eager PyTorch whose multiprocessors do not keep up with the memory (Access) take
// traffic over the part of its rate that they reach, as arithmetic. Sums over tokens take at least
// token_sum_time for each token, and as often as there are blocks of 32 columns for each
// multiprocessor, when there are more.
//   kGiven         the time itself is the price: no latency, no roofline, any device or none; takes
//                  all multiprocessors, unless the host does it
//
// Products and attention run at the clock that the board's power holds under what they draw, which
// is as much less than the best products draw as their rate is lower (kernel_time.h): a wave
// that half of the multiprocessors sit out costs less than half.
//
// cuBLAS's products for Hopper (compute capability 9.x) are persistent: one thread block for each
// multiprocessor takes tile after tile. A product keeps the multiprocessors that its waves need for
// as long as it runs, and beside a collective, which holds some, takes a second round
// (engine/shared_resources.h; sources: calibration/h100-sxm.yaml).
//
// What the profile measured counts instead (kernel_time.h): the surface of matrix products of the
// data type and layout, `batch` of them as one product with batch x m rows, whose largest stands
// for the best; attention by heads, sequence and head size (kernel_time.h); the curve of
// memory-bound kernels, and of the optimizer, over bytes read and written (an optimizer without a
// curve of its own is a memory-bound kernel). A measured time holds the start: latency =
// start_latency, work = the rest.
//
// half_flops lets efficiency rise with the size of the product, as measured (calibration.h). Every
// quotient rounds up to a picosecond; efficiencies are at most 1, so no kernel beats the data
// sheet, which is checked. Measured products are held against it by Price() (price.h).
namespace stepcast::cost {

// The arithmetic of a matrix product as tiles in waves over the multiprocessors: why a product one
// row larger can take a wave more, and why thin ones reach less.
//
// A library cuts the m x n result into tiles, one thread block each, in one of the profile's
// shapes, either way round; where the result is small, it cuts k as well into 2, 4, 8 or 16 parts
// (split-K) of at least 512, whose FP32 results a second kernel adds up:
//
//   tiles     = batch x ceil(m / tile_m) x ceil(n / tile_n) x parts
//   waves     = ceil(tiles / multiprocessors), the last of several counted for the part of it that
//               has tiles, and `last_wave` of the rest
//   one wave  = 2 tile_m tile_n (k / parts + fill)
//               / (peak / multiprocessors x efficiency of the shape)
//   adding up = start_latency + 8 batch m n parts bytes / achieved memory bandwidth
//
// `fill`: loading the pipeline and storing the tile; with add_fill where the tile is added to FP32
// values, which are four times as much to read and to store. The library takes the fastest of all
// shapes and parts (cuBLAS and its heuristics come close; Nvidia, "Matrix Multiplication Background
// User's Guide", sections 3 and 4, describes tile and wave quantisation).

struct TileSetting {
  const calibration::GemmTiling& tiling;
  FlopRate peak;
  int multiprocessors = 1;
  Bandwidth memory;    // achieved
  Time start_latency;  // of the kernel that adds up parts
  double rate = 1;     // of the tiles' own, what is left of it (kernel_time.h)
};

struct TiledProduct {
  Time time;  // rounded up to a picosecond
  // Multiprocessors that take so many waves: fewer would take more, and more end no earlier.
  double multiprocessors = 0;
};

// Requires tiles, a positive peak and sizes of at least 1.
TiledProduct TiledArithmetic(const Kernel& product, const TileSetting& setting);

// Why a kernel has no price.
enum class KernelFault : std::uint8_t {
  kNoPeak,        // the device cannot compute in the data type
  kNoEfficiency,  // the profile says nothing about such kernels of the data type
};

struct KernelSetting {
  const topology::Gpu& gpu;
  const calibration::KernelCosts& costs;
  Version torch{};  // whose libraries run
  // What the board may draw under them (kernel_time.h); 0: any.
  double limit_watts = 0;
  // False for textbook programs: the start of a kernel is then part of the launch cost that they
  // leave out.
  bool start_latency = true;
};

// Whether arithmetic bounds such kernels, rather than memory.
bool IsArithmetic(KernelKind kind);

tl::expected<Demand, KernelFault> PriceKernel(const Kernel& kernel, const KernelSetting& setting);

// The fastest products of the kernel's data type, at full clock, that the profile knows: flops per
// second; 0: none. Of a product those of its layout, where they were measured.
double BestProductRate(const Kernel& kernel, const KernelSetting& setting);

// The price of a kernel whose time is an input. Requires kind kGiven.
Demand PriceGivenKernel(const Kernel& kernel);

}  // namespace stepcast::cost
