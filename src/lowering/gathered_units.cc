#include <algorithm>
#include <variant>

#include "src/lowering/step_parts.h"
#include "src/lowering/units.h"

namespace stepcast::lowering {

using program::Category;
using program::kNone;

GatheredUnits::GatheredUnits(TrainingStep& step, Operations& operations,
                             const ProcessGroups& groups, const TensorPieces& pieces)
    : step_(step),
      builder_(step.builder()),
      operations_(operations),
      groups_(groups),
      pieces_(pieces),
      plan_(step.plan().data_parallel),
      type_(plan::ComputeType(step.plan().training.precision)) {}

void GatheredUnits::WritePrologue(StreamId stream, Index communicator) {
  stream_ = stream;
  communicator_ = communicator;
  units_ = UnitPerLayer(step_.model());
  const auto* kept_ranks = std::get_if<std::int64_t>(&plan_.reshard_after_forward);
  if (kept_ranks != nullptr) {
    keepers_ = groups_.shard.Runs(static_cast<int>(*kept_ranks));
    kept_communicator_ = builder_.AddCommunicator("reshard", keepers_);
  }
  const DataType stored = step_.plan().training.parameter_dtype;
  states_.reserve(units_.units.size());
  for (const Unit& unit : units_.units) {
    const Index name = builder_.AddText(unit.name);
    State& state = states_.emplace_back();
    state.layout = Packed(unit.elements, plan::ShardRanks(step_.plan()));
    state.full =
        operations_.AddRange(builder_.Named(name, "/gathered parameters"), state.layout.padded(),
                             type_, Category::kCommunication, unit.elements);
    state.own =
        operations_.AddShard(builder_.Named(name, "/parameter shard"), state.layout.shard, stored,
                             Category::kParameter, unit.elements, state.layout.ranks);
    operations_.Allocate(step_.compute(), state.own);
    if (kept_ranks != nullptr) {
      state.kept = operations_.AddRange(builder_.Named(name, "/kept shard"),
                                        ShardLength(state.layout.padded(), *kept_ranks), type_,
                                        Category::kCommunication);
    }
    state.gathered = builder_.AddEvent(builder_.Named(name, " gathered"));
    if (unit.elements > 0) forward_order_.push_back(static_cast<int>(states_.size()) - 1);
  }
  backward_order_ = forward_order_;
  std::sort(backward_order_.begin(), backward_order_.end(), [this](int a, int b) {
    return units_.units[a].layers.back() > units_.units[b].layers.back();
  });
}

void GatheredUnits::BeforeForward(int layer) {
  const int unit = units_.of_layer[layer];
  if (units_.units[unit].layers.front() == layer) Gather(forward_order_, unit);
}

void GatheredUnits::AfterForward(int layer) {
  const bool* reshards = std::get_if<bool>(&plan_.reshard_after_forward);
  if (reshards != nullptr && !*reshards) return;
  const int unit = units_.of_layer[layer];
  if (units_.units[unit].layers.back() != layer) return;
  if (states_[unit].resident && states_[unit].kept) Keep(unit);
  Free(states_[unit]);
}

void GatheredUnits::BeforeBackward(int layer) {
  const int unit = units_.of_layer[layer];
  if (units_.units[unit].layers.back() == layer) Gather(backward_order_, unit);
}

void GatheredUnits::AfterBackward(int layer) {
  const int unit = units_.of_layer[layer];
  if (units_.units[unit].layers.front() == layer) Free(states_[unit]);
}

void GatheredUnits::Free(State& state) {
  if (!state.resident) return;
  operations_.Release(state.full);
  state.resident = false;
}

// The part of the gathered parameters that this rank keeps for backward. The textbook has no cost
// for it.
void GatheredUnits::Keep(int unit) {
  State& state = states_[unit];
  const std::int64_t length = state.layout.padded() / keepers_.size();
  const std::int64_t begin = keepers_.Index(groups_.rank) * length;
  operations_.Allocate(step_.compute(), state.kept);
  operations_.Reads(state.full);
  operations_.Writes(state.kept);
  operations_.Traffic(Bytes(), Bytes());
  MovesOf(unit, begin, length, state.kept.place, state.full.At(begin));
  operations_.Run(step_.compute(), "keep_shard");
  state.has_kept = true;
}

// Moves elements [begin, begin + length) of a unit, without padding.
void GatheredUnits::MovesOf(int unit, std::int64_t begin, std::int64_t length,
                            const program::Elements& target, const program::Elements& source) {
  if (!builder_.describes_data_flow()) return;
  std::vector<program::Effect> moves;
  for (const int tensor : units_.units[unit].tensors) {
    for (const TensorPiece& piece : pieces_.Of(tensor)) {
      const std::int64_t first = std::max(piece.parameter, begin);
      const std::int64_t last = std::min(piece.parameter + piece.elements, begin + length);
      if (first >= last) continue;
      AppendJoined(moves, Move(Further(target, first - begin), Further(source, first - begin),
                               last - first));
    }
  }
  builder_.With(moves);
}

// Makes `unit` resident before its first layer in `order`, and requests the next units.
void GatheredUnits::Gather(const std::vector<int>& order, int unit) {
  const auto position = std::find(order.begin(), order.end(), unit) - order.begin();
  if (position == std::ssize(order)) return;  // no parameters
  const auto end = std::min<std::int64_t>(std::ssize(order), position + plan_.prefetch + 1);
  for (std::int64_t i = position; i < end; ++i) IssueGather(order[i]);
  if (communicator_ != kNone) builder_.Wait(step_.compute(), states_[unit].gathered);
}

void GatheredUnits::IssueGather(int unit) {
  State& state = states_[unit];
  if (state.resident) return;
  state.resident = true;
  operations_.Allocate(step_.compute(), state.full);
  const Index communicator = state.has_kept ? kept_communicator_ : communicator_;
  if (communicator != kNone) {
    Range source = state.has_kept ? state.kept : state.own;
    if (source.type() != type_) {
      // A shard of another type is cast into its place among the gathered parameters, as part of
      // the gather. The textbook does not count casts.
      const std::int64_t length = state.layout.shard;
      builder_.Use(Reads(state.own));
      source = state.full.Share(groups_.shard_index(), length);
      MovesOf(unit, groups_.shard_index() * length, length, source.place, state.own.place);
    }
    operations_.AllGather(stream_, communicator, state.full, source);
    builder_.Record(stream_, state.gathered);
  }
  if (!state.has_kept) return;
  builder_.RecordStream(stream_, state.kept.buffer());
  operations_.Release(state.kept);
  state.has_kept = false;
}

}  // namespace stepcast::lowering
