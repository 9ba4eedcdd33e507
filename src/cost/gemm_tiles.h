#pragma once

#include "src/base/kernel.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/calibration/calibration.h"

// The arithmetic of a matrix product as tiles in waves over the multiprocessors: why a product one
// row larger can take a wave more, and why thin ones reach less.
//
// A library cuts the m x n result into tiles, one thread block each, in one of the profile's
// shapes, either way round; where the result is small, it cuts k as well into 2, 4, 8 or 16 parts
// (split-K) of at least 512, whose FP32 results a second kernel adds up:
//
//   tiles     = batch x ceil(m / tile_m) x ceil(n / tile_n) x parts
//   waves     = ceil(tiles / multiprocessors)
//   one wave  = 2 tile_m tile_n (k / parts + fill)
//               / (peak / multiprocessors x efficiency of the shape)
//   adding up = start_latency + 8 batch m n parts bytes / achieved memory bandwidth
//
// `fill`: loading the pipeline and storing the tile; with add_fill where the tile is added to FP32
// values, which are four times as much to read and to store. The library takes the fastest of all
// shapes and parts (cuBLAS and its heuristics come close; Nvidia, "Matrix Multiplication Background
// User's Guide", sections 3 and 4, describes tile and wave quantisation).
namespace stepcast::cost {

struct TileSetting {
  const calibration::GemmTiling& tiling;
  FlopRate peak;
  int multiprocessors = 1;
  Bandwidth memory;    // achieved
  Time start_latency;  // of the kernel that adds up parts
  double rate = 1;     // of the tiles' own, what is left of it (unaligned_products.h)
};

struct TiledProduct {
  Time time;  // rounded up to a picosecond
  // Multiprocessors that take so many waves: fewer would take more, and more end no earlier.
  double multiprocessors = 0;
};

// Requires tiles, a positive peak and sizes of at least 1.
TiledProduct TiledArithmetic(const Kernel& product, const TileSetting& setting);

}  // namespace stepcast::cost
