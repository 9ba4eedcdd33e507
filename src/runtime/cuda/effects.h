#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>

#include "src/base/data_type.h"
#include "src/runtime/device.h"
#include "src/runtime/values/optimizers.h"

// The kernels for a program's effects (src/program/data_flow.h). The kernels' results are bitwise
// equal to the results of src/runtime/values. Types are fp32, bf16 or fp16.
//
// Up to 48 effects of one kind and with the same types form one launch. The limit of 48 follows
// from the maximum size of kernel arguments. An effect must not read or write memory that another
// effect of the launch writes, except that sums of squares are added in order. Launch functions
// return CUDA's status; for an empty list, they do nothing.
namespace stepcast::runtime::cuda {

// The kernel arguments that differ between steps.
struct StepValues {
  std::uint32_t step = 0;
  values::AdamW adamw;  // constants of update `step` + 1
};
StepValues StepValuesOf(std::uint32_t step);

// The memory from which kernels read the step's values: `now` or, in graphs, device memory that is
// updated before each replay.
struct StepSource {
  StepValues now;
  const StepValues* on_device = nullptr;
};

// Enqueues the update of the step's values in device memory. Call this function before a replay.
cudaError_t StoreStepValues(const StepValues& values, StepValues* on_device, cudaStream_t stream);

// The type that a kernel writes, and the type that it reads.
struct TypePair {
  DataType target = DataType::kFp32, source = DataType::kFp32;
  friend bool operator==(const TypePair&, const TypePair&) = default;
};

struct GradientWork {
  void* target = nullptr;
  const void* source = nullptr;  // the parameters
  std::int64_t elements = 0, first_element = 0;
  float scale = 1;
  bool add = false;
  const std::uint32_t* seed = nullptr;  // seed of small integers; null: determined by origin and
                                        // step
};
// The rule that computes gradients, and the rank and micro-batch of the gradients. The gradients
// also depend on the parameters and, with kSmallIntegers, on the step or on GradientWork::seed.
struct GradientOrigin {
  GradientRule rule = GradientRule::kComputed;
  int rank = 0, micro_batch = 0;
};
cudaError_t LaunchGradients(std::span<const GradientWork> works, TypePair types,
                            const GradientOrigin& origin, const StepSource& step,
                            cudaStream_t stream);

struct MixWork {
  std::uint32_t* target = nullptr;
  const std::uint32_t* source = nullptr;  // null: the origin determines the seed
  const std::uint32_t* also = nullptr;    // null: 0
  std::int64_t salt = 0;
  int batch_part = 0;
};
cudaError_t LaunchMixes(std::span<const MixWork> works, const GradientOrigin& origin,
                        const StepSource& step, cudaStream_t stream);

struct MoveWork {
  void* target = nullptr;
  const void* source = nullptr;
  std::int64_t elements = 0;
  std::int64_t block = 0, target_stride = 0, source_stride = 0;  // as in program::Effect
  float scale = 1;
  bool add = false;
};
cudaError_t LaunchMoves(std::span<const MoveWork> works, TypePair types, cudaStream_t stream);

struct UpdateWork {
  void* parameters = nullptr;
  const void* gradients = nullptr;
  void* states = nullptr;
  std::int64_t elements = 0, state_stride = 0;
};
// Launches updates of parameters. `types` has the parameters' type as the target and the gradients'
// type as the source. `states` is FP32 or the parameters' type (values::UpdateElement).
cudaError_t LaunchUpdates(std::span<const UpdateWork> works, TypePair types, DataType states,
                          bool adamw, const StepSource& step, cudaStream_t stream);

struct SquaresWork {
  float* target = nullptr;
  const void* source = nullptr;
  std::int64_t elements = 0;
  float scale = 1;
  bool add = false;
};
// The number of elements of the scratch array of a launch, in device memory. No other launch may
// use the array at the same time.
inline constexpr int kPartialSums = 48 * 512;
// Launches sums of squares. A sum depends only on the numbers and their count, not on the launch
// configuration.
cudaError_t LaunchSquares(std::span<const SquaresWork> works, DataType source, double* partial_sums,
                          cudaStream_t stream);

struct ClipWork {
  void* target = nullptr;
  const float* squares = nullptr;
  std::int64_t elements = 0;
  float limit = 1;
};
cudaError_t LaunchClips(std::span<const ClipWork> works, DataType target, cudaStream_t stream);

// Writes initial parameters: element i of `target` is model element first_element + i.
cudaError_t LaunchInitialValues(void* target, DataType type, std::int64_t elements,
                                std::int64_t first_element, std::uint64_t seed,
                                cudaStream_t stream);

}  // namespace stepcast::runtime::cuda
