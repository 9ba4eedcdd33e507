#include "src/lowering/training_step.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "src/base/check.h"
#include "src/base/stop.h"
#include "src/lowering/passes.h"
#include "src/plan/pipeline.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {

using program::Phase;

namespace {

Phase PhaseOf(parallel::Task task) {
  switch (task) {
    case parallel::Task::kForward:
      return Phase::kForward;
    case parallel::Task::kBackwardWeight:
      return Phase::kBackwardWeight;
    default:
      return Phase::kBackward;
  }
}

PipelineStage StageOfRank(const scenario::Scenario& scenario, const LowerOptions& options) {
  const int stage = plan::StageOf(scenario.plan, options.rank);
  if (options.schedule != nullptr) return {scenario, *options.schedule, stage};
  return {scenario, plan::ScheduleOf(scenario.plan), stage};
}

}  // namespace

TrainingStep::TrainingStep(const scenario::Scenario& scenario, const LowerOptions& options)
    : scenario_(scenario),
      options_(options),
      grids_(plan::GridsOf(scenario.plan)),
      stage_(StageOfRank(scenario, options)),
      builder_(options),
      loading_and_saving_(scenario, stage_, builder_),
      own_works_(options.works != nullptr
                     ? std::vector<model::LayerWork>()
                     : model::BuildWork(*scenario.model, plan::WorkOptionsOf(scenario.plan))),
      works_(options.works != nullptr ? *options.works : own_works_),
      work_of_layer_(stage_.WorkOfLayers(plan::WorkOptionsOf(scenario.plan))),
      offload_(builder_),
      groups_(grids_, program::Program::kComputeStream, builder_),
      messages_(MessagesOf(scenario, grids_, stage_, works_, options.rank), groups_, builder_),
      values_({.chunks = stage_.chunks_of_all(),
               .batch_part = plan::BatchPartOf(scenario.plan, options.rank),
               .one_word = !plan::AddsUpPartsOfTokens(scenario.plan)},
              builder_),
      scales_(scenario.plan, grids_, stage_.model(), builder_) {
  missing_.assign(model().tensors.size(), 0);
  contributed_.assign(model().tensors.size(), false);
  slot_of_pass_ = messages_.stage().slots;
  for (const int slot : slot_of_pass_) slots_ = std::max(slots_, slot + 1);
  const StreamId compute_stream = builder_.AddStream("compute");
  STEPCAST_CHECK(compute_stream == compute(), "the compute stream must be the first stream");
  lanes_ = {compute_stream};

  std::vector<const model::Layer*> sample(works_.size(), nullptr);
  for (std::size_t layer = model().layers.size(); layer-- > 0;) {
    sample[work_of_layer_[layer]] = &model().layers[layer];
  }
  std::size_t kernels = 0, saved = 0;
  for (const model::LayerWork& work : works_) {
    kernels += work.forward.size() + work.recompute.size() + work.backward.size();
    kernels += work.backward_input.operations.size() + work.backward_weight.operations.size();
  }
  for (const int work : work_of_layer_) saved += works_[work].Of(model::Lifetime::kSaved).size();
  builder_.ReserveKernels(2 * kernels);
  builder_.ReserveBuffers(saved + 4 * model().tensors.size() + 64);
  entries_.reserve(works_.size());
  for (std::size_t w = 0; w < works_.size(); ++w) AddWork(works_[w], sample[w]);
  AddLayers();
  AddTensors();
  FindLastPasses();
}

program::Program TrainingStep::Write(ShardingStrategy& strategy) {
  builder_.SetOptimizer(plan().training.optimizer != plan::Optimizer::kSgd);
  strategy.WritePrologue();
  if (!strategy.keeps_frozen() && !model().frozen.empty()) AllocateFrozen();
  for (const auto& [name, buffer] : registered_) builder_.Allocate(compute(), buffer);
  if (counts_at_host_ != program::kNone) builder_.Allocate(compute(), counts_at_host_);
  offload_.WritePrologue();
  inputs_ = AddInputs();
  messages_.WritePrologue(inputs_);
  values_.WritePrologue(slots_ * static_cast<int>(stage_.chunks().size()), communicates_,
                        plan().parallelism.splits_backward);
  scales_.WritePrologue(compute());
  const plan::HostWaits waits = plan().training.host_waits;
  if (waits == plan::HostWaits::kPhase || waits == plan::HostWaits::kLaunch) {
    for (StreamId stream = 0; stream < builder_.streams(); ++stream) {
      if (stream != compute() && messages_.CarriesBeside(stream)) continue;
      drained_.emplace_back(stream,
                            builder_.AddEvent({.first = builder_.AddNumbered("drained ", stream)}));
    }
  } else if (waits != plan::HostWaits::kNever) {
    drained_.emplace_back(compute(), builder_.AddEvent("read by the host"));
  }
  loading_and_saving_.WritePrologue(slots_);  // its streams are the host's
  FindReads(strategy);
  Reserve();
  builder_.BeginStep();
  if (waits == plan::HostWaits::kLaunch) {
    for (const auto& [stream, event] : drained_) builder_.WaitForLaunches(stream, event);
  }
  builder_.SetPhase(Phase::kForward);
  strategy.BeginStep();
  const auto write_parameter_passes = [&] {
    for (const auto& pass : stage_.parameter_passes(now_.pass)) strategy.WriteParameterPass(pass);
  };
  for (now_.pass = 0; now_.pass < stage_.passes().size(); ++now_.pass) {
    StopPoint();
    write_parameter_passes();
    if (stage_.begins_pair()[now_.pass] && HasTurns()) {
      WritePair(strategy);
    } else {
      WritePass(strategy);
    }
  }
  write_parameter_passes();
  WaitOnHost(plan::HostWaits::kUpdate);
  builder_.SetPhase(Phase::kOptimizer);
  builder_.SetLabel(builder_.AddLabel("optimizer"));
  strategy.WriteUpdate();
  loading_and_saving_.EndStep();
  builder_.SetLabel(program::kNone);
  WaitOnHost(plan::HostWaits::kStep);
  return builder_.Take();
}

void TrainingStep::WritePass(ShardingStrategy& strategy) {
  BeginPass(strategy);
  for (int place = 0; place < layers_of_pass(); ++place) WriteLayer(strategy, LayerAt(place));
  EndPass(strategy);
}

void TrainingStep::WritePair(ShardingStrategy& strategy) {
  // Values that the pass before left to the next kernel belong to the backward.
  PassProgress forward{.pass = now_.pass};
  PassProgress backward{.pass = now_.pass + 1, .pending = std::move(now_.pending)};
  now_ = forward;
  BeginPass(strategy);
  messages_.AwaitInput(now_.pass);
  SwitchTo(forward, backward);
  BeginPass(strategy);
  // Blocks are paired with blocks. Other layers run alone: those before the blocks first, the
  // others last.
  struct Blocks {
    int first = 0, end = 0;  // places
  };
  const auto blocks_of = [&] {
    const auto block = [&](int place) {
      return model().layers[LayerAt(place)].kind == model::LayerKind::kBlock;
    };
    Blocks blocks{.first = 0, .end = layers_of_pass()};
    while (blocks.first < blocks.end && !block(blocks.first)) ++blocks.first;
    while (blocks.end > blocks.first && !block(blocks.end - 1)) --blocks.end;
    return blocks;
  };
  const auto run_alone = [&](PassProgress& other, PassProgress& own, int first, int end) {
    if (first == end) return;
    if (now_.pass != own.pass) SwitchTo(other, own);
    for (int place = first; place < end; ++place) WriteLayer(strategy, LayerAt(place));
  };
  const Blocks of_backward = blocks_of();
  const int places_of_backward = layers_of_pass();
  SwitchTo(backward, forward);
  const Blocks of_forward = blocks_of();
  const int places_of_forward = layers_of_pass();
  run_alone(backward, forward, 0, of_forward.first);
  run_alone(forward, backward, 0, of_backward.first);
  const int together =
      std::min(of_forward.end - of_forward.first, of_backward.end - of_backward.first);
  for (int i = 0; i < together; ++i) {
    WriteTurns(strategy, forward, of_forward.first + i, backward, of_backward.first + i);
  }
  run_alone(backward, forward, of_forward.first + together, places_of_forward);
  run_alone(forward, backward, of_backward.first + together, places_of_backward);
  if (now_.pass != forward.pass) SwitchTo(backward, forward);
  EndPass(strategy);
  SwitchTo(forward, backward);
  EndPass(strategy);
  Pending& left = now_.pending;
  left.events.insert(left.events.end(), forward.pending.events.begin(),
                     forward.pending.events.end());
  left.buffers.insert(left.buffers.end(), forward.pending.buffers.begin(),
                      forward.pending.buffers.end());
}

void TrainingStep::SwitchTo(PassProgress& from, PassProgress& to) {
  now_.word = values_.present();
  from = std::move(now_);
  now_ = std::move(to);
  values_.SetPresent(now_.word);
  builder_.SetMicroBatch(now_.micro_batch);
  builder_.SetPhase(PhaseOf(task()));
}

void TrainingStep::WriteTurns(ShardingStrategy& strategy, PassProgress& forward, int forward_place,
                              PassProgress& backward, int backward_place) {
  const auto write = [&](PassProgress& other, PassProgress& own, int place, std::size_t turn) {
    if (now_.pass != own.pass) SwitchTo(other, own);
    const int layer = LayerAt(place);
    const std::size_t turns = EntriesOf(layer).turn_ends.size();
    if (turn < turns) WriteLayer(strategy, layer, turn);
    return turn + 1 < turns;
  };
  bool more = true;
  for (std::size_t turn = 0; more; ++turn) {
    more = write(forward, backward, backward_place, turn);
    more = write(backward, forward, forward_place, turn) || more;
  }
}

const TrainingStep::OperationEntries& TrainingStep::EntriesOf(int layer) const {
  const Work& entries = entries_[work_of(layer)];
  switch (task()) {
    case parallel::Task::kForward:
      return entries.forward;
    case parallel::Task::kBackward:
      return entries.backward;
    case parallel::Task::kBackwardInput:
      return entries.backward_input;
    case parallel::Task::kBackwardWeight:
      break;
  }
  return entries.backward_weight;
}

bool TrainingStep::HasTurns() const {
  for (int place = 0; place < layers_of_pass(); ++place) {
    if (EntriesOf(LayerAt(place)).turn_ends.size() > 1) return true;
  }
  return false;
}

void TrainingStep::WriteLayer(ShardingStrategy& strategy, int layer) {
  WriteTurn(strategy, layer, {.begin = 0, .end = EntriesOf(layer).turn_ends.back()});
}

void TrainingStep::WriteLayer(ShardingStrategy& strategy, int layer, std::size_t turn) {
  const std::vector<std::size_t>& ends = EntriesOf(layer).turn_ends;
  WriteTurn(strategy, layer, {.begin = turn == 0 ? 0 : ends[turn - 1], .end = ends[turn]});
}

void TrainingStep::WriteTurn(ShardingStrategy& strategy, int layer, Turn turn) {
  builder_.SetLabel(labels_[layer]);
  switch (task()) {
    case parallel::Task::kForward:
      return WriteForward(strategy, layer, turn);
    case parallel::Task::kBackwardWeight:
      return WriteWeights(strategy, layer, turn);
    default:
      return WriteBackward(strategy, layer, turn);
  }
}

void TrainingStep::BeginPass(ShardingStrategy& strategy) {
  now_.micro_batch = stage_.passes()[now_.pass].micro_batch;
  builder_.SetMicroBatch(now_.micro_batch);
  builder_.SetPhase(PhaseOf(task()));
  messages_.BeforePass(now_.pass);
  if (task() != parallel::Task::kForward) return BeginBackwardPass(strategy);
  // A micro-batch begins and ends with the stage's first chunk.
  if (chunk_index() == 0) {
    loading_and_saving_.BeginMicroBatch(now_.micro_batch, slot());
    strategy.BeginForward();
  }
  strategy.BeginPass();
}

void TrainingStep::BeginBackwardPass(ShardingStrategy& strategy) {
  strategy.BeginPass();
  now_.turned_back = false;
  // A chunk that holds only the embedding computes no gradient of inputs.
  const bool weights_alone = task() != parallel::Task::kBackward &&
                             std::all_of(work_of_layer_.begin() + chunk().first_layer,
                                         work_of_layer_.begin() + chunk().end_layer, [&](int work) {
                                           return works_[work].backward_input.operations.empty();
                                         });
  now_.begins_backward = task() != parallel::Task::kBackwardWeight || weights_alone;
  BeginGradients();
  now_.last_layer = chunk().first_layer;
  while (now_.last_layer + 1 < chunk().end_layer && BackwardOf(now_.last_layer).empty()) {
    ++now_.last_layer;
  }
}

void TrainingStep::EndPass(ShardingStrategy& strategy) {
  // After frozen layers a chunk may have only gradients of weights to compute, which come later.
  // The stage before still expects a message.
  const bool gives_gradient =
      task() == parallel::Task::kBackward || task() == parallel::Task::kBackwardInput;
  if (gives_gradient && !chunk().first && BackwardOf(now_.last_layer).empty()) {
    HandOn(strategy, now_.last_layer);
  }
  builder_.SetLabel(program::kNone);
  strategy.EndPass();
  messages_.AfterPass(now_.pass);
  if (task() == parallel::Task::kForward) {
    WaitOnHost(plan::HostWaits::kPhase);
    return;
  }
  if (ends_micro_batch_[now_.pass]) {
    strategy.EndBackward();
    WaitOnHost(plan::HostWaits::kMicroBatch);
  }
  if (chunk_index() == 0 && parallel::EndsBackward(task())) {
    loading_and_saving_.EndMicroBatch(slot());
  }
}

// Counts the contributions to come: those of the pass, plus one if another chunk of the stage also
// has the tensor and its pass of the micro-batch comes later.
void TrainingStep::BeginGradients() {
  for (int layer = chunk().first_layer; layer < chunk().end_layer; ++layer) {
    for (const int tensor : model().layers[layer].tensors) {
      missing_[tensor] = 0;
      contributed_[tensor] = false;
    }
  }
  for (int layer = chunk().first_layer; layer < chunk().end_layer; ++layer) {
    for (const int tensor : model().layers[layer].tensors) ++missing_[tensor];
  }
  if (stage_.chunks().size() == 1) return;
  for (std::size_t later = now_.pass + 1; later < stage_.passes().size(); ++later) {
    const parallel::Action& other = stage_.passes()[later];
    const std::size_t number = messages_.stage().chunk_of[later];
    if (other.micro_batch != now_.micro_batch || number == chunk_index() ||
        !parallel::EndsBackward(other.task)) {
      continue;
    }
    const PipelineStage::Chunk& of_other = stage_.chunks()[number];
    for (int layer = of_other.first_layer; layer < of_other.end_layer; ++layer) {
      for (const int tensor : model().layers[layer].tensors) {
        if (layers_of_tensor_[tensor] > 1) ++missing_[tensor];
      }
    }
  }
}

const std::vector<model::Operation>& TrainingStep::BackwardOf(int layer) const {
  const model::LayerWork& work = works_[work_of(layer)];
  if (task() == parallel::Task::kBackwardInput) return work.backward_input.operations;
  if (task() == parallel::Task::kBackwardWeight) return work.backward_weight.operations;
  return work.backward;
}

std::vector<std::vector<Index>> TrainingStep::AddInputs() {
  std::vector<std::vector<Index>> inputs;
  for (const PipelineStage::Chunk& chunk : stage_.chunks()) {
    std::vector<Index>& of_slots = inputs.emplace_back();
    if (chunk.first) continue;
    const int kept = works_[work_of(chunk.first_layer)].input;
    for (int slot = 0; slot < slots_; ++slot) {
      of_slots.push_back(
          kept != model::LayerWork::kNone
              ? Saved(slot, chunk.first_layer)[kept]
              : builder_.AddBuffer("activations received",
                                   messages_.stage().chunks[inputs.size() - 1].received,
                                   program::Category::kActivation));
    }
  }
  return inputs;
}

bool TrainingStep::ReceivesInto(int layer, int activation) const {
  return layer == chunk().first_layer && !chunk().first &&
         activation == works_[work_of(layer)].input;
}

Index TrainingStep::Received() const {
  if (chunk().first) return program::kNone;
  return inputs_[chunk_index()][static_cast<std::size_t>(slot())];
}

void TrainingStep::WriteOutput() {
  const Index sent = messages_.AllocateOutput(now_.pass);
  if (sent != program::kNone) builder_.Use(builder_.WritesAll(sent));
  values_.HandOn(sent);
}

void TrainingStep::BeginForward() {
  const Index received = Received();
  if (received != program::kNone) builder_.Use(builder_.ReadsAll(received));
  values_.BeginForward(chunk().number, word(), received);
}

void TrainingStep::BeginBackward() {
  const Index received = messages_.ReceivedGradient(now_.pass);
  if (received != program::kNone) builder_.Use(builder_.ReadsAll(received));
  values_.BeginBackward(chunk().number, received);
}

void TrainingStep::Reserve() {
  std::size_t instructions = 0, uses = 0;
  for (std::size_t layer = 0; layer < work_of_layer_.size(); ++layer) {
    const model::LayerWork& work = works_[work_of_layer_[layer]];
    const LayerReads& reads = layer_reads_[layer];
    const std::size_t kernels = work.forward.size() + work.recompute.size() + work.backward.size();
    const std::size_t activations =
        work.Of(model::Lifetime::kSaved).size() + work.Of(model::Lifetime::kRecomputed).size();
    const std::size_t parameters = reads.parameters - reads.first;
    // Instructions in addition to a collective: its waits, and the buffer of its result.
    std::size_t collectives = 0;
    for (const auto* pass : {&work.forward, &work.recompute, &work.backward}) {
      collectives += static_cast<std::size_t>(std::count_if(
          pass->begin(), pass->end(),
          [](const model::Operation& operation) { return operation.group.has_value(); }));
    }
    instructions += kernels + 8 * collectives + 2 * activations + 4 * parameters + 24;
    uses += 4 * (parameters + reads.activations) + 8 * parameters + 16;
  }
  const auto micro_batches = static_cast<std::size_t>(plan().training.gradient_accumulation);
  const std::size_t tensors = model().tensors.size();
  // Frameworks add instructions of their own. Reserved entries that are never written take no
  // memory.
  builder_.ReserveStep(2 * micro_batches * instructions + 12 * tensors + 64);
  builder_.ReserveUses(micro_batches * uses + 8 * tensors + 64);
}

void TrainingStep::WaitOnHost(plan::HostWaits where) {
  const plan::HostWaits waits = plan().training.host_waits;
  // A phase ends after each forward, each backward and the update.
  const bool phase = waits == plan::HostWaits::kPhase && where != plan::HostWaits::kUpdate;
  if (waits != where && !phase) return;
  for (const auto& [stream, event] : drained_) builder_.Record(stream, event);
  for (const auto& [stream, event] : drained_) builder_.HostWait(event);
}

void TrainingStep::WithGradient(int tensor, std::int64_t first, std::int64_t elements,
                                const program::Elements& target, const program::Elements& source,
                                bool add) {
  if (!builder_.describes_data_flow()) return;
  builder_.Use(Reads(source.buffer, source.offset, BytesOf(elements, source.type)));
  const program::Elements seed = values_.seed();
  if (seed.buffer != program::kNone) builder_.Use(Reads(seed.buffer, seed.offset, Bytes(4)));
  builder_.With({.kind = program::EffectKind::kGradient,
                 .add = add,
                 .target = target,
                 .source = source,
                 .states = seed,
                 .elements = elements,
                 .first_element = first_element(tensor) + first,
                 .scale = 1.0 / static_cast<double>(plan().training.gradient_accumulation)});
}

void TrainingStep::UseReads(std::size_t first, std::size_t end) {
  builder_.UseAll(std::span(reads_).subspan(first, end - first));
}

void TrainingStep::WriteForward(ShardingStrategy& strategy, int layer, Turn turn) {
  const model::LayerWork& work = works_[work_of(layer)];
  const Work& entries = entries_[work_of(layer)];
  if (turn.begin == 0) {
    strategy.BeforeForward(layer);
    for (const Index buffer : entries.forward_transient) builder_.Allocate(compute(), buffer);
  }
  RunLayer(strategy, ShardingStrategy::Pass::kForward, layer, entries.forward, work.forward, turn);
  if (turn.end < work.forward.size()) return;
  for (const Index buffer : entries.forward_transient) builder_.Release(buffer);
  const bool keeps = work.input != model::LayerWork::kNone;
  if (layer == chunk().first_layer && Received() != program::kNone && !keeps) {
    builder_.Release(Received());
  }
  scales_.AfterLayer(compute(), task(), layer, chunk().first_layer, chunk().end_layer);
  offload_.AfterForward(layer);
  strategy.AfterForward(layer);
}

void TrainingStep::WriteBackward(ShardingStrategy& strategy, int layer, Turn turn) {
  const Work& entries = entries_[work_of(layer)];
  const bool whole = task() == parallel::Task::kBackward;
  if (turn.begin == 0) BeginLayerBackward(strategy, layer);
  RunLayer(strategy, ShardingStrategy::Pass::kBackward, layer,
           whole ? entries.backward : entries.backward_input, BackwardOf(layer), turn);
  if (turn.end == BackwardOf(layer).size()) EndLayerBackward(strategy, layer);
}

void TrainingStep::BeginLayerBackward(ShardingStrategy& strategy, int layer) {
  const Work& entries = entries_[work_of(layer)];
  const bool whole = task() == parallel::Task::kBackward;
  const bool from_stage = layer + 1 == chunk().end_layer;
  strategy.BeforeBackward(layer);
  offload_.BeforeBackward(layer);
  // Autograd recomputes once the gradient of the output has arrived.
  if (from_stage && now_.begins_backward && !BackwardOf(layer).empty()) {
    messages_.AwaitInput(now_.pass);
  }
  Recompute(strategy, layer);
  for (const Index buffer : whole ? entries.backward_transient : entries.input_transient) {
    builder_.Allocate(compute(), buffer);
  }
  if (whole) BeginContributions(layer);
}

void TrainingStep::EndLayerBackward(ShardingStrategy& strategy, int layer) {
  const model::LayerWork& work = works_[work_of(layer)];
  const Work& entries = entries_[work_of(layer)];
  const bool whole = task() == parallel::Task::kBackward;
  const bool from_stage = layer + 1 == chunk().end_layer;
  if (whole) EndContributions();
  for (const Index buffer : whole ? entries.backward_transient : entries.input_transient) {
    builder_.Release(buffer);
  }
  const bool keeps_gradient = !whole && work.defers_gradient_of_output;
  const Index handed_back = HandedBack(layer);
  if (handed_back != program::kNone && !from_stage && !keeps_gradient) {
    builder_.Release(handed_back);
  }
  for (const Index buffer : Recomputed(layer)) builder_.Release(buffer);
  const Entries& buffers = Saved(slot(), layer);
  const std::vector<model::LayerValue>& saved = work.Of(model::Lifetime::kSaved);
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if (whole || !saved[i].for_weights) builder_.Release(buffers[i]);
  }
  if (from_stage) {
    // A chunk with only an embedding may have no backward here, because it only has gradients of
    // weights, which come later, or because it is frozen. The message to it has to be received all
    // the same.
    if (now_.begins_backward && BackwardOf(layer).empty()) messages_.AwaitInput(now_.pass);
    if (!keeps_gradient) messages_.ReleaseReceivedGradient(now_.pass);
  }
  scales_.AfterLayer(compute(), task(), layer, chunk().first_layer, chunk().end_layer);
  strategy.AfterBackward(layer);
}

void TrainingStep::Recompute(ShardingStrategy& strategy, int layer) {
  const auto continues = [&](int other) {
    return other < chunk().end_layer && works_[work_of(other)].continues_checkpoint;
  };
  if (continues(layer + 1)) return;  // with the checkpoint's last
  int first = layer;
  while (continues(first)) --first;
  for (int again = first; again <= layer; ++again) {
    builder_.SetLabel(labels_[again]);
    RunLayer(strategy, ShardingStrategy::Pass::kRecompute, again,
             entries_[work_of(again)].recompute, works_[work_of(again)].recompute,
             {.begin = 0, .end = works_[work_of(again)].recompute.size()});
  }
}

Entries TrainingStep::DeferredHere(int slot, int layer) const {
  const Entries& deferred = Deferred(slot, layer);
  const bool from_outside =
      std::any_of(stage_.chunks().begin(), stage_.chunks().end(),
                  [&](const PipelineStage::Chunk& chunk) { return layer + 1 == chunk.end_layer; });
  const bool first = from_outside && works_[work_of(layer)].defers_gradient_of_output;
  return Entries(*deferred.begin() + (first ? 1 : 0), *deferred.end());
}

Index TrainingStep::ReceivedForWeights(int layer) const {
  const bool from_stage = layer + 1 == chunk().end_layer;
  if (!from_stage || !works_[work_of(layer)].defers_gradient_of_output) return program::kNone;
  return messages_.ReceivedGradient(now_.pass);
}

void TrainingStep::WriteWeights(ShardingStrategy& strategy, int layer, Turn turn) {
  const model::LayerWork& work = works_[work_of(layer)];
  const Work& entries = entries_[work_of(layer)];
  strategy.BeforeBackward(layer);
  for (const Index buffer : entries.weight_transient) builder_.Allocate(compute(), buffer);
  BeginContributions(layer);
  RunLayer(strategy, ShardingStrategy::Pass::kBackward, layer, entries.backward_weight,
           work.backward_weight.operations, turn);
  EndContributions();
  for (const Index buffer : entries.weight_transient) builder_.Release(buffer);
  for (const Index buffer : DeferredHere(slot(), layer)) builder_.Release(buffer);
  if (ReceivedForWeights(layer) != program::kNone) messages_.ReleaseReceivedGradient(now_.pass);
  const std::vector<model::LayerValue>& saved = work.Of(model::Lifetime::kSaved);
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if (saved[i].for_weights) builder_.Release(Saved(slot(), layer)[i]);
  }
  strategy.AfterBackward(layer);
}

// This layer's contribution to a tied tensor, until it is added to the others'.
void TrainingStep::BeginContributions(int layer) {
  contributions_.clear();
  for (const int tensor : model().layers[layer].tensors) {
    if (!contributed_[tensor]) continue;
    contributions_.push_back(tied_contribution_[tensor]);
    builder_.Allocate(compute(), contributions_.back());
  }
}

void TrainingStep::EndContributions() {
  for (const Index buffer : contributions_) builder_.Release(buffer);
}

}  // namespace stepcast::lowering
