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
  kGemm,               // `batch` matrix multiplications of m x n x k; compute-bound if large
  kAttention,          // fused (flash) attention core
  kAttentionGradient,  // attention backward: five matrix multiplications instead of two
  kMemoryBound,        // normalization, activation, residual, rotary, softmax, loss, copies, casts
  kOptimizer,          // parameter update: memory-bound, reads and writes parameters and states
  kGiven,              // a duration that is an input (layer lists)
  kScan,               // a recurrent layer's pass over the sequence, in chunks
  kScanGradient,       // backward pass of kScan
};

// The types of recurrent layers that a kScan kernel may compute.
enum class ScanKind : std::uint8_t {
  kDelta,           // the gated delta rule
  kDeltaByChannel,  // Kimi delta attention: one decay per channel
  kStateSpace,      // Mamba-2 and lightning attention
  kSelective,       // Mamba-1
};

// How the operands of a matrix multiplication are stored. All operands are row-major: [a, b] has a
// rows of b numbers. As in PyTorch, a linear layer's weight has the shape [out, in].
enum class ProductLayout : std::uint8_t {
  kForward,         // [m, k] times the transpose of [n, k]
  kInputGradient,   // [m, k] times [k, n]
  kWeightGradient,  // the transpose of [k, m] times [k, n]
};
inline constexpr ProductLayout kProductLayouts[] = {
    ProductLayout::kForward, ProductLayout::kInputGradient, ProductLayout::kWeightGradient};

// The code that launches a kernel in eager execution. The host time per launch differs between
// these kinds of code by more than a factor of ten.
enum class Issuer : std::uint8_t {
  kFramework,  // hooks of a sharding strategy, the optimizer, compiled graphs
  kModule,     // the Python code of a module's forward, including recomputation
  kAutograd,   // the autograd engine
  kSameCall,   // the call that launched the previous kernel of the same matrix multiplication
};

// The host time before the launch of a kernel in eager execution, by Issuer.
struct Dispatch {
  Time module{}, autograd{};
  Time operator[](Issuer issuer) const {
    return issuer == Issuer::kModule ? module : issuer == Issuer::kAutograd ? autograd : Time();
  }
  friend bool operator==(const Dispatch&, const Dispatch&) = default;
};

// The access pattern of a memory-bound kernel. With some patterns, eager PyTorch is slower than a
// copy of the same number of bytes (calibration::KernelCosts::traffic).
enum class Access : std::uint8_t {
  kPlain,
  kWidening,      // elementwise; reads 16-bit values and writes 32-bit values
  kMixed,         // elementwise, with 16-bit and 32-bit operands
  kNorm,          // normalization of rows in FP32
  kNormGradient,  // gradient of a normalization's input, in FP32
  kColumnSum,     // one sum per column, over all rows
};
inline constexpr std::string_view kAccessNames[] = {"plain", "widening",      "mixed",
                                                    "norm",  "norm_gradient", "column_sum"};
inline constexpr std::size_t kAccessCount = std::size(kAccessNames);

// The work of one device kernel. Sizes are in elements. A multiplication and an addition are two
// FLOPs.
struct Kernel {
  std::string name{};  // "mlp.down_proj", "self_attn.q_proj.wgrad"
  KernelKind kind = KernelKind::kMemoryBound;
  DataType data_type = DataType::kBf16;
  // For kGemm: the number of independent multiplications of [m, k] by [k, n]. For kAttention and
  // kAttentionGradient: the number of query heads, summed over all sequences. Each head has m
  // queries and n keys of k elements. A causal query attends to itself and earlier keys; other
  // queries attend to all keys. Zero for other kinds.
  std::int64_t batch = 1;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t key_heads = 0;  // for attention: key heads of all sequences; divides `batch`
  ProductLayout layout = ProductLayout::kForward;  // only for kGemm
  // For kGemm: whether the kernel adds its result to FP32 values in memory.
  bool adds_to_fp32 = false;
  bool grouped = false;  // kGemm: one kernel multiplies for all `batch` experts of the rank
  // For kGemm: the number of equal matrix multiplications that run concurrently on separate streams
  // of the device.
  std::int64_t together = 1;
  std::int64_t flops = 0;        // executed by the device; half of full attention if causal
  std::int64_t model_flops = 0;  // for MFU: matrix multiplications and full attention; else 0
  Bytes read{}, written{};       // device memory traffic, one access per operand
  Time given{};                  // duration for kGiven; otherwise zero
  // For kGiven: whether the work is on CPUs or drives of the host, concurrent with the device.
  bool on_host = false;
  // For kMemoryBound: the kernel computes `summed_columns` sums of `summed_tokens` numbers, as in
  // the weight gradients of PyTorch's layer norm. Each thread block sums 32 columns, so the kernel
  // is slow if there are few columns.
  std::int64_t summed_tokens = 0, summed_columns = 0;
  Access access = Access::kPlain;  // only for kMemoryBound
  // For kAttention and kAttentionGradient: the generation of FlashAttention (1 to 3), 4 for cuDNN,
  // or 5 for FlexAttention.
  std::uint8_t flash = 2;
  bool causal = true;  // for attention: each query attends only to keys up to its own position
  // For kAttention and kAttentionGradient: the rate of a library's fallback kernel as a fraction of
  // the generation's normal rate; otherwise 1.
  double rate = 1;
  ScanKind scan = ScanKind::kDelta;  // only for kScan and kScanGradient
  // For kScan and kScanGradient: the number of chunks of the longest sequence, which are computed
  // one after another.
  std::int64_t steps = 0;
  Issuer issuer = Issuer::kFramework;
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

}  // namespace stepcast
