#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/program/program.h"
#include "src/runtime/backend.h"
#include "src/runtime/cuda/communicators.h"
#include "src/runtime/cuda/device_memory.h"
#include "src/runtime/cuda/effect_launches.h"
#include "src/runtime/cuda/effects.h"
#include "src/runtime/cuda/launch_plan.h"
#include "src/runtime/cuda/operand_arenas.h"
#include "src/runtime/cuda/operation_clock.h"
#include "src/runtime/cuda/products.h"
#include "src/runtime/cuda/step_graph.h"
#include "src/runtime/device.h"
#include "src/runtime/job.h"

namespace stepcast::runtime::cuda {

// A program's device on one GPU.
//
// Streams are CUDA streams. Streams that only communicate or copy have the highest priority, as in
// frameworks. Events measure the times of operations (operation_clock.h). Effects are kernels on
// the program's buffers (effect_launches.h). All other work uses operands that the device allocates
// (operand_arenas.h).
//
// When the device is created, every kernel of the program is launched once, before the
// communicators are created. CUDA loads a kernel at the kernel's first launch, and waits for the
// GPU during loading. During a collective, this wait could cause a deadlock, because another rank
// may wait for this rank (CUDA C++ Programming Guide, "Lazy Loading").
//
// A step can be captured and replayed as a CUDA graph. The graph contains no waits of the host and
// no waits for events of the previous step, because replays run one after another. After a capture,
// only Replay, Synchronise, TakeTimes, Read and queries may be called (step_graph.h).
//
// While the host waits, it polls NCCL. If a communicator reports an error, the wait ends with a
// Failure, and the destructor aborts all work in flight.
class GpuDevice final : public runtime::Device {
 public:
  // Creates a device on GPU `ordinal`. All ranks of the job call this function together. `program`
  // and `cache` must outlive the device.
  static Attempt<std::unique_ptr<runtime::Device>> Make(const program::Program& program, Job& job,
                                                        int ordinal, const DeviceOptions& options,
                                                        CommunicatorCache& cache);
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;
  ~GpuDevice() override;

  Attempt<void> Allocate(program::Index buffer, std::uint16_t stream) override;
  Attempt<void> Release(program::Index buffer) override;
  void RecordStream(program::Index buffer, std::uint16_t stream) override;
  Attempt<void> Launch(OperationId operation, const program::Instruction& instruction) override;
  Attempt<void> Record(program::Index event, std::uint16_t stream) override;
  Attempt<void> Wait(program::Index event, std::uint16_t stream) override;
  Attempt<void> HostWait(program::Index event) override;
  Attempt<void> BeginCapture() override;
  Attempt<void> EndCapture() override;
  Attempt<void> Replay(std::uint32_t step) override;
  Attempt<void> Synchronise() override;
  Attempt<std::vector<OperationTimes>> TakeTimes() override;
  Time Now() override;
  bool ReportTo(Progress* progress) override;
  MemoryUse Memory() const override;
  Attempt<std::vector<float>> Read(const program::Elements& from, std::int64_t count) override;

 private:
  using HostClock = std::chrono::steady_clock;

  // Whether an event was recorded and, if so, whether it is part of the graph that is being
  // captured.
  enum class Mark : std::uint8_t { kNone, kRecorded, kCaptured };

  struct CommunicatorOrder {
    cudaEvent_t done = nullptr;  // completion of the last collective
    std::uint16_t stream = 0;    // stream on which it was issued
    Mark mark = Mark::kNone;
  };
  GpuDevice(const program::Program& program, int rank, int ordinal, const DeviceOptions& options);
  Attempt<void> Start(Job& job, CommunicatorCache& cache);
  Attempt<void> MakeStreams();
  Attempt<void> Preload();

  Attempt<void> Failed(Failure failure);
  Attempt<void> WaitUntil(const std::function<cudaError_t()>& done, const char* doing);

  // Each of these functions launches one kind of instruction.
  Attempt<void> LaunchAny(OperationId operation, const program::Instruction& instruction);
  Attempt<void> LaunchTimed(OperationId operation, const program::Instruction& instruction,
                            const Work& work, std::span<const program::Effect> effects);
  Attempt<void> LaunchKernel(OperationId operation, const program::Instruction& instruction,
                             const Work& work, std::span<const program::Effect> effects);
  Attempt<void> LaunchProduct(const Kernel& kernel, const Work& work, std::uint16_t stream);
  Attempt<void> LaunchCopy(OperationId operation, const program::Instruction& instruction,
                           const Work& work);
  Attempt<void> LaunchCollective(OperationId operation, const program::Instruction& instruction,
                                 const Work& work, std::span<const program::Effect> effects);
  // Returns whether the communicator's last collective ran on a stream other than `stream`.
  bool MustWaitFor(program::Index communicator, std::uint16_t stream) const;
  Attempt<void> LaunchExchange(const program::Instruction& instruction);
  // Records that `stream` runs the communicator's last operation.
  Attempt<void> EndTurn(program::Index communicator, std::uint16_t stream);
  StepSource Step() const;
  Attempt<void> CheckSums();

  const program::Program& program_;
  const int rank_;
  const int ordinal_;
  const DeviceOptions options_;
  const LaunchPlan plan_;

  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> events_;  // events of the program
  std::vector<Mark> marks_;
  std::unique_ptr<DeviceMemory> memory_;
  std::vector<std::vector<program::StatePart>> state_;  // [buffer]; emptied when written
  std::unique_ptr<Products> products_;
  std::unique_ptr<Communicators> communicators_;
  std::vector<CommunicatorOrder> orders_;

  std::unique_ptr<OperandArenas> arenas_;
  std::unique_ptr<EffectLaunches> effects_;
  std::uint64_t* stamps_ = nullptr;    // device memory, one for each stream
  StepValues* step_values_ = nullptr;  // device memory, for graphs

  StepValues step_;  // values of the step that is being issued
  std::unique_ptr<OperationClock> clock_;
  bool capturing_ = false;
  std::unique_ptr<StepGraph> graph_;
  bool failed_ = false;
};

}  // namespace stepcast::runtime::cuda
