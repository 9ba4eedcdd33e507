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
  kGemm,               // m x n x k, `batch` of them; compute-bound when large
  kAttention,          // fused (flash) attention core
  kAttentionGradient,  // its backward: five products where forward has two
  kMemoryBound,        // normalisation, activation, residual, rotary, softmax, loss, copies, casts
  kOptimizer,          // parameter update: memory-bound, over parameters and optimizer states
  kGiven,              // its time is an input: layer lists
  kScan,               // a recurrent layer's pass over the sequence, chunk by chunk
  kScanGradient,       // its backward
};

// The recurrent layer of a kScan.
enum class ScanKind : std::uint8_t {
  kDelta,           // the gated delta rule
  kDeltaByChannel,  // with a decay for each channel: Kimi delta attention
  kStateSpace,      // Mamba-2
};

// How the operands of a product are stored, row by row; [a, b] has rows of b numbers. They are the
// operands of a linear layer with a weight of [out, in], as in PyTorch.
enum class ProductLayout : std::uint8_t {
  kForward,         // [m, k] times the transpose of [n, k]
  kInputGradient,   // [m, k] times [k, n]
  kWeightGradient,  // the transpose of [k, m] times [k, n]
};
inline constexpr ProductLayout kProductLayouts[] = {
    ProductLayout::kForward, ProductLayout::kInputGradient, ProductLayout::kWeightGradient};

// The code that issues a kernel in eager execution. The host time of issuers differs by more than
// an order of magnitude.
enum class Issuer : std::uint8_t {
  kFramework,  // a sharding strategy's hooks, the optimizer, a compiled graph: the launch alone
  kModule,     // a module's forward, in Python, also when it is run again
  kAutograd,   // the autograd engine
  kSameCall,   // the call that issued the kernel before: further pieces of one product
};

// Host time that eager execution takes before it launches a kernel, by issuer.
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
  kWidening,      // 16 bits in, 32 out, element by element
  kMixed,         // operands of 16 and of 32 bits, likewise
  kNorm,          // a norm's rows in FP32
  kNormGradient,  // the gradient of its input, in FP32
  kColumnSum,     // one sum over the rows of every column
};
inline constexpr std::string_view kAccessNames[] = {"plain", "widening",      "mixed",
                                                    "norm",  "norm_gradient", "column_sum"};
inline constexpr std::size_t kAccessCount = std::size(kAccessNames);

// The work of one device kernel. The model room writes kernels, programs carry them and cost code
// prices them. Shapes are in elements. A multiply and an add count as two flops.
struct Kernel {
  std::string name{};  // "mlp.down_proj", "self_attn.q_proj.wgrad"
  KernelKind kind = KernelKind::kMemoryBound;
  DataType data_type = DataType::kBf16;
  // kGemm: independent products of [m, k] and [k, n]. kAttention, kAttentionGradient: query heads
  // of all sequences. Each head has m queries of k elements; a query sees up to n keys, itself
  // included, or all n keys if the attention is not causal. Zero for other kinds.
  std::int64_t batch = 1;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t key_heads = 0;  // kAttention, kAttentionGradient: of all sequences, divides `batch`
  ProductLayout layout = ProductLayout::kForward;  // kGemm
  // kGemm: the result is added to FP32 values in memory, which are read first.
  bool adds_to_fp32 = false;
  bool grouped = false;  // kGemm: `batch` counts a rank's experts, whose products are one kernel
  // kGemm: the number of equal products that run at once, on separate streams, and share the
  // device.
  std::int64_t together = 1;
  std::int64_t flops = 0;        // what the device executes (causal attention: half)
  std::int64_t model_flops = 0;  // what MFU counts: matrix products, full attention; else 0
  Bytes read{}, written{};       // device memory traffic if every operand crosses once
  Time given{};                  // kGiven: the time; else zero
  // kGiven: work of the host's CPUs or drives, which runs concurrently with the device's other
  // work.
  bool on_host = false;
  // kMemoryBound: `summed_columns` sums over `summed_tokens` tokens each. A thread block sums 32
  // columns (the weight gradients of PyTorch's layer norm), so few blocks share the work.
  std::int64_t summed_tokens = 0, summed_columns = 0;
  Access access = Access::kPlain;  // kMemoryBound
  // kAttention, kAttentionGradient: the generation of FlashAttention, 1 to 3; 4 means cuDNN and 5
  // FlexAttention.
  std::uint8_t flash = 2;
  bool causal = true;  // likewise: a query sees only the keys before it
  // Likewise: the fraction of the generation's rate that remains when a library falls back.
  double rate = 1;
  ScanKind scan = ScanKind::kDelta;  // kScan, kScanGradient
  // Likewise: sequential chunks of the longest sequence. More heads do not shorten the sequence of
  // steps.
  std::int64_t steps = 0;
  Issuer issuer = Issuer::kFramework;
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

}  // namespace stepcast
