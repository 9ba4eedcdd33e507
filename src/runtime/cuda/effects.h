#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "src/base/data_type.h"
#include "src/runtime/device.h"
#include "src/runtime/values/optimizers.h"

// The kernels that do what a program's effects say (src/program/data_flow.h), with the values of
// src/runtime/values, bit for bit. Types are fp32, bf16 or fp16. Launches return what CUDA says of
// them.
namespace stepcast::runtime::cuda {

// What differs from step to step.
struct StepValues {
  std::uint32_t step = 0;
  values::AdamW adamw;  // of update `step` + 1
};
StepValues StepValuesOf(std::uint32_t step);

// Where kernels find them: `now`, or, in a graph that is replayed with other ones, on the device.
struct StepSource {
  StepValues now;
  const StepValues* on_device = nullptr;
};

// Queued in front of a replay.
cudaError_t StoreStepValues(const StepValues& values, StepValues* on_device, cudaStream_t stream);

struct GradientWork {
  void* target = nullptr;
  const void* source = nullptr;  // the parameters
  DataType target_type = DataType::kFp32, source_type = DataType::kFp32;
  std::int64_t elements = 0, first_element = 0;
  bool add = false;
  float scale = 1;
  GradientRule rule = GradientRule::kComputed;
  int rank = 0, micro_batch = 0;
};
cudaError_t LaunchGradient(const GradientWork& work, const StepSource& step, cudaStream_t stream);

struct MoveWork {
  void* target = nullptr;
  const void* source = nullptr;
  DataType target_type = DataType::kFp32, source_type = DataType::kFp32;
  std::int64_t elements = 0;
  bool add = false;
  float scale = 1;
  std::int64_t block = 0, target_stride = 0, source_stride = 0;  // as in program::Effect
};
cudaError_t LaunchMove(const MoveWork& work, cudaStream_t stream);

struct UpdateWork {
  void* parameters = nullptr;
  const void* gradients = nullptr;
  float* states = nullptr;
  DataType parameter_type = DataType::kFp32, gradient_type = DataType::kFp32;
  std::int64_t elements = 0, state_stride = 0;
  bool adamw = true;
};
cudaError_t LaunchUpdate(const UpdateWork& work, const StepSource& step, cudaStream_t stream);

struct SquaresWork {
  float* target = nullptr;
  const void* source = nullptr;
  DataType source_type = DataType::kFp32;
  std::int64_t elements = 0;
  bool add = false;
  float scale = 1;
};
cudaError_t LaunchSquares(const SquaresWork& work, cudaStream_t stream);

struct ClipWork {
  void* target = nullptr;
  const float* squares = nullptr;
  DataType target_type = DataType::kFp32;
  std::int64_t elements = 0;
  float limit = 1;
};
cudaError_t LaunchClip(const ClipWork& work, cudaStream_t stream);

// Parameters at the start: element i gets the initial value of model element first_element + i.
cudaError_t LaunchInitialValues(void* target, DataType type, std::int64_t elements,
                                std::int64_t first_element, std::uint64_t seed,
                                cudaStream_t stream);

}  // namespace stepcast::runtime::cuda
