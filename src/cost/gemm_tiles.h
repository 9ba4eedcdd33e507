#pragma once

#include "src/base/kernel.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/calibration/calibration.h"

// The arithmetic of a matrix product as tiles in waves over the multiprocessors: why a product one
// row larger can take a wave more, and why thin ones reach less.
//
//   a library cuts the m x n outcome into tiles, one thread block each, in one of the profile's
//   shapes, either way round; with little of it, it cuts k as well into 2, 4, 8 or 16 parts
//   (split-K) of at least 512, whose FP32 outcomes a second kernel adds up; tiles     = batch
//   ceil(m / tile_m) ceil(n / tile_n) parts waves     = ceil(tiles / multiprocessors) one wave  = 2
//   tile_m tile_n (k / parts + fill) / (peak / multiprocessors x efficiency of the
//               shape)                            `fill`: loading the pipeline and storing the tile
//   adding up = start_latency + 8 batch m n parts bytes over the achieved memory bandwidth
//
// and the library takes the fastest of all shapes and parts (cuBLAS and its heuristics come close;
// Nvidia, "Matrix Multiplication Background User's Guide", sections 3 and 4, describes tile and
// wave quantisation).
namespace stepcast::cost {

struct TileSetting {
  const calibration::GemmTiling& tiling;
  FlopRate peak;
  int multiprocessors = 1;
  Bandwidth memory;    // achieved
  Time start_latency;  // of the kernel that adds up parts
  double clock = 1;    // sustained, over that of the profile's tiles
};

// Requires tiles, a positive peak and sizes of at least 1. Rounded up to a picosecond.
Time TiledArithmetic(const Kernel& product, const TileSetting& setting);

// The part of its clock that a device holds under matrix products for as long as training takes.
// Dynamic power goes with frequency times voltage squared, and voltage with frequency, so a device
// that would draw `idle + products` at full clock and may draw `limit` runs at the cube root of
// (limit - idle) / products. At most 1; 1 where the profile or the data sheet is silent.
double SustainedClock(const calibration::PowerDraw& power, int limit_watts);

}  // namespace stepcast::cost
