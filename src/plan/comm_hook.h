#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

// PyTorch's communication hooks for DDP (torch/distributed/algorithms/ddp_comm_hooks @ v1.13.1):
// what takes the place of a bucket's all-reduce.
namespace stepcast::plan {

// Casts to 16 bits and back (default_hooks.py), or low-rank factors (powerSGD_hook.py).
enum class CommHook : std::uint8_t { kNone, kFp16Compress, kBf16Compress, kPowerSgd };
inline constexpr const char* kCommHookNames[] = {"none", "fp16_compress", "bf16_compress",
                                                 "powerSGD"};
constexpr const char* Name(CommHook hook) { return kCommHookNames[static_cast<std::size_t>(hook)]; }

// The state of the PowerSGD hook (Vogels et al. 2019, arXiv 1905.13727): the mapping
// `data_parallel.powersgd`, by the names and with the defaults of PowerSGDState.
struct PowerSgd {
  std::int64_t rank = 1;  // of the factors
  // Plain all-reduces before that step; a forecast is of a step after it.
  std::int64_t start_iteration = 1000;
  // A matrix is compressed if its factors are more than so many times smaller.
  double min_compression_rate = 2;
  bool error_feedback = true;  // what compression loses is added to the next step's gradients
  bool warm_start = true;      // a step begins with the last one's factors
  friend bool operator==(const PowerSgd&, const PowerSgd&) = default;
};

// What was said of it.
struct PowerSgdRequest {
  std::optional<std::int64_t> rank, start_iteration;
  std::optional<double> min_compression_rate;
  std::optional<bool> error_feedback, warm_start;
};

PowerSgd Complete(const PowerSgdRequest& request);

// Whether a matrix of such a shape is compressed.
bool Compresses(const PowerSgd& settings, std::int64_t rows, std::int64_t columns);

}  // namespace stepcast::plan
