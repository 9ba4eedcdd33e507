#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// What tells one training run from another, where the difference between a measured step and its
// forecast may depend on it.
namespace stepcast::calibration {

// Settings that are more or less: compared by doublings.
enum class RunSize : std::uint8_t {
  kParameters,  // of the model
  kSequenceLength,
  kGpus,
  kMicroBatchSize,
  kMicroBatches,  // of a step
  kReplicas,      // groups of ranks that each hold all of the sharded states
  kTensor,
  kContext,
  kPipeline,
  kExpert,
};
inline constexpr std::size_t kRunSizes = 10;

// Settings that are equal or not.
enum class RunKind : std::uint8_t {
  kGpu,
  kFramework,
  kZeroStage,
  kPrecision,
  kReduceType,
  kRecomputation,
  kAttention,
  kCompile,
};
inline constexpr std::size_t kRunKinds = 8;

// The names of a profile's file; most are those of a scenario's keys.
constexpr std::string_view Name(RunSize size) {
  constexpr std::string_view kNames[kRunSizes] = {
      "parameters", "sequence_length", "gpus",    "micro_batch_size", "micro_batches",
      "replicas",   "tensor",          "context", "pipeline",         "expert"};
  return kNames[static_cast<std::size_t>(size)];
}
constexpr std::string_view Name(RunKind kind) {
  constexpr std::string_view kNames[kRunKinds] = {"gpu",          "framework",
                                                  "zero_stage",   "precision",
                                                  "reduce_dtype", "activation_checkpointing",
                                                  "attention",    "compile"};
  return kNames[static_cast<std::size_t>(kind)];
}

struct RunSettings {
  std::array<std::int64_t, kRunSizes> sizes{};  // from 1
  std::array<std::string, kRunKinds> kinds{};   // words of a scenario: "fsdp2", "bf16", "3"

  std::int64_t operator[](RunSize size) const { return sizes[static_cast<std::size_t>(size)]; }
  const std::string& operator[](RunKind kind) const {
    return kinds[static_cast<std::size_t>(kind)];
  }
  friend auto operator<=>(const RunSettings&, const RunSettings&) = default;
};

}  // namespace stepcast::calibration
