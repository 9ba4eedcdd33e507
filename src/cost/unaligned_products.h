#pragma once

#include "src/base/kernel.h"
#include "src/base/version.h"
#include "src/calibration/calibration.h"

// Matrix products with rows that 16 bytes do not divide: a head over 50,257 words.
//
// Tensor cores are fed 16 bytes at a time. Where the numbers in a row of an operand or of the
// result are no multiple of that (8 in 16 bits), a library has to take kernels that load and store
// 4 or 2 bytes at once, without the asynchronous copies that keep the multiprocessor busy (NVIDIA,
// "Matrix Multiplication Background User's Guide", section 2.2). A kernel is built for one
// alignment of all three matrices (CUTLASS's are named by it), so a result's rows can count, too:
// on an H100 cuBLAS 13.1 runs a forward over 50,257 words, whose operands are aligned, by
// cutlass_75_tensorop ... align1, seven times as long as over 50,264. On A100 earlier ones did not
// (calibration/published/vtrain-single.yaml: the head's two gradients alone lose). What counts are
// the rows, so which dimensions they are follows from how the operands lie (ProductLayout).
// Products in FP32 without tensor cores lose nothing (on that H100 1 % and less).
namespace stepcast::cost {

// The part of the rate of aligned products that such a one reaches. Of a single product:
// `gemm_unaligned` where 2 bytes alone divide its rows, `gemm_unaligned_even` where 4 or 8 do,
// which are alike on an H100; where that is zero, as much less for each halving (assumed: the guide
// shows that rates rise at each step, in no table); `gemm_unaligned_result` where 2 bytes alone
// divide the rows of the result, `gemm_unaligned_even` where 4 or 8 do. The least of these counts.
// Of a batch of products, for which libraries have fewer kernels, more with each release:
// `batched_unaligned` of its type and of the cuBLAS that PyTorch `torch` brings, whatever less than
// 16 bytes divides the rows of its operands. Where that is zero a batch counts as single products.
// What is zero of the others is not known, and loses nothing.
double UnalignedRate(const Kernel& product, const calibration::KernelCosts& costs, Version torch);

// The same product with rows filled up to 16 bytes, as torch.compile runs it where that is faster
// (torch/_inductor/fx_passes/pad_mm.py): operands that grow are written before, which `copied`
// counts, reading included; what reads the result leaves out what was added.
struct PaddedProduct {
  Kernel product;
  Bytes copied;
};
PaddedProduct Padded(const Kernel& product);

}  // namespace stepcast::cost
