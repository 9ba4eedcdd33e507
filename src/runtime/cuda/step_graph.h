#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "src/runtime/cuda/operation_clock.h"
#include "src/runtime/device.h"

// A captured step as a CUDA graph with two instances. The two instances record times in different
// events, so that the times of one replay can be read while the next replay runs.
namespace stepcast::runtime::cuda {

class StepGraph {
 public:
  // A function that waits until `done` returns success, and returns a failure if the wait fails.
  using Wait =
      std::function<Attempt<void>(const std::function<cudaError_t()>& done, const char* doing)>;

  // Takes ownership of `graph`. `clock` must outlive the object.
  StepGraph(cudaGraph_t graph, OperationClock& clock, Wait wait)
      : graph_(graph), clock_(clock), wait_(std::move(wait)) {}
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;
  // Releases the graph. A running replay continues, and its resources are freed when it ends.
  ~StepGraph();

  // Creates the two instances. Call this function once, before any other. `operations` is the
  // result of EndCapture.
  Attempt<void> Instantiate(const std::vector<OperationClock::Timed>& operations);
  // Enqueues the work of `prepare` and then the step. `stream` must be the stream on which the
  // capture began.
  Attempt<void> Replay(std::uint32_t step, const std::function<Attempt<void>()>& prepare,
                       cudaStream_t stream);
  // Collects the times of all replays, in the order of the replays.
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
