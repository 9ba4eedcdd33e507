#pragma once

#include "src/base/kernel.h"
#include "src/base/version.h"
#include "src/calibration/calibration.h"

// Matrix products whose operands have rows that 16 bytes do not divide: a head over 50,257 words.
//
// Tensor cores are fed 16 bytes at a time. Where the numbers in a row of an operand are no multiple
// of that (8 in 16 bits), a library has to take kernels that load 8, 4 or 2 bytes at once, with as
// many more instructions and without the asynchronous copies that keep the multiprocessor busy
// (NVIDIA, "Matrix Multiplication Background User's Guide", section 2.2; CUTLASS's
// kernels are named by alignment). What counts are the rows, so which dimensions they are follows
// from how the operands lie (ProductLayout). How the result lies counts for nothing here: it is
// written once.
namespace stepcast::cost {

// The part of the rate of aligned products that such a one reaches. Of a single product:
// `gemm_unaligned` where 2 bytes alone divide its rows, 1 where 16 bytes do, and in between as much
// for each halving (assumed: the guide shows that rates rise at each step, in no table). Of a batch
// of products, for which libraries have fewer kernels, more with each release: `batched_unaligned`
// of its type and of the cuBLAS that PyTorch `torch` brings, whatever less than 16 bytes divides
// them. Where that is zero a batch counts as single products, and where `gemm_unaligned` is zero
// nothing is lost: not known.
double UnalignedRate(const Kernel& product, const calibration::KernelCosts& costs, Version torch);

// The same product with rows filled up to 16 bytes, as torch.compile runs it where that is faster
// (torch/_inductor/fx_passes/pad_mm.py): operands of that size are written before, which `copied`
// counts, reading included.
struct PaddedProduct {
  Kernel product;
  Bytes copied;
};
PaddedProduct Padded(const Kernel& product);

}  // namespace stepcast::cost
