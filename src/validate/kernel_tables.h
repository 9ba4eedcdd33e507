#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/base/data_type.h"
#include "src/base/diagnostic.h"
#include "src/calibration/collective_curves.h"
#include "src/topology/device.h"
#include "src/validate/rate_fit.h"

// Tables of measured kernels (CSV), one folder for a laboratory:
//
//   products/GPU.csv          m, n, k, then bf16_us and X_us with the cast of x, X_net_us without it,
//                             for X = fp8 (a scale for a tensor or a row), fp8b (for a block), nvfp4
//   sustained/products.csv    gpu, m, n, k, type, us, by: products that ran for a second and more
//   attention/causal-GPU.csv  heads, kv_heads, head, window (0: none), batch, length, bf16_us, bf16_by
//   collectives/nccl.csv      gpu, release of NCCL, op, ranks on one node, bytes as nccl-tests count, us
//
// Rows that no forecast of training needs are left out: products with a side below 512, less than
// 20 us, attention with heads that are neither 64, 128 nor 256. Times of products are of up to 1
// ms, before a board's power limit tells.
namespace stepcast::validate {

// By data type: FP8 in blocks is MXFP8 on devices that multiply it.
using ProductRows = std::map<DataType, std::vector<MeasuredKernel>>;

struct KernelTables {
  ProductRows products;   // at full clock
  ProductRows sustained;  // at the power limit: random operands, and bursts that are long enough
  std::vector<MeasuredKernel> attention;
};

// Of `gpu`; `flash` is the generation of attention that the tables are of (Kernel::flash). Files
// that the folder does not have are left out. Errors: file.not-found where none is there, csv.* and
// atlas.column (a column that a table needs is missing), atlas.number (a field that holds none).
Result<KernelTables> ReadKernelTables(const std::string& folder, const topology::Gpu& gpu,
                                      std::uint8_t flash);

// NCCL's collectives of the GPU type, a file for each release, with every point to be fitted or, if
// `half`, every second one held back. `topology` names the file of a machine like theirs. Errors as
// above; nothing where the folder has no such table.
Result<std::vector<calibration::CurveFile>> ReadCollectiveTable(const std::string& folder,
                                                                const topology::Gpu& gpu,
                                                                const std::string& topology,
                                                                bool half);

}  // namespace stepcast::validate
