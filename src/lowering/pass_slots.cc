#include "src/lowering/pass_slots.h"

#include <algorithm>
#include <cstddef>

#include "src/parallel/axis.h"
#include "src/plan/plan.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {
namespace {

// Numbers of what lives from one pass to another, none of which is given twice at a time.
class Slots {
 public:
  int Take() {
    const auto free = std::find(taken_.begin(), taken_.end(), false);
    const auto slot = static_cast<int>(free - taken_.begin());
    if (free == taken_.end()) taken_.push_back(false);
    taken_[static_cast<std::size_t>(slot)] = true;
    return slot;
  }
  void Free(int slot) { taken_[static_cast<std::size_t>(slot)] = false; }

 private:
  std::vector<bool> taken_;
};

// Which pass of the stage takes what each pass makes.
std::vector<std::size_t> TakersOf(const PipelineStage& stage) {
  const std::vector<parallel::Action>& passes = stage.passes();
  std::vector<std::size_t> takers(passes.size(), StageMessages::Stage::kNoPass);
  for (const PipelineStage::Chunk& chunk : stage.chunks()) {
    if (chunk.last || chunk.behind != stage.stage()) continue;
    for (std::size_t pass = 0; pass < passes.size(); ++pass) {
      const bool forward = passes[pass].task == parallel::Task::kForward;
      if (passes[pass].task == parallel::Task::kBackwardWeight) continue;
      if (passes[pass].chunk != chunk.number + (forward ? 0 : 1)) continue;
      const auto taker = std::find_if(passes.begin(), passes.end(), [&](const auto& other) {
        return other.micro_batch == passes[pass].micro_batch &&
               other.chunk == chunk.number + (forward ? 1 : 0) &&
               other.task != parallel::Task::kBackwardWeight &&
               (other.task == parallel::Task::kForward) == forward;
      });
      takers[pass] = static_cast<std::size_t>(taker - passes.begin());
    }
  }
  return takers;
}

// Slots of the passes' activations, by chunk, and of the gradients that backwards receive. Where a
// receive is posted a pass ahead, its slot is taken then; what another chunk of the stage makes,
// when it is made.
void FindSlots(const PipelineStage& stage, bool ahead, StageMessages::Stage& messages) {
  const std::vector<parallel::Action>& passes = stage.passes();
  messages.slots.assign(passes.size(), -1);
  messages.gradient_slots.assign(passes.size(), -1);
  struct OfChunk {
    std::vector<int> slot_of, gradient_of;  // [micro-batch]
    Slots activations, gradients;
  };
  std::vector<OfChunk> chunks(stage.chunks().size());
  const auto take = [&](std::size_t pass) {
    if (pass >= passes.size() || messages.slots[pass] >= 0) return;
    OfChunk& chunk = chunks[messages.chunk_of[pass]];
    const auto micro_batch = static_cast<std::size_t>(passes[pass].micro_batch);
    for (std::vector<int>* of : {&chunk.slot_of, &chunk.gradient_of}) {
      of->resize(std::max(of->size(), micro_batch + 1), -1);
    }
    if (passes[pass].task == parallel::Task::kForward) {
      chunk.slot_of[micro_batch] = chunk.activations.Take();
    } else {
      int& gradient = chunk.gradient_of[micro_batch];
      if (passes[pass].task != parallel::Task::kBackwardWeight) gradient = chunk.gradients.Take();
      messages.gradient_slots[pass] = gradient;
    }
    messages.slots[pass] = chunk.slot_of[micro_batch];
  };
  for (std::size_t pass = 0; pass < passes.size(); ++pass) {
    take(pass);
    if (ahead) take(pass + 1);
    if (messages.takers[pass] != StageMessages::Stage::kNoPass) take(messages.takers[pass]);
    OfChunk& chunk = chunks[messages.chunk_of[pass]];
    if (!parallel::EndsBackward(passes[pass].task)) continue;
    chunk.activations.Free(messages.slots[pass]);
    chunk.gradients.Free(messages.gradient_slots[pass]);
  }
}

// Where stages have several chunks, messages run beside passes (Megatron-LM's overlap_p2p_comm).
MessageStyle StyleOf(const plan::Plan& plan) {
  const bool blocks = plan::TraitsOf(plan.data_parallel.framework).blocking_messages &&
                      plan.parallelism.virtual_stages == 1;
  return blocks ? MessageStyle::kBlocking : MessageStyle::kOverlapped;
}

}  // namespace

StageMessages::Stage MessagesOf(const scenario::Scenario& scenario, const PipelineStage& stage,
                                const std::vector<model::LayerWork>& works) {
  const MessageStyle style = StyleOf(scenario.plan);
  StageMessages::Stage messages{
      .stage = stage.stage(),
      .stages = stage.stages(),
      .pipeline = plan::GridOf(scenario.plan).Layout(parallel::Axis::kPipeline),
      .style = style,
      .type = plan::ComputeType(scenario.plan.training.precision),
      .passes = stage.passes()};
  for (const parallel::Action& pass : stage.passes()) {
    messages.chunk_of.push_back(stage.chunk_of(pass));
  }
  messages.takers = TakersOf(stage);
  FindSlots(stage, stage.stages() > 1 && style == MessageStyle::kOverlapped, messages);
  // What a chunk hands on is what its last layer makes.
  const auto output = [&](const model::Layer& layer) {
    return works[static_cast<std::size_t>(layer.work)].output;
  };
  for (const PipelineStage::Chunk& chunk : stage.chunks()) {
    StageMessages::Stage::Chunk& own = messages.chunks.emplace_back(StageMessages::Stage::Chunk{
        .first = chunk.first, .last = chunk.last, .before = chunk.before, .behind = chunk.behind});
    if (!chunk.first) own.received = output(stage.layer_before(chunk));
    const auto last = static_cast<std::size_t>(chunk.end_layer) - 1;
    if (!chunk.last) own.sent = output(stage.model().layers[last]);
  }
  return messages;
}

}  // namespace stepcast::lowering
