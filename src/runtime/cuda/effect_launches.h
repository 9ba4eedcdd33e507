#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/base/bytes.h"
#include "src/program/program.h"
#include "src/runtime/cuda/device_memory.h"
#include "src/runtime/cuda/effects.h"
#include "src/runtime/cuda/launch_plan.h"
#include "src/runtime/device.h"

// Executes effects on the program's buffers as kernels (effects.h).
namespace stepcast::runtime::cuda {

class EffectLaunches {
 public:
  // The inputs of EffectLaunches. All referenced objects must outlive EffectLaunches.
  struct Setting {
    const program::Program& program;
    const LaunchPlan& plan;
    const DeviceMemory& memory;
    std::span<const cudaStream_t> streams;
    GradientRule gradients = GradientRule::kComputed;
    int rank = 0;
  };
  static Attempt<std::unique_ptr<EffectLaunches>> Make(const Setting& setting);
  EffectLaunches(const EffectLaunches&) = delete;
  EffectLaunches& operator=(const EffectLaunches&) = delete;
  ~EffectLaunches();

  // Launches every kernel of the program once, with arbitrary operands. `number` is the address of
  // one float in device memory.
  Attempt<void> Preload(float* number) const;

  // Executes LaunchPlan::batches[first, last) of an operation.
  Attempt<void> Launch(program::Index first, program::Index last, OperationId operation,
                       const program::Instruction& instruction, const StepSource& step) const;

  // Returns the address of `elements`, or null if the elements have no buffer.
  std::byte* At(const program::Elements& elements) const {
    if (elements.buffer == program::kNone) return nullptr;
    return setting_.memory.at(elements.buffer) + elements.offset.count();
  }
  Bytes size() const { return size_; }  // bytes of device memory that this object allocated

 private:
  explicit EffectLaunches(const Setting& setting) : setting_(setting) {}
  // Each of these functions converts an effect to the arguments of the effect's kernel.
  GradientWork GradientWorkOf(const program::Effect& effect) const;
  MoveWork MoveWorkOf(const program::Effect& effect) const;
  UpdateWork UpdateWorkOf(const program::Effect& effect) const;
  SquaresWork SquaresWorkOf(const program::Effect& effect) const;
  ClipWork ClipWorkOf(const program::Effect& effect) const;
  MixWork MixWorkOf(const program::Effect& effect) const;
  cudaError_t LaunchBatch(std::span<const program::Effect> effects, int micro_batch,
                          std::uint16_t stream, const StepSource& step) const;

  Setting setting_;
  std::vector<double*> partial_sums_;  // [stream]; nullptr if no gradients are clipped
  Bytes size_;
};

}  // namespace stepcast::runtime::cuda
