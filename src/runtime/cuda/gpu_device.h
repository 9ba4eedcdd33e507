#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
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
#include "src/runtime/cuda/effects.h"
#include "src/runtime/cuda/launch_plan.h"
#include "src/runtime/cuda/products.h"
#include "src/runtime/device.h"
#include "src/runtime/job.h"
#include "src/runtime/progress.h"

namespace stepcast::runtime::cuda {

// A program's device on one GPU.
//
// Streams are CUDA streams; those that only communicate or copy have the highest priority, as
// frameworks give it. Every operation is timed by a pair of events in its stream, a collective by a
// third in front of its wait for the communicator. That costs the host about a microsecond an event
// and the stream about as much between two operations, which otherwise follow one another a little
// closer: measured steps of very small kernels are longer by it.
//
// The clock is that of CUDA events (half a microsecond fine); its zero is an event recorded when
// the device was made. Host and device are brought together at each Synchronise, to within some
// microseconds; in between they may drift by some millionths.
//
// A step can be captured and replayed as a CUDA graph. The waits of the host are left out then, and
// waits for events of the step before: replays follow one another. After a capture nothing but
// Replay, Synchronise, TakeTimes, Read and what only asks may be called. Times come from event
// nodes in the graph, of which there are two sets, so that one replay is timed while the next runs.
//
// While the host waits it looks after NCCL: a communicator that reports an error ends the wait with
// a Failure, and everything under way is aborted when the device is destroyed.
class GpuDevice final : public runtime::Device {
 public:
  // On GPU `ordinal`. All ranks of the job call this together. The program must outlive the device.
  static Attempt<std::unique_ptr<runtime::Device>> Make(const program::Program& program, Job& job,
                                                        int ordinal, const DeviceOptions& options);
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

  // Whether a mark in a stream (an event) stands, and whether in the graph that is being captured.
  enum class Mark : std::uint8_t { kNone, kRecorded, kCaptured };

  // An operation whose times are not known yet. `ready` may be `start`.
  struct Timed {
    OperationId operation;
    cudaEvent_t ready = nullptr, start = nullptr, end = nullptr;
  };
  struct CommunicatorOrder {
    cudaEvent_t done = nullptr;  // the last collective
    std::uint16_t stream = 0;    // it was issued on
    Mark mark = Mark::kNone;
  };
  struct GraphInstance {
    cudaGraphExec_t exec = nullptr;
    std::vector<Timed> operations{};
    cudaEvent_t done = nullptr;
    bool in_flight = false;
    std::uint32_t step = 0;
  };

  GpuDevice(const program::Program& program, int rank, int ordinal, const DeviceOptions& options);
  Attempt<void> Start(Job& job);
  Attempt<void> MakeStreams();
  Attempt<void> MakeStandIns();

  Attempt<void> Failed(Failure failure);
  Attempt<void> WaitUntil(const std::function<cudaError_t()>& done, const char* doing);

  // Tells `progress_` how far the device is: looks at the operations in order of issue.
  void ReportProgress();

  // The parts of Launch.
  Attempt<void> LaunchAny(OperationId operation, const program::Instruction& instruction);
  Attempt<void> LaunchTimed(OperationId operation, const program::Instruction& instruction,
                            const Work& work, std::span<const program::Effect> effects);
  Attempt<void> LaunchKernel(OperationId operation, const program::Instruction& instruction,
                             const Work& work, std::span<const program::Effect> effects);
  Attempt<void> LaunchProduct(const Kernel& kernel, const Work& work, std::uint16_t stream);
  Attempt<void> LaunchCopy(OperationId operation, const program::Instruction& instruction,
                           const Work& work, std::span<const program::Effect> effects);
  Attempt<void> LaunchCollective(OperationId operation, const program::Instruction& instruction,
                                 const Work& work, std::span<const program::Effect> effects);
  Attempt<void> WaitForCommunicator(program::Index communicator, std::uint16_t stream);
  Attempt<void> LaunchEffect(const program::Effect& effect, OperationId operation,
                             const program::Instruction& instruction);
  Attempt<void> CheckSums();

  std::byte* At(const program::Elements& elements) const {
    return memory_->at(elements.buffer) + elements.offset.count();
  }
  const std::byte* Input(DataType type) const { return inputs_[static_cast<std::size_t>(type)]; }

  // Timing.
  Attempt<cudaEvent_t> TakeTimingEvent();
  Attempt<void> RecordTiming(cudaEvent_t event, std::uint16_t stream);
  Attempt<void> SetAnchor();
  Attempt<void> Collect(const std::vector<Timed>& operations);
  Attempt<void> CollectInstance(GraphInstance& instance);
  Attempt<GraphInstance> Instantiate(std::vector<Timed> operations, bool own_events);

  const program::Program& program_;
  const int rank_;
  const int ordinal_;
  const DeviceOptions options_;
  const LaunchPlan plan_;

  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> events_;  // the program's
  std::vector<Mark> marks_;
  std::unique_ptr<DeviceMemory> memory_;
  std::vector<std::vector<program::StatePart>> state_;  // by buffer; until written
  std::unique_ptr<Products> products_;
  std::unique_ptr<Communicators> communicators_;
  std::vector<CommunicatorOrder> orders_;

  // Stand-ins.
  std::vector<std::byte*> inputs_;      // by data type
  std::vector<std::byte*> outputs_;     // by stream
  std::vector<std::byte*> workspaces_;  // by stream; nullptr where nothing multiplies
  std::byte* host_ = nullptr;           // pinned
  std::uint64_t* stamps_ = nullptr;     // one for each stream
  StepValues* step_values_ = nullptr;   // on the device, for graphs
  Bytes stand_in_bytes_;

  StepValues step_;  // of the step being issued
  cudaEvent_t anchor_ = nullptr;
  Time anchor_time_;
  HostClock::time_point anchor_host_;       // the host's time at the anchor
  std::vector<cudaEvent_t> timing_events_;  // free ones
  std::vector<Timed> pending_;
  std::vector<OperationTimes> times_;
  Progress* progress_ = nullptr;
  std::size_t reported_ = 0;  // so many of pending_ are known to be done

  bool capturing_ = false;
  cudaGraph_t graph_ = nullptr;
  std::deque<GraphInstance> instances_;
  bool failed_ = false;
};

}  // namespace stepcast::runtime::cuda
