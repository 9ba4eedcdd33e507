#include "src/model/layer_tape.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "src/base/check.h"

namespace stepcast::model {

LayerTape::Value LayerTape::Make(std::string name, Bytes bytes) {
  variables_.push_back({.name = std::move(name), .bytes = bytes});
  return static_cast<Value>(variables_.size()) - 1;
}

LayerTape::Value LayerTape::Input(std::string name, Bytes bytes) {
  STEPCAST_CHECK(!input_, "a layer must have one input");
  input_ = Make(std::move(name), bytes);
  return *input_;
}

LayerTape::Value LayerTape::Alias(Value value) {
  const Value alias = Make(variables_[value].name, variables_[value].bytes);
  variables_[alias].alias_of = value;
  return alias;
}

LayerTape::Value LayerTape::Outside(std::string name, Bytes bytes) {
  const Value value = Make(std::move(name), bytes);
  variables_[value].outside = true;
  return value;
}

void LayerTape::Keep(Value value) {
  const Value of = variables_[value].alias_of;
  const Value kept = of == kNoValue ? value : of;
  if (frozen_ || variables_[kept].outside) return;
  variables_[kept].kept = true;
  kept_for_.emplace_back(kept, differentiate_.size());  // an operator keeps, then says how it ends
}

void LayerTape::KeepForOthers(Value value) {
  variables_[value].kept = variables_[value].for_others = true;
}

void LayerTape::Register(Value value, std::string name) {
  variables_[value].registered = true;
  variables_[value].name = std::move(name);
}

LayerTape::Use LayerTape::UseOf(Values reads, Values writes) const {
  STEPCAST_CHECK(reads.size() + writes.size() <= Use::kMost,
                 "the number of operands of an "
                 "operator exceeds the maximum");
  Use use{.reads = reads.size()};
  for (const Values& values : {reads, writes}) {
    for (const Piece& piece : values) {
      const Value of = variables_[piece.value].alias_of;
      use.ranges[use.count] = piece.range;
      use.values[use.count++] = of == kNoValue ? piece.value : of;
    }
  }
  return use;
}

void LayerTape::NoteWriter(Value value) {
  Variable& variable = variables_[value];
  variable.writer = static_cast<int>(forward_.size());
  if (variable.first_writer < 0) variable.first_writer = variable.writer;
}

void LayerTape::Run(Kernel kernel, Values reads, Values writes, std::vector<int> parameters) {
  for (const Piece& piece : writes) NoteWriter(piece.value);
  Recorded& recorded = forward_.emplace_back();
  recorded.use = UseOf(reads, writes);
  recorded.module = module_;
  recorded.restored = restored_;
  recorded.awaited_on_host = std::exchange(awaited_on_host_, kNoValue);
  recorded.operation.kernel = std::move(kernel);
  recorded.operation.lane = lane_;
  recorded.operation.parameters = std::move(parameters);
}

LayerTape::Recorded LayerTape::RecordedOf(const Collective& collective, Piece source,
                                          Piece target) const {
  STEPCAST_CHECK(lane_ == 0, "collectives are modelled only on the compute stream");
  Recorded recorded;
  recorded.use = UseOf({source}, {target});
  recorded.operation.group = {.collective = collective.kind,
                              .axes = collective.axes,
                              .distance = collective.distance,
                              .multiprocessors = collective.multiprocessors,
                              .bytes = std::max(BytesIn(source), BytesIn(target)),
                              .type = collective.type,
                              .loads = collective.loads};
  return recorded;
}

void LayerTape::Communicate(const Collective& collective, Piece source, Piece target) {
  if (source.value != target.value) NoteWriter(target.value);
  forward_.push_back(RecordedOf(collective, source, target));
  forward_.back().module = module_;
  forward_.back().awaited_on_host = std::exchange(awaited_on_host_, kNoValue);
}

void LayerTape::CommunicateBackward(const Collective& collective, Piece source, Piece target) {
  backward_.push_back(RecordedOf(collective, source, target));
}

void LayerTape::OnBackward(std::function<void()> differentiate) {
  if (frozen_) return;
  differentiate_.push_back({std::move(differentiate), lane_, shared_});
}

void LayerTape::RunOnBackward(std::vector<Kernel> kernels, Values outputs, Values inputs,
                              std::vector<int> parameters) {
  OnBackward([this, kernels = std::move(kernels), parameters = std::move(parameters),
              outputs = std::vector<Piece>(outputs.begin(), outputs.end()),
              inputs = std::vector<Piece>(inputs.begin(), inputs.end())] {
    std::vector<Piece> reads, gradients;
    for (const Piece& input : inputs) gradients.emplace_back(MakeGradient(input.value));
    for (const Piece& output : outputs) reads.emplace_back(GradientOf(output.value));
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      RunBackward(kernels[i], reads, kernels.size() == 1 ? gradients : std::vector{gradients[i]},
                  parameters, parameters);
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) Deliver(inputs[i].value, gradients[i].value);
  });
}

void LayerTape::RunBothWays(Kernel forward, std::vector<Kernel> backward, Values inputs,
                            Values outputs, std::vector<int> parameters) {
  Run(std::move(forward), inputs, outputs, parameters);
  RunOnBackward(std::move(backward), outputs, inputs, std::move(parameters));
}

LayerTape::Value LayerTape::GradientOf(Value value) const {
  STEPCAST_CHECK(variables_[value].gradient != kNoValue,
                 "a gradient is used before it is computed");
  return variables_[value].gradient;
}

LayerTape::Value LayerTape::MakeGradient(Value value) { return Make({}, variables_[value].bytes); }
LayerTape::Value LayerTape::MakeScratch(Bytes bytes) { return Make({}, bytes); }

void LayerTape::Deliver(Value value, Value contribution) {
  Value& gradient = variables_[value].gradient;
  if (gradient == kNoValue) {
    gradient = contribution;
    return;
  }
  const Bytes bytes = variables_[value].bytes;
  RunBackward({.name = variables_[value].name + ".grad.add",
               .data_type = element_,
               .flops = bytes.count() / SizeOf(element_),
               .read = fuses_sums_ ? bytes : 2 * bytes,
               .written = fuses_sums_ ? Bytes() : bytes},
              {gradient, contribution}, {gradient});
}

void LayerTape::RunBackward(Kernel kernel, Values reads, Values writes, std::vector<int> gradients,
                            std::vector<int> parameters) {
  Recorded& recorded = backward_.emplace_back();
  recorded.use = UseOf(reads, writes);
  recorded.operation.kernel = std::move(kernel);
  recorded.operation.lane = lane_;
  if (!shared_) recorded.operation.gradients = std::move(gradients);
  recorded.operation.parameters = std::move(parameters);
}

namespace {

Bytes Sum(const std::vector<Bytes>& tensors) {
  Bytes sum;
  for (const Bytes bytes : tensors) sum += bytes;
  return sum;
}

}  // namespace

std::vector<Bytes> LayerTape::Peak(std::span<const Recorded> list, const Counted& counted,
                                   Values pinned_from_start, Values pinned_to_end) const {
  if (list.empty()) return {};
  const int end = static_cast<int>(list.size());
  struct Life {
    int first = -1;
    int last = -1;
  };
  std::vector<Life> lives(variables_.size());
  const auto use_at = [&lives](Value value, int i) {
    Life& life = lives[value];
    if (life.first < 0) life.first = i;
    life.last = std::max(life.last, i);
  };
  for (const Piece& pinned : pinned_from_start) use_at(pinned.value, 0);
  for (int i = 0; i < end; ++i) {
    for (const Value value : list[i].use.all()) {
      use_at(value, i);
      // Memory of another lane is free again when the list has ended.
      if (list[i].operation.lane != 0) lives[value].last = end;
    }
  }
  for (const Piece& pinned : pinned_to_end) use_at(pinned.value, end - 1);

  std::vector<Bytes> change(list.size() + 1);
  for (std::size_t v = 0; v < lives.size(); ++v) {
    if (lives[v].first < 0 || variables_[v].outside || !counted(static_cast<Value>(v))) continue;
    change[lives[v].first] += variables_[v].bytes;
    change[std::min(lives[v].last + 1, end)] -= variables_[v].bytes;
  }
  Bytes alive, most;
  int peak = 0;
  for (int i = 0; i < end; ++i) {
    alive += change[i];
    if (alive <= most) continue;
    most = alive;
    peak = i;
  }
  std::vector<Bytes> tensors;
  for (std::size_t v = 0; v < lives.size(); ++v) {
    const bool there = lives[v].first >= 0 && lives[v].first <= peak && lives[v].last >= peak;
    if (there && !variables_[v].outside && variables_[v].bytes > Bytes() &&
        counted(static_cast<Value>(v))) {
      tensors.push_back(variables_[v].bytes);
    }
  }
  return tensors;
}

LayerTape::Value LayerTape::InputGradient() const {
  return input_ ? variables_[*input_].gradient : kNoValue;
}

std::optional<LayerTape::Value> LayerTape::WriteBackward(std::optional<Value> output,
                                                         const Keeping& keeping) {
  std::optional<Value> output_gradient;
  if (output) {
    output_gradient = MakeGradient(*output);
    variables_[*output].gradient = *output_gradient;
  }
  for (std::size_t i = differentiate_.size(); i-- > 0;) {
    const std::size_t first = backward_.size();
    lane_ = differentiate_[i].lane;
    shared_ = differentiate_[i].shared;
    differentiate_[i].run();
    lane_ = 0;
    shared_ = false;
    for (std::size_t op = first; op < backward_.size(); ++op) backward_[op].differentiates = i;
  }
  if (!keeping.input_has_gradient) DropGradientOfInput();
  if (keeping.checkpointing == Checkpointing::kSelective) KeepInputs(keeping.modules);
  if (keeping.delays_weight_gradients) DelayWeightGradients();
  return output_gradient;
}

void LayerTape::SayTemporaries(std::optional<Value> output, std::optional<Value> output_gradient,
                               const Keeping& keeping, const Kept& kept,
                               std::span<const Recorded> recompute, LayerWork& work) const {
  // Communicated values have buffers of their own.
  const std::vector<char> forward_communicated = CommunicatedIn(forward_);
  const auto forward_passing = [&](Value v) {
    return kept.saved[v] < 0 && forward_communicated[v] == 0;
  };
  std::vector<Piece> from_start, to_end;
  // The part of the input that is not kept is a temporary.
  if (keeping.continues_checkpoint) from_start.push_back(*input_);
  if (output) to_end.push_back(*output);
  work.forward_temporaries = Peak(forward_, forward_passing, from_start, to_end);

  const std::vector<char> backward_communicated = CommunicatedIn(backward_);
  const auto any = [&](Value v) {
    return backward_communicated[v] == 0 && kept.saved[v] < 0 && kept.recomputed[v] < 0;
  };
  from_start.clear();
  to_end.clear();
  if (output_gradient) from_start.push_back(*output_gradient);
  if (InputGradient() != kNoValue) to_end.push_back(InputGradient());
  work.backward_temporaries = Peak(backward_, any, from_start, to_end);
  if (!recompute.empty()) {
    // Temporaries of the recomputed forward, besides the gradient that waits for it. Operands from
    // outside a module are saved.
    const std::vector<char> again_communicated = CommunicatedIn(recompute);
    const auto passes = [&](Value v) {
      const int writer = variables_[v].writer;
      return writer >= 0 && kept.runs_again[writer] != 0 && kept.recomputed[v] < 0 &&
             kept.saved[v] < 0 && again_communicated[v] == 0;
    };
    std::vector<Recorded> rerun;
    for (std::size_t op = 0; op < forward_.size(); ++op) {
      if (kept.runs_again[op] != 0) rerun.push_back(forward_[op]);
    }
    std::vector<Bytes> peak = Peak(rerun, passes, {}, {});
    if (output_gradient && variables_[*output_gradient].bytes > Bytes()) {
      peak.push_back(variables_[*output_gradient].bytes);
    }
    if (Sum(peak) > Sum(work.backward_temporaries)) work.backward_temporaries = std::move(peak);
  }
  work.forward_transient = Sum(work.forward_temporaries);
  work.backward_transient = Sum(work.backward_temporaries);
}

LayerWork LayerTape::Finish(std::optional<Value> output, const Keeping& keeping) {
  const auto activations = static_cast<Value>(variables_.size());
  const std::optional<Value> output_gradient = WriteBackward(output, keeping);
  LayerWork work;
  work.continues_checkpoint = keeping.continues_checkpoint;
  if (output) work.output = variables_[*output].bytes;
  const Kept kept = KeepValues(output, activations, keeping, work);

  std::vector<Recorded> recompute;
  for (std::size_t op = 0; op < forward_.size(); ++op) {
    if (kept.runs_again[op] == 0 || kept.outcome_stays[op] != 0) continue;
    recompute.push_back(forward_[op]);
    recompute.back().operation.begins = BegunBy(op, Lifetime::kRecomputed, kept.recomputed);
  }
  // A fused function in a recomputed block runs these operators once more.
  for (std::size_t op = 0; op < forward_.size(); ++op) {
    if (forward_[op].restored && keeping.checkpointing == Checkpointing::kFull &&
        kept.runs_again[op] != 0) {
      recompute.push_back(forward_[op]);
    }
  }
  for (std::size_t op = 0; op < forward_.size(); ++op) {
    forward_[op].operation.begins = BegunBy(op, Lifetime::kSaved, kept.saved);
  }

  const Places saved = [&](Value v) { return PlaceIn(Lifetime::kSaved, kept.saved, v); };
  const Places saved_or_again = [&](Value v) {
    const auto place = PlaceIn(Lifetime::kRecomputed, kept.recomputed, v);
    return place ? place : saved(v);
  };
  Place(forward_, saved, work.forward, work);
  Place(recompute, saved_or_again, work.recompute, work);
  const Places known_backward = [&](Value v) {
    return output_gradient == v ? std::optional(ValueId{Lifetime::kHandedBack}) : saved_or_again(v);
  };
  Place(backward_, known_backward, work.backward, work);
  SayWhatBackwardCommunicates(forward_, saved, work.backward, work.forward);
  SayWhatBackwardCommunicates(recompute, saved_or_again, work.backward, work.recompute);

  if (output_gradient && variables_[*output_gradient].bytes > Bytes() &&
      CommunicatedIn(backward_)[*output_gradient] != 0) {
    work.Of(Lifetime::kHandedBack)
        .push_back({"gradient of the output", variables_[*output_gradient].bytes});
  }
  SayTemporaries(output, output_gradient, keeping, kept, recompute, work);
  if (keeping.splits_backward) SplitBackward(output_gradient, kept.saved, work);
  return work;
}

}  // namespace stepcast::model
