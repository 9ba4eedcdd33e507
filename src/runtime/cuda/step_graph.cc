#include "src/runtime/cuda/step_graph.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "src/base/check.h"
#include "src/runtime/cuda/failure.h"

namespace stepcast::runtime::cuda {

StepGraph::~StepGraph() {
  for (Instance& instance : instances_) {
    if (instance.exec != nullptr) cudaGraphExecDestroy(instance.exec);
    if (instance.done != nullptr) cudaEventDestroy(instance.done);
  }
  cudaGraphDestroy(graph_);
}

Attempt<void> StepGraph::Instantiate(const std::vector<OperationClock::Timed>& operations) {
  for (const bool own_events : {false, true}) {
    // Stored before it is made, so that a partial instance is freed too.
    STEPCAST_TRY(Make(instances_.emplace_back(), operations, own_events));
  }
  return {};
}

Attempt<void> StepGraph::Make(Instance& instance,
                              const std::vector<OperationClock::Timed>& operations,
                              bool own_events) {
  const char* doing = "instantiating the graph of a step";
  STEPCAST_TRY(Check(cudaEventCreateWithFlags(&instance.done, cudaEventDisableTiming), doing));
  STEPCAST_TRY(Check(cudaGraphInstantiate(&instance.exec, graph_, 0), doing));
  instance.operations = operations;
  if (!own_events) return {};

  std::size_t count = 0;
  STEPCAST_TRY(Check(cudaGraphGetNodes(graph_, nullptr, &count), doing));
  std::vector<cudaGraphNode_t> nodes(count);
  STEPCAST_TRY(Check(cudaGraphGetNodes(graph_, nodes.data(), &count), doing));
  std::map<cudaEvent_t, cudaEvent_t> own;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    STEPCAST_TRY(Check(cudaGraphNodeGetType(node, &type), doing));
    if (type != cudaGraphNodeTypeEventRecord) continue;
    cudaEvent_t event = nullptr;
    STEPCAST_TRY(Check(cudaGraphEventRecordNodeGetEvent(node, &event), doing));
    STEPCAST_TAKE(cudaEvent_t taken, clock_.TakeEvent());
    own[event] = taken;
    STEPCAST_TRY(Check(cudaGraphExecEventRecordNodeSetEvent(instance.exec, node, taken), doing));
  }
  for (OperationClock::Timed& timed : instance.operations) {
    for (cudaEvent_t* event : {&timed.ready, &timed.start, &timed.end}) {
      const auto found = own.find(*event);
      STEPCAST_CHECK(found != own.end(),
                     "every event that a graph records must be a node of the graph");
      *event = found->second;
    }
  }
  return {};
}

Attempt<void> StepGraph::Replay(std::uint32_t step, const std::function<Attempt<void>()>& prepare,
                                cudaStream_t stream) {
  // Use the instance that ran before the last one.
  instances_.push_back(std::move(instances_.front()));
  instances_.pop_front();
  Instance& instance = instances_.back();
  STEPCAST_TRY(Collect(instance));
  STEPCAST_TRY(prepare());
  const char* doing = "replaying a step";
  STEPCAST_TRY(Check(cudaGraphLaunch(instance.exec, stream), doing));
  STEPCAST_TRY(Check(cudaEventRecord(instance.done, stream), doing));
  instance.in_flight = true;
  instance.step = step;
  return {};
}

Attempt<void> StepGraph::Collect() {
  std::vector<Instance*> in_order;
  for (Instance& instance : instances_) in_order.push_back(&instance);
  std::sort(in_order.begin(), in_order.end(),
            [](const auto* a, const auto* b) { return a->step < b->step; });
  for (Instance* instance : in_order) STEPCAST_TRY(Collect(*instance));
  return {};
}

Attempt<void> StepGraph::Collect(Instance& instance) {
  if (!instance.in_flight) return {};
  STEPCAST_TRY(wait_([&] { return cudaEventQuery(instance.done); }, "waiting for a replay"));
  for (OperationClock::Timed& timed : instance.operations) {
    timed.operation.step = instance.step;
    STEPCAST_TRY(clock_.Collect(timed));
  }
  clock_.CountReplay(instance.operations.size(), instance.step);
  instance.in_flight = false;
  return {};
}

}  // namespace stepcast::runtime::cuda
