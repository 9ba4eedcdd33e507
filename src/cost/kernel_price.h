#pragma once

#include "src/base/kernel.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/base/version.h"
#include "src/calibration/calibration.h"
#include "src/cost/demand.h"
#include "src/topology/device.h"
#include "tl/expected.hpp"

// Kernel prices by roofline (Williams, Waterman and Patterson 2009). After a start latency, a
// kernel takes the longer of its arithmetic and its memory traffic, each at the fraction of the
// peak that such kernels achieve.
//
//  latency = start_latency
//  work    = max(arithmetic, traffic); for tiles with an `overlap` p, which hide only a part of
//            their traffic: (arithmetic^p + traffic^p)^(1/p)
//  traffic = (bytes read + bytes written) / (memory bandwidth x memory_efficiency)
//
//  kind           arithmetic
//  kGemm          tiles in waves (kernel_price.h), with the tiling's start as latency; without
//                 tiles (flops + half_flops) / (peak of the data type x max_efficiency);
//                 both slower if rows are not a multiple of 16 bytes (kernel_time.h)
//  kAttention,    max(flops + tail x longest, longest) (1 + half_length / sequence) / (peak of the
//  kAttentionGradient  data type x efficiency of its generation, direction and size of heads),
//                 longest: the flops that the device could do during the longest thread block
//                 (calibration.h, AttentionEfficiency)
//  kMemoryBound,  flops / FP32 peak: vector work, hidden by traffic
//  kOptimizer
//  kGiven         the given time is the price: no latency, no roofline, any device or none; takes
//                 all multiprocessors, unless the host does it
//
// Eager PyTorch kernels whose multiprocessors are slower than the memory (Access) have as
// arithmetic their traffic at the fraction of its rate that they reach. Sums over tokens take at
// least token_sum_time per token, multiplied by the number of 32-column blocks per multiprocessor
// if that exceeds 1.
//
// Products and attention run at the clock that the board's power limit sustains. Their power draw
// falls with their rate relative to the best products (kernel_time.h), so a wave with half of the
// multiprocessors idle costs less than half.
//
// cuBLAS's products for Hopper (compute capability 9.x) are persistent: one thread block per
// multiprocessor processes tile after tile. A product holds the multiprocessors of its waves until
// it ends. During a collective, which holds some, it takes a second round
// (engine/shared_resources.h; sources: calibration/h100-sxm.yaml).
//
// Measurements in the profile take precedence (kernel_time.h). Matrix products use the surface of
// the data type and layout, `batch` of them as one product with batch x m rows; its largest product
// is the best one. Attention is looked up by heads, sequence and head size. Memory-bound kernels
// and the optimizer use the curve over bytes read and written (an optimizer without a curve of its
// own counts as memory-bound). A measured time includes the start: latency = start_latency, work =
// the rest.
//
// half_flops makes efficiency rise with the size of the product, as measured (calibration.h).
// Quotients are rounded up to a picosecond. Efficiencies are at most 1 (checked), so no kernel
// exceeds the data sheet. Price() (price.h) checks measured products against it.
namespace stepcast::cost {

// The arithmetic of a matrix product as tiles in waves over the multiprocessors. It explains why
// one more row can cost a wave, and why thin products reach less.
//
// A library divides the m x n result into tiles, one thread block each, in one of the profile's
// shapes, in either orientation. For small results, it also divides k into 2, 4, 8 or 16 parts
// (split-K) of at least 512, whose FP32 results a second kernel sums:
//
//  tiles     = batch x ceil(m / tile_m) x ceil(n / tile_n) x parts
//  waves     = ceil(tiles / multiprocessors); if there are several, the last one counts as the
//              fraction of it that has tiles, plus `last_wave` of the rest
//  one wave  = 2 tile_m tile_n (k / parts + fill)
//              / (peak / multiprocessors x efficiency of the shape)
//  summation = start_latency + 8 batch m n parts bytes x `split` / achieved memory bandwidth
//
// `fill`: loading the pipeline and storing the tile; with add_fill if the tile is added to FP32
// values, which are four times as many bytes to read and store. The library is assumed to take the
// fastest of all shapes and parts (cuBLAS's heuristics come close; Nvidia, "Matrix Multiplication
// Background User's Guide", sections 3 and 4, describes tile and wave quantization).

// The setting in which a matrix product in tiles runs. A kernel for all experts of a rank has the
// tiles of all experts in the same waves. It has no parts, and reaches the fraction `grouped` of
// the tiles' rate. On Hopper and Blackwell with HBM, it reads weights at 0.85 of the memory's
// bandwidth or at memory_efficiency, whichever is more.

struct TileSetting {
  const calibration::GemmTiling& tiling;
  FlopRate peak;
  int multiprocessors = 1;
  Bandwidth memory;    // achieved
  Time start_latency;  // of the kernel that sums the parts
  double rate = 1;     // remaining fraction of the tiles' rate (kernel_time.h)
};

struct TiledProduct {
  Time time;  // rounded up to a picosecond
  // The number of multiprocessors that this number of waves needs. With fewer multiprocessors,
  // there are more waves. With more, the product does not end earlier.
  double multiprocessors = 0;
};

// Returns the time of a product's arithmetic if it is computed in tiles. Requires tiles, a positive
// peak and sizes of at least 1.
TiledProduct TiledArithmetic(const Kernel& product, const TileSetting& setting);

// The reason why a kernel has no price.
enum class KernelFault : std::uint8_t {
  kNoPeak,        // the device cannot compute in the data type
  kNoEfficiency,  // the profile has no figures for such kernels of the data type
};

struct KernelSetting {
  const topology::Gpu& gpu;
  const calibration::KernelCosts& costs;
  Version torch{};  // release whose libraries run
  // The power limit of the board while these kernels run, in watts (kernel_time.h). 0: there is no
  // limit.
  double limit_watts = 0;
  // Whether the kernels are used for serving. In serving, attention also plans its work, and starts
  // after forward_start. In training, attention starts after start_latency.
  bool serving = false;
  // Whether kernels have a start latency. False for textbook programs, which omit launch costs.
  bool start_latency = true;
};

// Returns whether arithmetic rather than memory limits kernels of this kind.
bool IsArithmetic(KernelKind kind);

tl::expected<Demand, KernelFault> PriceKernel(const Kernel& kernel, const KernelSetting& setting);

// Returns the rate of the fastest products of the kernel's data type at full clock, in flops per
// second. 0 if no rate is known. If the kernel is a product and its layout was measured, only
// products of that layout count.
double BestProductRate(const Kernel& kernel, const KernelSetting& setting);

// Returns the price of a kernel whose time is an input. Requires a kernel of kind kGiven.
Demand PriceGivenKernel(const Kernel& kernel);

}  // namespace stepcast::cost
