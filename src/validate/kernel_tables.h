#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/base/data_type.h"
#include "src/base/diagnostic.h"
#include "src/calibration/collective_curves.h"
#include "src/topology/device.h"
#include "src/validate/rate_fit.h"

// Tables of measured kernels (CSV), in one folder per laboratory:
//
//   products/GPU.csv          GEMMs: m, n, k, bf16_us, and for X = fp8 (a scale per tensor or row),
//                             fp8b (per block), nvfp4: X_us with the cast of x, X_net_us
//                             without the cast
//   sustained/products.csv    gpu, m, n, k, type, us, by: GEMMs that ran for at least a second
//   attention/causal-GPU.csv  heads, kv_heads, head, window (0: none), batch, length, bf16_us,
//                             bf16_by
//   grouped/GPU.csv           hidden, inter, topk, experts, gated, tp, ep, tokens of all ep ranks,
//                             X_even_us (X as in products/): a layer of experts on one rank,
//                             with equal loads
//   collectives/nccl.csv      gpu, release of NCCL, op, ranks on one node, bytes as in nccl-tests,
//                             us
//
// Rows that training forecasts do not need are omitted: GEMMs with a dimension below 512 or a time
// below 20 us, layers of experts below 20 us, and attention with head sizes other than 64, 128 and
// 256. GEMM times are at most 1 ms, so the board's power limit does not affect them.
namespace stepcast::validate {

// Measured GEMMs, indexed by data type. On devices that support MXFP8, block-scaled FP8 counts as
// MXFP8.
using ProductRows = std::map<DataType, std::vector<MeasuredKernel>>;

struct KernelTables {
  ProductRows products;   // measured at full clock
  ProductRows sustained;  // measured at the power limit: long runs with random operands
  std::vector<MeasuredKernel> attention;
  std::map<DataType, std::vector<MeasuredExperts>> experts;
};

// Reads the tables of GPU type `gpu`. `flash` is the generation of FlashAttention in the tables
// (Kernel::flash). Missing files are skipped. Errors: file.not-found if all files are missing,
// csv.*, atlas.column (a required column is missing) and atlas.number (an invalid number).
Result<KernelTables> ReadKernelTables(const std::string& folder, const topology::Gpu& gpu,
                                      std::uint8_t flash);

// Reads the measured collectives of NCCL on the GPU type. The result has one CurveFile per NCCL
// release. All points are fit points; with `half`, every second point is held back instead.
// `topology` is the topology file of a similar machine. Errors: the errors of ReadKernelTables.
// Empty if the folder does not contain this table.
Result<std::vector<calibration::CurveFile>> ReadCollectiveTable(const std::string& folder,
                                                                const topology::Gpu& gpu,
                                                                const std::string& topology,
                                                                bool half);

}  // namespace stepcast::validate
