#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// The settings of a training run that may affect the error of its forecast.
namespace stepcast::calibration {

// Numeric settings, compared by the logarithm of their ratio. 0: unknown or none.
enum class RunSize : std::uint8_t {
  kParameters,  // parameters of the model
  kSequenceLength,
  kGpus,
  kMicroBatchSize,
  kMicroBatches,  // per step
  kReplicas,      // number of rank groups with a complete copy of the sharded states
  kTensor,
  kContext,
  kPipeline,
  kExpert,
  kNetwork,     // network bandwidth per GPU of a node, MB/s
  kPowerLimit,  // power limit of a GPU board, W
  kHostSpeed,   // in thousandths of the reference host's speed
};
inline constexpr std::size_t kRunSizes = 13;

// Settings that are compared only for equality. Empty: unknown.
enum class RunKind : std::uint8_t {
  kGpu,
  kFramework,
  kZeroStage,
  kPrecision,
  kReduceType,
  kRecomputation,
  kAttention,
  kCompile,
  kNorm,
  kHostWaits,
  kTorch,
};
inline constexpr std::size_t kRunKinds = 11;

// Returns whether older profiles may lack this setting.
constexpr bool MayBeUnknown(RunSize size) { return size >= RunSize::kNetwork; }
constexpr bool MayBeUnknown(RunKind kind) { return kind >= RunKind::kNorm; }

// Returns the setting's name in profile files. Most names are scenario keys.
constexpr std::string_view Name(RunSize size) {
  constexpr std::string_view kNames[kRunSizes] = {
      "parameters", "sequence_length", "gpus",      "micro_batch_size", "micro_batches",
      "replicas",   "tensor",          "context",   "pipeline",         "expert",
      "network",    "power_limit",     "host_speed"};
  return kNames[static_cast<std::size_t>(size)];
}
constexpr std::string_view Name(RunKind kind) {
  constexpr std::string_view kNames[kRunKinds] = {
      "gpu",        "framework",    "zero_stage",
      "precision",  "reduce_dtype", "activation_checkpointing",
      "attention",  "compile",      "norm",
      "host_waits", "torch"};
  return kNames[static_cast<std::size_t>(kind)];
}

struct RunSettings {
  std::array<std::int64_t, kRunSizes> sizes{};
  std::array<std::string, kRunKinds> kinds{};  // values as in a scenario: "fsdp2", "bf16", "3"

  std::int64_t operator[](RunSize size) const { return sizes[static_cast<std::size_t>(size)]; }
  const std::string& operator[](RunKind kind) const {
    return kinds[static_cast<std::size_t>(kind)];
  }
  friend auto operator<=>(const RunSettings&, const RunSettings&) = default;
};

}  // namespace stepcast::calibration
