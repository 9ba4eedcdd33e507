#include "src/model/layer_tape.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"

namespace stepcast::model {

LayerTape::Value LayerTape::Make(std::string name, Bytes bytes) {
  variables_.push_back({.name = std::move(name), .bytes = bytes});
  return static_cast<Value>(variables_.size()) - 1;
}

LayerTape::Value LayerTape::Input(std::string name, Bytes bytes) {
  STEPCAST_CHECK(!input_, "a layer has one input");
  input_ = Make(std::move(name), bytes);
  return *input_;
}

void LayerTape::Keep(Value value) { variables_[value].kept = true; }

LayerTape::Use LayerTape::UseOf(Values reads, Values writes) {
  STEPCAST_CHECK(reads.size() + writes.size() <= Use::kMost, "an operator with too many operands");
  Use use;
  for (const Value value : reads) use.values[use.count++] = value;
  for (const Value value : writes) use.values[use.count++] = value;
  return use;
}

void LayerTape::Run(Kernel kernel, Values reads, Values writes, std::vector<int> parameters) {
  for (const Value value : writes) variables_[value].writer = static_cast<int>(forward_.size());
  forward_uses_.push_back(UseOf(reads, writes));
  forward_.push_back(std::move(kernel));
  forward_parameters_.push_back(std::move(parameters));
}

void LayerTape::OnBackward(std::function<void()> differentiate) {
  differentiate_.push_back(std::move(differentiate));
}

void LayerTape::BeginCore() { core_begin_ = static_cast<int>(forward_.size()); }
void LayerTape::EndCore() { core_end_ = static_cast<int>(forward_.size()); }

LayerTape::Value LayerTape::GradientOf(Value value) const {
  STEPCAST_CHECK(variables_[value].gradient != kNoValue, "a gradient is used before it is made");
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
  backward_uses_.push_back(UseOf(reads, writes));
  backward_.push_back({.kernel = std::move(kernel),
                       .gradients = std::move(gradients),
                       .parameters = std::move(parameters)});
}

namespace {

Bytes Sum(const std::vector<Bytes>& tensors) {
  Bytes sum;
  for (const Bytes bytes : tensors) sum += bytes;
  return sum;
}

}  // namespace

template <typename Counted>
std::vector<Bytes> LayerTape::Peak(std::span<const Use> uses, Counted counted,
                                   Values pinned_from_start, Values pinned_to_end) const {
  if (uses.empty()) return {};
  const int end = static_cast<int>(uses.size());
  struct Life {
    int first = -1;
    int last = -1;
  };
  std::vector<Life> lives(variables_.size());
  const auto use_at = [&lives](Value value, int i) {
    Life& life = lives[value];
    if (life.first < 0) life.first = i;
    life.last = i;
  };
  for (const Value value : pinned_from_start) use_at(value, 0);
  for (int i = 0; i < end; ++i) {
    for (const Value value : uses[i].all()) use_at(value, i);
  }
  for (const Value value : pinned_to_end) use_at(value, end - 1);

  std::vector<Bytes> change(uses.size() + 1);
  for (std::size_t v = 0; v < lives.size(); ++v) {
    if (lives[v].first < 0 || !counted(static_cast<Value>(v))) continue;
    change[lives[v].first] += variables_[v].bytes;
    change[lives[v].last + 1] -= variables_[v].bytes;
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
    if (there && variables_[v].bytes > Bytes() && counted(static_cast<Value>(v))) {
      tensors.push_back(variables_[v].bytes);
    }
  }
  return tensors;
}

LayerWork LayerTape::Finish(std::optional<Value> output, Checkpointing checkpointing,
                            bool stops_early) {
  const std::size_t activations = variables_.size();
  std::optional<Value> output_gradient;
  if (output) {
    output_gradient = MakeGradient(*output);
    variables_[*output].gradient = *output_gradient;
  }
  for (auto it = differentiate_.rbegin(); it != differentiate_.rend(); ++it) (*it)();

  const auto in_core = [this](int op) { return op >= core_begin_ && op < core_end_; };
  // Where each kept activation goes: its index in `saved` and in `recomputed`, or -1.
  LayerWork work;
  std::vector<int> saved(variables_.size(), -1), recomputed(variables_.size(), -1);
  // A tensor of the core that operators outside it keep too (its output) stays as well.
  std::vector<char> used_outside(variables_.size(), 0);
  for (std::size_t i = 0; i < forward_uses_.size(); ++i) {
    if (in_core(static_cast<int>(i))) continue;
    for (const Value value : forward_uses_[i].all()) used_outside[value] = 1;
  }
  // Operators whose outcome selective_op keeps.
  std::vector<char> kept_operator(forward_.size(), 0);
  if (checkpointing == Checkpointing::kSelectiveOp) {
    bool keep_next = true;
    for (std::size_t op = 0; op < forward_.size(); ++op) {
      const Kernel& kernel = forward_[op];
      if (kernel.kind == KernelKind::kAttention) kept_operator[op] = 1;
      if (kernel.kind != KernelKind::kGemm || kernel.batch != 1) continue;
      kept_operator[op] = keep_next ? 1 : 0;
      keep_next = !keep_next;
    }
  }
  for (std::size_t v = 0; v < activations; ++v) {
    Variable& variable = variables_[v];
    const bool outcome = variable.writer >= 0 && kept_operator[variable.writer] != 0 &&
                         output != static_cast<Value>(v);
    const bool is_input = input_ == static_cast<Value>(v);
    const bool starts_again = is_input && (checkpointing == Checkpointing::kFull ||
                                           checkpointing == Checkpointing::kSelectiveOp);
    if (!variable.kept && !outcome && !starts_again) continue;
    bool save = true, recompute = false;
    switch (checkpointing) {
      case Checkpointing::kNone:
        break;
      case Checkpointing::kSelective:
        recompute = !is_input && in_core(variable.writer);
        save = !recompute || used_outside[v];
        break;
      case Checkpointing::kFull:
        recompute = !is_input;
        save = is_input;
        break;
      case Checkpointing::kSelectiveOp:
        save = is_input || outcome;
        recompute = !save;
        break;
    }
    if (save) {
      if (is_input) work.input = static_cast<int>(work.saved.size());
      saved[v] = static_cast<int>(work.saved.size());
      work.saved.push_back({variable.name, variable.bytes});
    }
    if (recompute) {
      recomputed[v] = static_cast<int>(work.recomputed.size());
      work.recomputed.push_back({variable.name, variable.bytes});
    }
  }

  const auto creates = [&](int op, const std::vector<int>& index, bool with_input) {
    std::vector<int> created;
    if (with_input && op == 0 && input_ && index[*input_] >= 0) created.push_back(index[*input_]);
    for (const Value value : forward_uses_[op].all()) {
      if (variables_[value].writer == op && index[value] >= 0) created.push_back(index[value]);
    }
    return created;
  };
  if (output) work.output = variables_[*output].bytes;
  const int operators = static_cast<int>(forward_.size());
  std::pair<int, int> again{0, 0};
  if (checkpointing == Checkpointing::kFull || checkpointing == Checkpointing::kSelectiveOp) {
    again = {0, operators};
    if (stops_early) {
      again.second = 0;
      for (const Variable& variable : variables_) {
        if (variable.kept) again.second = std::max(again.second, variable.writer + 1);
      }
    }
  }
  if (checkpointing == Checkpointing::kSelective) again = {core_begin_, core_end_};
  for (int op = again.first; op < again.second; ++op) {
    if (kept_operator[op] != 0) continue;
    work.recompute.push_back(
        {forward_[op], creates(op, recomputed, false), forward_parameters_[op]});
  }
  for (int op = 0; op < operators; ++op) {
    work.forward.push_back(
        {std::move(forward_[op]), creates(op, saved, true), std::move(forward_parameters_[op])});
  }
  work.backward = std::move(backward_);

  const auto passing = [&](const std::vector<int>& index) {
    return [&index](Value v) { return index[v] < 0; };
  };
  const std::span<const Use> uses = forward_uses_;
  work.forward_temporaries =
      output ? Peak(uses, passing(saved), {}, {*output}) : Peak(uses, passing(saved), {}, {});
  const auto any = [](Value) { return true; };
  const Value input_gradient = input_ ? variables_[*input_].gradient : kNoValue;
  const std::span<const Use> backward_uses = backward_uses_;
  if (output_gradient && input_gradient != kNoValue) {
    work.backward_temporaries = Peak(backward_uses, any, {*output_gradient}, {input_gradient});
  } else if (output_gradient) {
    work.backward_temporaries = Peak(backward_uses, any, {*output_gradient}, {});
  } else if (input_gradient != kNoValue) {
    work.backward_temporaries = Peak(backward_uses, any, {}, {input_gradient});
  } else {
    work.backward_temporaries = Peak(backward_uses, any, {}, {});
  }
  if (!work.recompute.empty()) {
    // What passes by while the forward runs again, beside the gradient that waits for it. Operands
    // that the core takes from outside are saved.
    const auto passes = [&](Value v) {
      const int writer = variables_[v].writer;
      return writer >= again.first && writer < again.second && recomputed[v] < 0 && saved[v] < 0;
    };
    std::vector<Bytes> peak =
        Peak(uses.subspan(again.first, again.second - again.first), passes, {}, {});
    if (output_gradient && variables_[*output_gradient].bytes > Bytes()) {
      peak.push_back(variables_[*output_gradient].bytes);
    }
    if (Sum(peak) > Sum(work.backward_temporaries)) work.backward_temporaries = std::move(peak);
  }
  work.forward_transient = Sum(work.forward_temporaries);
  work.backward_transient = Sum(work.backward_temporaries);
  return work;
}

}  // namespace stepcast::model
