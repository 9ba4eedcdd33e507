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
#include "src/runtime/cuda/communicator_cache.h"
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
// frameworks give it. Every operation is timed by an event behind it and one in front of it, which
// is the one behind the operation before as long as the stream has not reached that when the host
// issues this one and has nothing to wait for in between; a collective by a third, in front of its
// wait for the communicator, if it has one. An event costs the host about a microsecond and the
// stream about as much between two operations, which otherwise follow one another a little closer:
// measured steps of very small kernels are longer by it.
//
// What the program launches is launched once when the device is made, before communicators are:
// CUDA loads a kernel when it is launched first and waits for the GPU meanwhile, which would never
// end beside a collective whose partner waits for this rank (CUDA C++ Programming Guide, "Lazy
// Loading").
//
// Operands that the program does not name come from memory, not from the cache: as much of them as
// four caches hold is walked through, from step to step; a graph has fixed ones.
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
  // `cache` outlives it.
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

  // Whether a mark in a stream (an event) stands, and whether in the graph that is being captured.
  enum class Mark : std::uint8_t { kNone, kRecorded, kCaptured };

  // An operation whose times are not known yet. `ready` may be `start`, and the first of the two
  // the `end` of the operation before in the stream.
  struct Timed {
    OperationId operation;
    cudaEvent_t ready = nullptr, start = nullptr, end = nullptr;
    bool lent = false;  // `end` is also another one's beginning
  };
  // What a stream last did, if nothing came after it.
  struct StreamEnd {
    cudaEvent_t event = nullptr;
    std::uint64_t operation = 0;  // counted over all of the device's
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
  Attempt<void> Start(Job& job, CommunicatorCache& cache);
  Attempt<void> MakeStreams();
  Attempt<void> MakeStandIns();
  Attempt<void> Preload();
  Attempt<void> PreloadEffects();

  Attempt<void> Failed(Failure failure);
  Attempt<void> WaitUntil(const std::function<cudaError_t()>& done, const char* doing);

  // Takes the times of what is done, in order of issue, and tells `progress_` how far the device
  // is.
  Attempt<void> CollectDone();

  // The parts of Launch.
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
  // Whether the communicator's last collective is on another stream.
  bool MustWaitFor(program::Index communicator, std::uint16_t stream) const;
  Attempt<void> LaunchExchange(const program::Instruction& instruction);
  // What was started last on a communicator is on this stream.
  Attempt<void> EndTurn(program::Index communicator, std::uint16_t stream);
  Attempt<void> LaunchBatches(program::Index first, program::Index last, OperationId operation,
                              const program::Instruction& instruction);
  cudaError_t LaunchBatch(std::span<const program::Effect> effects, int micro_batch,
                          std::uint16_t stream);
  Attempt<void> CheckSums();

  // Null: no place.
  std::byte* At(const program::Elements& elements) const {
    if (elements.buffer == program::kNone) return nullptr;
    return memory_->at(elements.buffer) + elements.offset.count();
  }
  const std::byte* Input(DataType type) const;

  // Timing.
  Attempt<cudaEvent_t> TakeTimingEvent();
  Attempt<void> RecordTiming(cudaEvent_t event, std::uint16_t stream);
  // An event that tells when the stream gets to what is issued next.
  Attempt<cudaEvent_t> Beginning(std::uint16_t stream);
  Attempt<void> SetAnchor();
  Attempt<void> Collect(const Timed& timed);
  Attempt<void> CollectInstance(GraphInstance& instance);
  Attempt<void> Instantiate(GraphInstance& instance, const std::vector<Timed>& operations,
                            bool own_events);

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
  std::vector<double*> partial_sums_;   // by stream; nullptr where nothing is clipped
  Bytes least_input_;                   // of an arena that operands come from
  Bytes stand_in_bytes_;

  StepValues step_;  // of the step being issued
  cudaEvent_t anchor_ = nullptr;
  Time anchor_time_;
  HostClock::time_point anchor_host_;       // the host's time at the anchor
  std::vector<cudaEvent_t> timing_events_;  // all of them
  std::vector<cudaEvent_t> free_timing_events_;
  std::deque<Timed> pending_;    // in order of issue
  std::uint64_t collected_ = 0;  // operations before those
  std::vector<StreamEnd> ends_;  // by stream
  std::vector<OperationTimes> times_;
  Progress* progress_ = nullptr;
  HostClock::time_point looked_;  // when CollectDone was last called

  bool capturing_ = false;
  cudaGraph_t graph_ = nullptr;
  std::deque<GraphInstance> instances_;
  bool failed_ = false;
};

}  // namespace stepcast::runtime::cuda
