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
// kernel takes the longer of its arithmetic and its memory traffic. Arithmetic and traffic each run
// at the fraction of the peak that kernels of this kind achieve.
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
//  kMemoryBound,  flops / FP32 peak: vector arithmetic, hidden by traffic
//  kOptimizer
//  kGiven         the given time is the price: no latency, no roofline, for any device or none;
//                 uses all multiprocessors, unless the host does the work
//
// Some eager PyTorch kernels are limited by multiprocessors (Access). The traffic time of such a
// kernel is divided by the fraction of the memory rate that the kernel reaches. A sum over tokens
// takes at least token_sum_time per token, times the number of 32-column blocks per multiprocessor
// if that number exceeds 1.
//
// Matrix multiplications and attention run at the clock that the board's power limit allows. The
// power draw of these kernels is proportional to their rate relative to the best multiplications
// (kernel_time.h). Idle multiprocessors therefore allow a higher clock.
//
// cuBLAS's matrix multiplications for Hopper (compute capability 9.x) are persistent: one thread
// block per multiprocessor processes tile after tile. If a collective reserves some
// multiprocessors, a multiplication needs a second round of tiles (engine/shared_resources.h;
// sources: calibration/h100-sxm.yaml).
//
// Measurements in the profile replace these formulas (kernel_time.h). A measured time includes the
// start: latency = start_latency, and work is the remaining time.
//   kGemm: the surface of the data type and layout. `batch` multiplications are one multiplication
//     with batch x m rows. The largest multiplication of the surface is the best one.
//   kAttention, kAttentionGradient: the surface by heads, sequence length and head size.
//   kMemoryBound, kOptimizer: the curve over bytes read and written. Without an optimizer curve,
//     the memory curve is used.
//
// half_flops makes efficiency increase with the size of a multiplication, as measured
// (calibration.h). Quotients are rounded up to a picosecond. Efficiencies are at most 1 (checked),
// so no kernel exceeds the data sheet. Price() (price.h) compares measured multiplications with the
// data sheet.
namespace stepcast::cost {

// The arithmetic of a matrix multiplication as tiles in waves over the multiprocessors. In this
// model, one more row can add a wave, and narrow multiplications are slower.
//
// A library divides the m x n result into tiles of one of the profile's shapes, in either
// orientation. Each tile is one thread block. For small results, the library also divides k into 2,
// 4, 8 or 16 parts (split-K) of at least 512. A second kernel then sums the FP32 results of the
// parts:
//
//  tiles     = batch x ceil(m / tile_m) x ceil(n / tile_n) x parts
//  waves     = ceil(tiles / multiprocessors); the last of several waves costs the fraction of it
//              that has tiles, plus `last_wave` times the remaining fraction
//  one wave  = 2 x tile_m x tile_n x (k / parts + fill)
//              / (peak / multiprocessors x efficiency of the shape)
//  summation = start_latency
//              + 8 x batch x m x n x parts bytes x `split` / achieved memory bandwidth
//
// `fill` is the time to load the pipeline and store the tile. If the tile is added to FP32 values,
// `fill` increases by add_fill, because four times as many bytes are read and stored. The model
// assumes that the library chooses the fastest combination of shape and parts, as cuBLAS
// approximately does. (Source for tile and wave quantization: Nvidia, "Matrix Multiplication
// Background User's Guide", sections 3 and 4.)

// The conditions in which a tiled matrix multiplication runs. One kernel may multiply for all
// experts of a rank. The tiles of all experts are then in the same waves, k is not divided, and the
// rate is the fraction `grouped` of the tiles' rate. On Hopper and Blackwell with HBM, the grouped
// kernel reads weights at 0.85 of the memory's bandwidth, or at memory_efficiency if this is
// higher.

struct TileSetting {
  const calibration::GemmTiling& tiling;
  FlopRate peak;
  int multiprocessors = 1;
  Bandwidth memory;    // achieved memory bandwidth
  Time start_latency;  // start of the kernel that sums the parts
  double rate = 1;     // fraction of the tiles' full rate (kernel_time.h)
};

struct TiledProduct {
  Time time;  // rounded up to a picosecond
  // The number of multiprocessors needed for this number of waves. More multiprocessors do not
  // shorten the time.
  double multiprocessors = 0;
};

// Returns the arithmetic time of a tiled matrix multiplication. Requires tiles, a positive peak and
// sizes of at least 1.
TiledProduct TiledArithmetic(const Kernel& product, const TileSetting& setting);

// Why a kernel has no price.
enum class KernelFault : std::uint8_t {
  kNoPeak,        // the device does not support the data type
  kNoEfficiency,  // the profile has no efficiency for this kind of kernel and data type
};

struct KernelSetting {
  const topology::Gpu& gpu;
  const calibration::KernelCosts& costs;
  Version torch{};  // PyTorch release, which determines the libraries
  // The power limit of the board while these kernels run, in watts (kernel_time.h). 0: no limit.
  double limit_watts = 0;
  // Whether the kernels run inference in a serving engine. If true, the time of an attention kernel
  // includes the planning of its work, and its latency is forward_start. In training, the latency
  // is start_latency.
  bool serving = false;
  // Whether kernels have a start latency. False for textbook programs, which ignore launch costs.
  bool start_latency = true;
};

// Returns whether kernels of this kind are limited by arithmetic rather than memory.
bool IsArithmetic(KernelKind kind);

tl::expected<Demand, KernelFault> PriceKernel(const Kernel& kernel, const KernelSetting& setting);

// Returns the highest rate of matrix multiplications of the kernel's data type at full clock, in
// FLOPs per second, or 0 if no rate is known. If the kernel's layout was measured, only this layout
// is considered.
double BestProductRate(const Kernel& kernel, const KernelSetting& setting);

// Returns the price of a kernel whose time is an input. Requires a kernel of kind kGiven.
Demand PriceGivenKernel(const Kernel& kernel);

}  // namespace stepcast::cost
