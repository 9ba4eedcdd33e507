#include <algorithm>
#include <map>
#include <utility>

#include "src/base/check.h"
#include "src/model/layer_tape.h"

// Reorders backward compared to autograd: in two parts (LayerWork::backward_input,
// ::backward_weight), divided by data dependence, or with weight gradients delayed.
namespace stepcast::model {

class LayerTape::ReadLater {
 public:
  explicit ReadLater(LayerTape& tape) : tape_(tape), read_(tape.variables_.size(), 0) {}

  // Appends the next operation of the old order. `later`: it is delayed.
  Recorded Take(Recorded recorded, bool later) {
    const bool group = recorded.operation.group.has_value();
    for (std::size_t u = 0; u < recorded.use.count; ++u) {
      Value& value = recorded.use.values[u];
      const Value original = value;
      value = Now(original);
      if (later) {
        read_[value] = 1;
      } else if (recorded.use.Writes(u) && !group && read_[value] != 0) {
        const Variable& variable = tape_.variables_[original];
        const Value fresh = tape_.Make(variable.name, variable.bytes);
        read_.push_back(0);
        latest_[original] = fresh;
        value = fresh;
      }
    }
    return recorded;
  }
  // The tensor that now holds the content of the old order's `value`.
  Value Now(Value value) const {
    const auto found = latest_.find(value);
    return found == latest_.end() ? value : found->second;
  }
  // Called when all delayed operations have run.
  void Forget() { std::fill(read_.begin(), read_.end(), 0); }

 private:
  LayerTape& tape_;
  std::map<Value, Value> latest_;
  std::vector<char> read_;
};

LayerTape::Recorded LayerTape::GradientsOf(const Operation& operation) {
  Recorded recorded;
  recorded.operation.kernel = {.name = operation.kernel.name + ".constants",
                               .kind = KernelKind::kMemoryBound};
  recorded.operation.parameters = operation.parameters;
  recorded.operation.gradients = operation.gradients;
  return recorded;
}

LayerTape::Parts LayerTape::PartsOfBackward() {
  std::vector<char> for_input(variables_.size(), 0), for_weights(variables_.size(), 0);
  if (input_ && variables_[*input_].gradient != kNoValue) {
    for_input[variables_[*input_].gradient] = 1;
  }
  std::vector<char> of_weights(backward_.size(), 0);
  for (std::size_t i = backward_.size(); i-- > 0;) {
    const Recorded& recorded = backward_[i];
    const auto writes_any = [&](const std::vector<char>& wanted) {
      for (std::size_t u = recorded.use.reads; u < recorded.use.count; ++u) {
        if (wanted[recorded.use.values[u]] != 0) return true;
      }
      return false;
    };
    const bool needed_by_input = writes_any(for_input);
    const bool gives_gradients = !recorded.operation.gradients.empty() || writes_any(for_weights);
    of_weights[i] = gives_gradients && !needed_by_input ? 1 : 0;
    for (const Value value : recorded.use.all()) {
      if (needed_by_input) for_input[value] = 1;
      if (gives_gradients) for_weights[value] = 1;
    }
  }
  Parts parts;
  ReadLater read_later(*this);
  for (std::size_t i = 0; i < backward_.size(); ++i) {
    const bool later = of_weights[i] != 0;
    Recorded recorded = read_later.Take(backward_[i], later);
    if (!later && !recorded.operation.gradients.empty()) {
      parts.weight.push_back(GradientsOf(recorded.operation));
      recorded.operation.gradients.clear();
    }
    (later ? parts.weight : parts.input).push_back(std::move(recorded));
  }
  if (input_ && variables_[*input_].gradient != kNoValue) {
    parts.input_gradient = read_later.Now(variables_[*input_].gradient);
  }
  return parts;
}

void LayerTape::DelayWeightGradients() {
  const auto is_product = [](const Recorded& recorded) {
    const Kernel& kernel = recorded.operation.kernel;
    return !recorded.operation.group && kernel.kind == KernelKind::kGemm &&
           kernel.layout == ProductLayout::kWeightGradient &&
           recorded.use.reads == recorded.use.count;
  };
  std::vector<Recorded> ordered, delayed;
  ReadLater read_later(*this);
  const auto run_delayed = [&] {
    for (Recorded& recorded : delayed) ordered.push_back(std::move(recorded));
    delayed.clear();
    read_later.Forget();
  };
  for (std::size_t i = 0; i < backward_.size(); ++i) {
    const bool later = is_product(backward_[i]);
    Recorded recorded = read_later.Take(backward_[i], later);
    recorded.operation.delayed = later;
    (later ? delayed : ordered).push_back(std::move(recorded));
    const bool exchanges = ExchangesRows(backward_[i].operation);
    if (exchanges && (i + 1 == backward_.size() || !ExchangesRows(backward_[i + 1].operation))) {
      run_delayed();
    }
  }
  run_delayed();
  backward_ = std::move(ordered);
  if (input_ && variables_[*input_].gradient != kNoValue) {
    variables_[*input_].gradient = read_later.Now(variables_[*input_].gradient);
  }
}

void LayerTape::SplitBackward(std::optional<Value> output_gradient, std::vector<int> saved,
                              LayerWork& work) {
  STEPCAST_CHECK(work.Of(Lifetime::kRecomputed).empty(), "recomputed operators cannot be split");
  Parts parts = PartsOfBackward();
  saved.resize(variables_.size(), -1);

  // Tensors that the weights' part reads: kept activations, and those that it does not make itself.
  std::vector<char> made_by_weights(variables_.size(), 0), made_by_input(variables_.size(), 0);
  for (const Recorded& recorded : parts.input) {
    for (std::size_t u = recorded.use.reads; u < recorded.use.count; ++u) {
      made_by_input[recorded.use.values[u]] = 1;
    }
  }
  std::vector<Value> from_outside, from_input;
  std::vector<char> seen(variables_.size(), 0);
  for (const Recorded& recorded : parts.weight) {
    for (std::size_t u = 0; u < recorded.use.count; ++u) {
      const Value value = recorded.use.values[u];
      if (saved[value] >= 0) {
        work.Of(Lifetime::kSaved)[saved[value]].for_weights = true;
      } else if (recorded.use.Writes(u)) {
        made_by_weights[value] = 1;
      } else if (made_by_weights[value] == 0 && !std::exchange(seen[value], 1)) {
        (made_by_input[value] != 0 ? from_input : from_outside).push_back(value);
      }
    }
  }
  std::vector<int> deferred(variables_.size(), -1);
  const auto defer = [&](Value value) {
    if (variables_[value].bytes == Bytes()) return;
    const auto owner =
        std::find_if(variables_.begin(), variables_.end(),
                     [&](const Variable& variable) { return variable.gradient == value; });
    std::vector<LayerValue>& values = work.Of(Lifetime::kDeferred);
    deferred[value] = static_cast<int>(values.size());
    values.push_back(
        {owner != variables_.end() ? owner->name + ".grad" : "gradient", variables_[value].bytes});
  };
  STEPCAST_CHECK(from_outside.empty() || (from_outside.size() == 1 && output_gradient &&
                                          from_outside.front() == *output_gradient),
                 "the gradient of the output must come from outside the layer");
  for (const Value value : from_outside) defer(value);
  work.defers_gradient_of_output = !work.Of(Lifetime::kDeferred).empty();
  for (const Value value : from_input) defer(value);
  std::vector<char> alive(variables_.size(), 0);
  for (Recorded& recorded : parts.input) {
    for (std::size_t u = recorded.use.reads; u < recorded.use.count; ++u) {
      const Value value = recorded.use.values[u];
      if (deferred[value] < 0 || std::exchange(alive[value], 1)) continue;
      recorded.operation.begins.push_back({Lifetime::kDeferred, deferred[value]});
    }
  }

  const Places place = [&](Value v) -> std::optional<ValueId> {
    if (output_gradient == v) return ValueId{Lifetime::kHandedBack};
    const auto kept = PlaceIn(Lifetime::kSaved, saved, v);
    return kept ? kept : PlaceIn(Lifetime::kDeferred, deferred, v);
  };
  Place(parts.input, place, work.backward_input.operations, work);
  Place(parts.weight, place, work.backward_weight.operations, work);

  const auto finish = [&](const std::vector<Recorded>& list, Values from_start, Values to_end,
                          LayerWork::BackwardPart& part) {
    const std::vector<char> communicated = CommunicatedIn(list);
    part.temporaries = Peak(
        list, [&](Value v) { return communicated[v] == 0 && saved[v] < 0 && deferred[v] < 0; },
        from_start, to_end);
    for (const Bytes bytes : part.temporaries) part.transient += bytes;
  };
  std::vector<Piece> from_start, to_end;
  if (output_gradient) from_start.push_back(*output_gradient);
  if (parts.input_gradient != kNoValue) to_end.push_back(parts.input_gradient);
  finish(parts.input, from_start, to_end, work.backward_input);
  finish(parts.weight, {}, {}, work.backward_weight);
}

}  // namespace stepcast::model
