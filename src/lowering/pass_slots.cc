#include <algorithm>
#include <cstddef>

#include "src/lowering/passes.h"
#include "src/parallel/axis.h"
#include "src/plan/framework_style.h"
#include "src/plan/pipeline.h"
#include "src/plan/plan.h"

namespace stepcast::lowering {
namespace {

// Allocates slot numbers for values that live from one pass to another; a number in use is not
// reused.
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

// For each pass of the stage, the pass that takes its output.
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

// Exchanges of stages whose messages do not overlap.
//  * Megatron-LM (core/pipeline_parallel/schedules.py): with one chunk per stage, a send is joined
//    with a receive only between a forward and a backward. With several chunks, a batch after each
//    pass sends its output and receives for the next pass; in the steady phase, the batch after
//    each backward receives for the next forward and the next backward.
//  * nanotron (parallel/pipeline_parallel/state.py): the same. After each message the host reads
//    its metadata, which is not modeled.
//  * DeepSpeed (deepspeed/runtime/pipe/schedule.py, TrainSchedule): one message at a time. Between
//    a forward and the following backward, the gradient is received first.
//  * PyTorch (torch/distributed/pipelining/schedules.py, Schedule1F1B, ScheduleGPipe): like
//    Megatron-LM with one chunk per stage.
void FindExchanges(const PipelineStage& stage, bool batches, StageMessages::Stage& messages) {
  const std::vector<parallel::Action>& passes = stage.passes();
  const auto forward = [&](std::size_t pass) {
    return passes[pass].task == parallel::Task::kForward;
  };
  const auto turns = [&](std::size_t pass) {
    return pass + 1 < passes.size() && forward(pass) != forward(pass + 1);
  };
  const std::size_t forwards = passes.size() / 2;
  const auto chunks = static_cast<int>(stage.chunks().size());
  const int before_steady =
      2 * (stage.stages() - stage.stage() - 1) + (chunks - 1) * stage.stages();
  const std::size_t warm_up = std::min(static_cast<std::size_t>(before_steady), forwards);
  for (std::size_t pass = 0; pass < passes.size(); ++pass) {
    const auto is_steady = [&](std::size_t other) {
      return other >= warm_up && other + warm_up < passes.size();
    };
    ExchangesBehind behind = ExchangesBehind::kTogether;
    std::size_t ahead = 1;
    if (!batches) {
      // With fewer micro-batches than stages after this one, its backwards begin some steps later.
      const bool at_once = passes[pass].micro_batch >= stage.stages() - stage.stage() - 1;
      behind = forward(pass) && turns(pass) && at_once ? ExchangesBehind::kReceiveFirst
                                                       : ExchangesBehind::kApart;
    } else if (chunks == 1) {
      if (!turns(pass)) behind = ExchangesBehind::kApart;
    } else if (is_steady(pass) && forward(pass)) {
      behind = ExchangesBehind::kNone;
      ahead = 0;
    } else if (is_steady(pass + 1) && forward(pass + 1)) {
      ahead = 2;
    } else if (forward(pass) && turns(pass)) {
      behind = ExchangesBehind::kApart;  // there is nothing between warm-up and cool-down
    }
    messages.behind.push_back(behind);
    messages.posted.push_back(std::min(pass + 1 + ahead, passes.size()));
  }
}

// Assigns slots to the passes' activations, by chunk, and to the gradients that backwards receive.
// A slot is taken when its receive is posted, or when another chunk of the stage produces the data.
void FindSlots(const PipelineStage& stage, StageMessages::Stage& messages) {
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
    if (messages.stages > 1 && messages.style == MessageStyle::kOverlapped) take(pass + 1);
    if (messages.takers[pass] != StageMessages::Stage::kNoPass) take(messages.takers[pass]);
    OfChunk& chunk = chunks[messages.chunk_of[pass]];
    if (parallel::EndsBackward(passes[pass].task)) {
      chunk.activations.Free(messages.slots[pass]);
      chunk.gradients.Free(messages.gradient_slots[pass]);
    }
    if (messages.posted.empty()) continue;
    for (std::size_t next = pass + 1; next < messages.posted[pass]; ++next) take(next);
  }
}

MessageStyle StyleOf(const plan::Plan& plan) {
  const plan::Framework framework = plan.data_parallel.framework;
  if (plan::StyleOf(framework).engine == plan::PipelineEngine::kTorch) {
    return plan::RunsListedActions(plan) ? MessageStyle::kOverlapped : MessageStyle::kBlocking;
  }
  const bool blocks =
      plan::TraitsOf(framework).blocking_messages && !plan.data_parallel.overlap_p2p_comm;
  return blocks ? MessageStyle::kBlocking : MessageStyle::kOverlapped;
}

}  // namespace

StageMessages::Stage MessagesOf(const scenario::Scenario& scenario, const parallel::Grids& grids,
                                const PipelineStage& stage,
                                const std::vector<model::LayerWork>& works, int rank) {
  const MessageStyle style = StyleOf(scenario.plan);
  StageMessages::Stage messages{.stage = stage.stage(),
                                .stages = stage.stages(),
                                .pipeline = grids.Layout(parallel::Axis::kPipeline),
                                .style = style,
                                .type = plan::ComputeType(scenario.plan.training.precision),
                                .passes = stage.passes(),
                                .begins_pair = stage.begins_pair()};
  for (const parallel::Action& pass : stage.passes()) {
    messages.chunk_of.push_back(stage.chunk_of(pass));
  }
  messages.takers = TakersOf(stage);
  const plan::PipelineEngine engine = plan::StyleOf(scenario.plan.data_parallel.framework).engine;
  const bool deepspeed = engine == plan::PipelineEngine::kDeepSpeed;
  if (stage.stages() > 1 && style == MessageStyle::kBlocking) {
    FindExchanges(stage, !deepspeed, messages);
  }
  const bool pytorch = engine == plan::PipelineEngine::kTorch;
  messages.sends_beside = pytorch;
  messages.in_pairs = deepspeed;
  if (deepspeed) {
    messages.host_waits = MessageWaits::kGathered;
  } else if (pytorch || !scenario.plan.data_parallel.batch_p2p_sync) {
    messages.host_waits = MessageWaits::kNever;
  }
  if (deepspeed || scenario.plan.data_parallel.scatter_gather_tensors_in_pipeline) {
    const parallel::RankGrid& grid = grids.dense();
    messages.parts = grid.Degree(parallel::Axis::kTensor);
    messages.own_part = grid.At(rank)[static_cast<std::size_t>(parallel::Axis::kTensor)];
  }
  FindSlots(stage, messages);
  // A chunk sends the output of its last layer. The first works are those of the embedding, a block
  // and the head (model::VariantsOf). All blocks have the same output.
  const auto output = [&](const model::Layer& layer) {
    const int work =
        stage.whole_model().is_layer_list() ? layer.listed : static_cast<int>(layer.kind);
    return works[static_cast<std::size_t>(work)].output;
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
