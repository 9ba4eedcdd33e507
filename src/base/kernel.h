#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/base/time.h"

namespace stepcast {

enum class KernelKind : std::uint8_t {
  kGemm,               // `batch` products of m x n x k; compute-bound if large
  kAttention,          // fused (flash) attention core
  kAttentionGradient,  // attention backward: five products instead of two
  kMemoryBound,        // normalisation, activation, residual, rotary, softmax, loss, copies, casts
  kOptimizer,          // parameter update: memory-bound, reads and writes parameters and states
  kGiven,              // takes a given time: layer lists
  kScan,               // a recurrent layer's pass over the sequence, chunk by chunk
  kScanGradient,       // backward of kScan
};

// The types of recurrent layers that a kScan kernel may compute.
enum class ScanKind : std::uint8_t {
  kDelta,           // the gated delta rule
  kDeltaByChannel,  // with a decay for each channel: Kimi delta attention
  kStateSpace,      // Mamba-2
};

// How the operands of a matrix product are stored. All are row-major: [a, b] has rows of b numbers.
// Comments assume a linear layer with a weight of [out, in], as in PyTorch.
enum class ProductLayout : std::uint8_t {
  kForward,         // [m, k] times the transpose of [n, k]
  kInputGradient,   // [m, k] times [k, n]
  kWeightGradient,  // the transpose of [k, m] times [k, n]
};
inline constexpr ProductLayout kProductLayouts[] = {
    ProductLayout::kForward, ProductLayout::kInputGradient, ProductLayout::kWeightGradient};

// The code that issues a kernel in eager execution. Host times differ between issuers by more than
// an order of magnitude.
enum class Issuer : std::uint8_t {
  kFramework,  // only the launch: a sharding strategy's hooks, the optimizer, a compiled graph
  kModule,     // a module's forward, in Python, also if it is recomputed
  kAutograd,   // the autograd engine
  kSameCall,   // the call that issued the previous kernel: further parts of one product
};

// The host time that eager execution takes before it launches a kernel, indexed by issuer.
struct Dispatch {
  Time module{}, autograd{};
  Time operator[](Issuer issuer) const {
    return issuer == Issuer::kModule ? module : issuer == Issuer::kAutograd ? autograd : Time();
  }
  friend bool operator==(const Dispatch&, const Dispatch&) = default;
};

// The access pattern of a memory-bound kernel. Some kernels of eager PyTorch are slower than a copy
// of the same bytes (calibration::KernelCosts::traffic).
enum class Access : std::uint8_t {
  kPlain,
  kWidening,      // element by element, reads 16-bit and writes 32-bit values
  kMixed,         // element by element, with operands of 16 and of 32 bits
  kNorm,          // a norm's rows in FP32
  kNormGradient,  // gradient of a norm's input, in FP32
  kColumnSum,     // one sum per column, over all rows
};
inline constexpr std::string_view kAccessNames[] = {"plain", "widening",      "mixed",
                                                    "norm",  "norm_gradient", "column_sum"};
inline constexpr std::size_t kAccessCount = std::size(kAccessNames);

// The work of one device kernel. src/model creates kernels, programs contain them, and cost code
// prices them. Shapes are in elements. A multiply and an add count as two flops.
struct Kernel {
  std::string name{};  // "mlp.down_proj", "self_attn.q_proj.wgrad"
  KernelKind kind = KernelKind::kMemoryBound;
  DataType data_type = DataType::kBf16;
  // For kGemm: the number of independent products of [m, k] and [k, n]. For kAttention and
  // kAttentionGradient: the number of query heads of all sequences. Each head has m queries of k
  // elements. A query attends to up to n keys, including its own position, or to all n keys if the
  // attention is not causal. Zero for other kinds.
  std::int64_t batch = 1;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t key_heads = 0;  // kAttention, kAttentionGradient: of all sequences, divides `batch`
  ProductLayout layout = ProductLayout::kForward;  // kGemm
  // For kGemm: whether the result is added to FP32 values in memory, which the kernel reads first.
  bool adds_to_fp32 = false;
  bool grouped = false;  // kGemm: `batch` counts a rank's experts, whose products are one kernel
  // For kGemm: the number of equal products that run at the same time on separate streams and share
  // the device.
  std::int64_t together = 1;
  std::int64_t flops = 0;        // executed by the device (causal attention: half)
  std::int64_t model_flops = 0;  // counted in MFU: matrix products, full attention; else 0
  Bytes read{}, written{};       // device memory traffic if each operand is read or written once
  Time given{};                  // kGiven: duration; else zero
  // For kGiven: whether this is work of the host's CPUs or drives, which runs concurrently with the
  // device's other work.
  bool on_host = false;
  // For kMemoryBound: the kernel computes `summed_columns` sums over `summed_tokens` tokens each. A
  // thread block sums 32 columns, as for the weight gradients of PyTorch's layer norm, so few
  // blocks share the work.
  std::int64_t summed_tokens = 0, summed_columns = 0;
  Access access = Access::kPlain;  // kMemoryBound
  // For kAttention and kAttentionGradient: the generation of FlashAttention, 1 to 3. 4 means cuDNN,
  // and 5 means FlexAttention.
  std::uint8_t flash = 2;
  bool causal = true;  // same kinds: a query attends only to keys up to its own position
  // For kAttention and kAttentionGradient: the fraction of the generation's rate that remains if a
  // library uses a fallback. Otherwise 1.
  double rate = 1;
  ScanKind scan = ScanKind::kDelta;  // kScan, kScanGradient
  // For kScan and kScanGradient: the number of sequential chunks in the longest sequence. More
  // heads do not reduce this number.
  std::int64_t steps = 0;
  Issuer issuer = Issuer::kFramework;
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

}  // namespace stepcast
