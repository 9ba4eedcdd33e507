// Writes a layer's operation list: the kernels, collectives and waits of one pass.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>

#include "src/lowering/training_step.h"
#include "src/plan/plan.h"

namespace stepcast::lowering {

Index TrainingStep::BufferOf(model::ValueId value, int layer) const {
  const Work& entries = entries_[work_of(layer)];
  switch (value.lifetime) {
    case model::Lifetime::kSaved:
      return Saved(slot(), layer)[value.index];
    case model::Lifetime::kRecomputed:
      return Recomputed(layer)[value.index];
    case model::Lifetime::kCommunicated:
      return entries.communicated[static_cast<std::size_t>(value.index)];
    case model::Lifetime::kDeferred:
      return Deferred(slot(), layer)[value.index];
    case model::Lifetime::kHandedBack:
      break;
  }
  const bool from_stage = layer + 1 == chunk().end_layer;
  return from_stage ? messages_.ReceivedGradient(now_.pass) : HandedBack(layer);
}

Index TrainingStep::HandedBack(int layer) const {
  const int work = work_of(layer);
  if (task() != parallel::Task::kBackward && works_[work].defers_gradient_of_output) {
    return Deferred(slot(), layer)[0];
  }
  return entries_[work].handed_back[layer % 2];
}

void TrainingStep::RunLayer(ShardingStrategy& strategy, ShardingStrategy::Pass pass, int layer,
                            const OperationEntries& entries,
                            const std::vector<model::Operation>& operations, Turn turn) {
  const bool forward = pass == ShardingStrategy::Pass::kForward;
  const bool weights = task() == parallel::Task::kBackwardWeight;
  const bool own_backward = pass == ShardingStrategy::Pass::kBackward;
  const bool backward = own_backward && !weights;
  const bool ends = forward ? layer + 1 == chunk().end_layer : backward && layer == now_.last_layer;
  const ListRun run{
      .strategy = strategy,
      .pass = pass,
      .layer = layer,
      .entries = entries,
      .operations = operations,
      .forward = forward,
      .weights = weights,
      .backward = backward,
      .begins = forward ? layer == chunk().first_layer
                        : own_backward && now_.begins_backward && layer + 1 == chunk().end_layer,
      .ends = ends,
      .hands_on = ends && !entries.unreleased.empty() && !(forward ? chunk().last : chunk().first),
      .passing_by = TemporariesOf(pass, layer)};
  const bool follows = strategy.follows_operators();
  for (std::size_t i = turn.begin; i < turn.end; ++i) {
    if (follows) strategy.BeforeOperator(pass, layer, i);
    if (const std::size_t end = follows ? i : entries.plain_end[i]; end > i) {
      builder_.Run(compute(), std::span(entries.kernels).subspan(i, end - i));
      i = end - 1;
      continue;
    }
    const model::Operation& operation = operations[i];
    if (operation.host_waits_for != model::Operation::kNoWait) {
      AwaitOnHost(entries.HostEvent(static_cast<std::size_t>(operation.host_waits_for)));
    }
    if (run.begins && forward && i == 0) messages_.AwaitInput(now_.pass);
    BeginLives(pass, layer, operation);
    if (operation.group) {
      for (const int waited : operation.waits) {
        builder_.Wait(entries.groups[i].stream, entries.groups[waited].done);
      }
      groups_.Issue(entries.groups[i], *operation.group,
                    BufferOf(operation.group->source.value, layer),
                    BufferOf(operation.group->target.value, layer));
    } else {
      WriteKernel(run, i);
    }
    if (follows) strategy.AfterOperator(pass, layer, i);
  }
  if (turn.end < operations.size()) return;
  for (const int group : entries.unfinished) {
    now_.pending.events.push_back(entries.groups[group].done);
  }
  for (const model::ValueUse& use : entries.unreleased) {
    now_.pending.buffers.emplace_back(BufferOf(use.value, layer), use);
  }
  if (run.hands_on) HandOn(strategy, layer);
}

void TrainingStep::WriteKernel(const ListRun& run, std::size_t i) {
  const OperationEntries& entries = run.entries;
  const model::Operation& operation = run.operations[i];
  const StreamId stream = lanes_[operation.lane];
  for (const int waited : operation.waits) {
    builder_.Wait(stream, entries.Done(static_cast<std::size_t>(waited)));
    // Values that one lane has made for the other are among the temporaries.
    if (run.passing_by != program::kNone &&
        entries.LaneEvent(static_cast<std::size_t>(waited)) != program::kNone) {
      builder_.Use(builder_.ReadsAll(run.passing_by));
    }
  }
  const Index joined = entries.LaneEvent(i);
  if (run.passing_by != program::kNone && joined != program::kNone) {
    builder_.Use(builder_.WritesAll(run.passing_by));
  }
  if (i == entries.first_kernel || i == entries.last_kernel || i == entries.first_beside) {
    UseWhatTheLayerReads(run);
  }
  if (!run.forward && !now_.turned_back) {
    now_.turned_back = true;
    if (!now_.begins_backward) {
      values_.ContinueBackward(word());
    } else {
      values_.TurnBack(chunk().number, word());
    }
  }
  if (run.begins && i == entries.first_kernel) run.forward ? BeginForward() : BeginBackward();
  TakePending();
  for (const model::ValueUse& use : operation.uses) {
    const Index buffer = BufferOf(use.value, run.layer);
    builder_.Use(groups_.RangeOf(use, buffer, use.write));
    if (!use.write) values_.Take(use, buffer);
  }
  for (const model::ValueUse& use : operation.uses) {
    if (use.write) values_.Give(use, BufferOf(use.value, run.layer));
  }
  if (run.backward && i == entries.last_kernel) HandBack(run.layer - 1);
  if (run.ends && i == entries.last_kernel && !run.hands_on) WriteOutput();
  const Index awaited = entries.HostEvent(i);
  if (awaited != program::kNone) builder_.Use(builder_.WritesAll(counts_at_host_));
  RunKernel(run.strategy, run.layer, operation, entries.kernels[i]);
  if (awaited != program::kNone) builder_.Record(compute(), awaited);
  if (joined != program::kNone) builder_.Record(stream, joined);
  for (const model::ValueId value : operation.ends) builder_.Release(BufferOf(value, run.layer));
}

// The first and the last kernel name the parameters and, in backward, the kept values. Together
// with stream order, this lets the validator see every hazard of the layer.
void TrainingStep::UseWhatTheLayerReads(const ListRun& run) {
  const LayerReads& reads = layer_reads_[run.layer];
  UseReads(reads.first, reads.parameters);
  if (run.backward) {
    const std::size_t kept =
        reads.parameters + static_cast<std::size_t>(slot()) * reads.activations;
    UseReads(kept, kept + reads.activations);
  }
  if (run.weights) {
    const std::size_t left = reads.weights + static_cast<std::size_t>(slot()) * reads.left;
    UseReads(left, left + reads.left);
    if (const Index received = ReceivedForWeights(run.layer); received != program::kNone) {
      builder_.Use(builder_.ReadsAll(received));
    }
  }
}

void TrainingStep::BeginLives(ShardingStrategy::Pass pass, int layer,
                              const model::Operation& operation) {
  for (const model::ValueId value : operation.begins) {
    const bool saved = value.lifetime == model::Lifetime::kSaved;
    // Values sent by another stage already have a buffer.
    if (saved && pass == ShardingStrategy::Pass::kForward && ReceivesInto(layer, value.index)) {
      continue;
    }
    const Index buffer = BufferOf(value, layer);
    builder_.Allocate(compute(), buffer);
    const bool outlives = value.lifetime != model::Lifetime::kCommunicated;
    if (outlives && !operation.group) builder_.Use(builder_.WritesAll(buffer));
  }
}

Index TrainingStep::TemporariesOf(ShardingStrategy::Pass pass, int layer) const {
  const Work& entries = entries_[work_of(layer)];
  if (pass == ShardingStrategy::Pass::kRecompute) return program::kNone;
  const Entries& temporaries = pass == ShardingStrategy::Pass::kForward
                                   ? entries.forward_transient
                                   : entries.backward_transient;
  return temporaries.empty() ? program::kNone : *temporaries.begin();
}

void TrainingStep::AwaitOnHost(Index event) {
  builder_.HostWait(event);
  builder_.Use(builder_.ReadsAll(counts_at_host_));
  builder_.RunOnHost(read_counts_);
}

void TrainingStep::HandOn(ShardingStrategy& strategy, int layer) {
  if (handing_on_ == program::kNone) {
    handing_on_ = builder_.AddKernel({.name = "hand on", .kind = KernelKind::kGiven});
  }
  TakePending();
  WriteOutput();
  RunKernel(strategy, layer, {}, handing_on_);
}

void TrainingStep::TakePending() {
  for (const auto& [buffer, use] : now_.pending.buffers) {
    builder_.Use(builder_.ReadsAll(buffer));
    values_.Take(use, buffer);
  }
}

void TrainingStep::HandBack(int layer) {
  if (layer < chunk().first_layer) return;
  const Index buffer = HandedBack(layer);
  if (buffer == program::kNone) return;
  builder_.Allocate(compute(), buffer);
  builder_.Use(builder_.WritesAll(buffer));
  if (works_[work_of(layer)].Of(model::Lifetime::kHandedBack).empty()) return;
  values_.Give({.value = {model::Lifetime::kHandedBack},
                .type = plan::ComputeType(plan().training.precision),
                .content = model::ValueUse::Content::kGathered},
               buffer);
}

void TrainingStep::RunKernel(ShardingStrategy& strategy, int layer,
                             const model::Operation& operation, Index kernel) {
  for (const Index event : now_.pending.events) builder_.Wait(compute(), event);
  ready_.clear();
  for (const int position : operation.gradients) {
    const int tensor = model().layers[layer].tensors[position];
    strategy.WriteGradient(layer, tensor);
    contributed_[tensor] = true;
    if (--missing_[tensor] == 0) ready_.push_back(tensor);
  }
  builder_.Run(lanes_[operation.lane], kernel);
  for (const auto& [buffer, use] : now_.pending.buffers) builder_.Release(buffer);
  now_.pending.events.clear();
  now_.pending.buffers.clear();
  // Reverse registration order, as in GradientReadyOrder.
  if (ready_.size() > 1) std::sort(ready_.begin(), ready_.end(), std::greater<>());
  for (const int tensor : ready_) strategy.GradientReady(tensor);
}

}  // namespace stepcast::lowering
