#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "src/runtime/cuda/operation_clock.h"
#include "src/runtime/device.h"

// A captured step as a CUDA graph in two instances, which record their times in different events:
// one replay's are read while the next runs.
namespace stepcast::runtime::cuda {

class StepGraph {
 public:
  // Returns when the query does, or with a failure.
  using Wait =
      std::function<Attempt<void>(const std::function<cudaError_t()>& done, const char* doing)>;

  // Takes `graph` over. `clock` outlives it.
  StepGraph(cudaGraph_t graph, OperationClock& clock, Wait wait)
      : graph_(graph), clock_(clock), wait_(std::move(wait)) {}
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;
  // A replay that runs goes on and is freed at its end.
  ~StepGraph();

  // To be called first, once: `operations` are those of the capture.
  Attempt<void> Instantiate(const std::vector<OperationClock::Timed>& operations);
  // Enqueues what `prepare` does and the step, on the stream that the capture began on.
  Attempt<void> Replay(std::uint32_t step, const std::function<Attempt<void>()>& prepare,
                       cudaStream_t stream);
  // Takes the times of all replays, the earlier first.
  Attempt<void> Collect();

 private:
  struct Instance {
    cudaGraphExec_t exec = nullptr;
    std::vector<OperationClock::Timed> operations{};
    cudaEvent_t done = nullptr;
    bool in_flight = false;
    std::uint32_t step = 0;
  };

  Attempt<void> Make(Instance& instance, const std::vector<OperationClock::Timed>& operations,
                     bool own_events);
  Attempt<void> Collect(Instance& instance);

  cudaGraph_t graph_;
  OperationClock& clock_;
  Wait wait_;
  std::deque<Instance> instances_;
};

}  // namespace stepcast::runtime::cuda
