#include <algorithm>

#include "src/model/layer_tape.h"

// Decides which values of a layer are kept for its backward, and which operators run again.
namespace stepcast::model {

void LayerTape::DropGradientOfInput() {
  std::vector<char> wanted(variables_.size(), 0), used(differentiate_.size(), 0);
  std::vector<Recorded> needed;
  for (std::size_t i = backward_.size(); i-- > 0;) {
    const Recorded& recorded = backward_[i];
    // A kernel that writes no value adds to a gradient that a later one completes.
    bool needs =
        !recorded.operation.gradients.empty() ||
        (recorded.use.reads == recorded.use.count && !recorded.operation.parameters.empty());
    for (std::size_t u = recorded.use.reads; u < recorded.use.count; ++u) {
      needs = needs || wanted[recorded.use.values[u]] != 0;
    }
    if (!needs) continue;
    for (const Value value : recorded.use.all()) wanted[value] = 1;
    used[recorded.differentiates] = 1;
    needed.push_back(recorded);
  }
  std::reverse(needed.begin(), needed.end());
  backward_ = std::move(needed);
  for (Variable& variable : variables_) variable.kept = variable.for_others;
  // Kernels that an operator runs only for itself do not state which kept tensors they read.
  for (const auto& [value, operation] : kept_for_) {
    if (used[operation] != 0 || wanted[value] != 0) variables_[value].kept = true;
  }
  if (input_) variables_[*input_].gradient = kNoValue;
}

void LayerTape::KeepInputs(const RecomputedModules& modules) {
  for (const Recorded& recorded : forward_) {
    if (!modules.Has(recorded.module)) continue;
    for (std::size_t u = 0; u < recorded.use.reads; ++u) {
      Variable& variable = variables_[recorded.use.values[u]];
      if (variable.outside) continue;
      if (variable.writer < 0 || !modules.Has(forward_[variable.writer].module)) {
        variable.kept = true;
      }
    }
  }
}

std::optional<ValueId> LayerTape::PlaceIn(Lifetime lifetime, const std::vector<int>& places,
                                          Value value) {
  const int place = places[value];
  return place < 0 ? std::nullopt : std::optional(ValueId{lifetime, place});
}

std::vector<ValueId> LayerTape::BegunBy(std::size_t op, Lifetime lifetime,
                                        const std::vector<int>& places) const {
  std::vector<ValueId> begun;
  if (op == 0 && input_ && places[*input_] >= 0) begun.push_back({lifetime, places[*input_]});
  for (const Value value : forward_[op].use.all()) {
    if (variables_[value].first_writer == static_cast<int>(op) && places[value] >= 0) {
      begun.push_back({lifetime, places[value]});
    }
  }
  return begun;
}

namespace {

// Whether selective_op keeps the collective's result. The list is pytorch/torchtitan's (v0.2.0
// torchtitan/models/*/infra/parallelize.py; @b5bcd76
// torchtitan/distributed/activation_checkpoint.py): reduce_scatter_tensor, all_to_all_single, and
// dispatch and combine of DeepEP and HybridEP. All-gathers and all-reduces run again, except the
// exchange of row counts, which is an all_to_all_single there.
bool OutcomeStays(const GroupOperation& group) {
  return group.collective == CollectiveKind::kReduceScatter ||
         group.collective == CollectiveKind::kAllToAll ||
         Meet(group.axes, parallel::Axis::kExpertOuter | parallel::Axis::kExpertInner);
}

}  // namespace

std::vector<char> LayerTape::OperatorsWhoseOutcomeStays(Value activations,
                                                        const Keeping& keeping) const {
  std::vector<char> stays(forward_.size(), 0);
  if (keeping.checkpointing != Checkpointing::kSelectiveOp) return stays;
  bool keep_next = true;
  for (std::size_t op = 0; op < forward_.size(); ++op) {
    if (forward_[op].operation.group) {
      stays[op] = OutcomeStays(*forward_[op].operation.group) ? 1 : 0;
      continue;
    }
    const Kernel& kernel = forward_[op].operation.kernel;
    if (kernel.kind == KernelKind::kAttention) stays[op] = 1;
    if (kernel.kind != KernelKind::kGemm || kernel.batch != 1) continue;
    stays[op] = keep_next ? 1 : 0;
    keep_next = !keep_next;
  }
  // Copies to the host are not repeated in the recomputation.
  for (const Recorded& recorded : forward_) {
    if (recorded.awaited_on_host != kNoValue) {
      stays[variables_[recorded.awaited_on_host].writer] = 1;
    }
  }
  // An addend that is added in place to a kept result, a bias, is kept with it.
  for (Value v = 0; v < activations; ++v) {
    const Variable& variable = variables_[v];
    if (variable.first_writer >= 0 && stays[variable.first_writer] != 0) {
      stays[variable.writer] = 1;
    }
  }
  return stays;
}

bool LayerTape::IsDropped(const Recorded& recorded, const Keeping& keeping) const {
  return (recorded.restored && !keeping.splits_backward) ||
         (keeping.checkpointing == Checkpointing::kSelective &&
          keeping.modules.Has(recorded.module));
}

std::vector<char> LayerTape::OperatorsThatRunAgain(const Keeping& keeping) const {
  std::vector<char> again(forward_.size(), 0);
  switch (keeping.checkpointing) {
    case Checkpointing::kNone:
    case Checkpointing::kSelective:
      for (std::size_t op = 0; op < again.size(); ++op) {
        again[op] = IsDropped(forward_[op], keeping) ? 1 : 0;
      }
      break;
    case Checkpointing::kFull:
    case Checkpointing::kSelectiveOp: {
      int needed = keeping.stops_early ? 0 : static_cast<int>(forward_.size());
      for (const Variable& variable : variables_) {
        if (variable.kept) needed = std::max(needed, variable.writer + 1);
      }
      std::fill_n(again.begin(), needed, 1);
      break;
    }
  }
  return again;
}

LayerTape::Kept LayerTape::KeepValues(std::optional<Value> output, Value activations,
                                      const Keeping& keeping, LayerWork& work) const {
  const Checkpointing checkpointing = keeping.checkpointing;
  Kept kept{.saved = std::vector<int>(variables_.size(), -1),
            .recomputed = std::vector<int>(variables_.size(), -1),
            .outcome_stays = OperatorsWhoseOutcomeStays(activations, keeping),
            .runs_again = OperatorsThatRunAgain(keeping)};
  const auto dropped = [&](int op) { return op >= 0 && IsDropped(forward_[op], keeping); };
  const auto drops_output = [&](int op) {
    return forward_[op].restored || DropsOutput(forward_[op].module);
  };
  // A tensor of a dropped module that operators outside also keep (its output) stays too. The
  // exception is a norm's output: freeing it is the only purpose of dropping a norm.
  std::vector<char> used_outside(variables_.size(), 0);
  for (std::size_t i = 0; i < forward_.size(); ++i) {
    if (dropped(static_cast<int>(i))) continue;
    for (const Value value : forward_[i].use.all()) used_outside[value] = 1;
  }
  const auto add = [&](Lifetime lifetime, const Variable& variable) {
    std::vector<LayerValue>& values = work.Of(lifetime);
    values.push_back({variable.name, variable.bytes});
    return static_cast<int>(values.size()) - 1;
  };
  for (Value v = 0; v < activations; ++v) {
    const Variable& variable = variables_[v];
    const bool outcome = variable.writer >= 0 && kept.outcome_stays[variable.writer] != 0 &&
                         output != v && variable.bytes > Bytes();
    const bool is_input = input_ == v;
    const bool starts_again = is_input && (checkpointing == Checkpointing::kFull ||
                                           checkpointing == Checkpointing::kSelectiveOp);
    if (!variable.kept && !outcome && !starts_again) continue;
    bool save = true, recompute = false;
    switch (checkpointing) {
      case Checkpointing::kNone:
      case Checkpointing::kSelective:
        recompute = !is_input && dropped(variable.writer);
        save = !recompute || (used_outside[v] != 0 && !drops_output(variable.writer));
        break;
      case Checkpointing::kFull:
        recompute = !is_input || keeping.continues_checkpoint;
        save = !recompute;
        break;
      case Checkpointing::kSelectiveOp:
        save = is_input || outcome;
        recompute = !save;
        break;
    }
    if (save) kept.saved[v] = add(Lifetime::kSaved, variable);
    if (save && is_input) work.input = kept.saved[v];
    if (recompute) kept.recomputed[v] = add(Lifetime::kRecomputed, variable);
  }
  return kept;
}

}  // namespace stepcast::model
