#include "src/lowering/units.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <variant>

#include "fmt/format.h"
#include "src/lowering/step_parts.h"

namespace stepcast::lowering {
namespace {

// The union of the lists of the unit's layers, ascending.
std::vector<int> Owned(const model::Model& model, const Unit& unit,
                       std::vector<int> model::Layer::*used) {
  std::vector<int> owned;
  for (const int layer : unit.layers) {
    const std::vector<int>& own = model.layers[layer].*used;
    owned.insert(owned.end(), own.begin(), own.end());
  }
  std::sort(owned.begin(), owned.end());
  owned.erase(std::unique(owned.begin(), owned.end()), owned.end());
  return owned;
}

// Groups layers by `unit_of_layer` (labels less than twice the number of layers). Units are ordered
// by their first layers.
Units Group(const model::Model& model, const std::vector<int>& unit_of_layer) {
  Units result;
  std::vector<int> unit_of_label(2 * model.layers.size(), -1);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    int& unit = unit_of_label[unit_of_layer[i]];
    if (unit < 0) {
      unit = static_cast<int>(result.units.size());
      result.units.push_back(
          {.name = model.layers[i].name, .layers = {}, .tensors = {}, .frozen = {}});
    }
    result.units[unit].layers.push_back(static_cast<int>(i));
    result.of_layer.push_back(unit);
  }
  for (Unit& unit : result.units) {
    unit.tensors = Owned(model, unit, &model::Layer::tensors);
    unit.frozen = Owned(model, unit, &model::Layer::frozen);
    for (const int tensor : unit.tensors) unit.elements += model.tensors[tensor].elements;
    if (unit.layers.size() > 1) unit.name = "root";
  }
  return result;
}

// Layers with a label of at least the number of layers make up a root.
Units GroupWithRoot(const model::Model& model, const std::vector<int>& label) {
  Units units = Group(model, label);
  for (Unit& unit : units.units) {
    const int chunk = label[unit.layers.front()] - static_cast<int>(model.layers.size());
    unit.root = chunk >= 0;
    if (unit.root) {
      unit.name = chunk == 0 ? "root" : fmt::format("root of chunk {}", chunk);
    } else if (unit.layers.size() > 1) {
      unit.name =
          model.layers[unit.layers.front()].name + " to " + model.layers[unit.layers.back()].name;
    }
  }
  return units;
}

}  // namespace

Units UnitPerLayer(const model::Model& model) {
  std::vector<int> label(model.layers.size());
  std::iota(label.begin(), label.end(), 0);
  std::vector<int> first_user(model.tensors.size(), -1);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    for (const int tensor : model.layers[i].tensors) {
      if (first_user[tensor] < 0) {
        first_user[tensor] = static_cast<int>(i);
      } else {
        // A tied tensor joins this layer, and all layers with its label, to the unit of the first
        // user.
        const int from = label[i], to = label[first_user[tensor]];
        std::replace(label.begin(), label.end(), from, to);
      }
    }
  }
  return Group(model, label);
}

Units WrappedUnitsOf(const model::Model& model, const plan::DataParallel& plan,
                     const std::vector<int>& chunk_begins) {
  std::vector<int> users(model.tensors.size(), 0), of_frozen(model.frozen.size(), 0);
  for (const model::Layer& layer : model.layers) {
    for (const int tensor : layer.tensors) ++users[tensor];
    for (const int tensor : layer.frozen) ++of_frozen[tensor];
  }
  std::vector<int> label;
  std::int64_t block = 0;
  int first_of_unit = 0;
  std::size_t chunks = 0;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const model::Layer& layer = model.layers[i];
    if (chunks < chunk_begins.size() && chunk_begins[chunks] == static_cast<int>(i)) {
      ++chunks;
      block = 0;
    }
    label.push_back(static_cast<int>(model.layers.size() + chunks) - 1);
    if (plan.units == plan::WrappedUnits::kModel) continue;
    const bool shares = std::any_of(layer.tensors.begin(), layer.tensors.end(),
                                    [&](int tensor) { return users[tensor] > 1; }) ||
                        std::any_of(layer.frozen.begin(), layer.frozen.end(),
                                    [&](int tensor) { return of_frozen[tensor] > 1; });
    if (layer.kind == model::LayerKind::kBlock) {
      if (block++ % plan.unit_blocks == 0) first_of_unit = static_cast<int>(i);
      label[i] = first_of_unit;
    } else if (plan.units == plan::WrappedUnits::kLayer && !shares) {
      label[i] = static_cast<int>(i);
    }
  }
  return GroupWithRoot(model, label);
}

std::vector<Bucket> BucketPerUnit(const Units& units, std::vector<int>& order) {
  std::vector<std::size_t> unit_of_tensor(order.size()), missing, complete;
  for (const Unit& unit : units.units) {
    for (const int tensor : unit.tensors) unit_of_tensor[tensor] = missing.size();
    missing.push_back(unit.tensors.size());
  }
  std::vector<std::size_t> place(units.units.size());  // among the complete ones
  for (const int tensor : order) {
    const std::size_t unit = unit_of_tensor[tensor];
    if (--missing[unit] > 0) continue;
    place[unit] = complete.size();
    complete.push_back(unit);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return place[unit_of_tensor[a]] < place[unit_of_tensor[b]];
  });
  std::vector<Bucket> buckets;
  std::span<const int> rest = order;
  for (const std::size_t unit : complete) {
    const std::size_t size = units.units[unit].tensors.size();
    buckets.push_back({.tensors = rest.first(size), .elements = units.units[unit].elements});
    rest = rest.subspan(size);
  }
  return buckets;
}

UnitOrder::UnitOrder(const Units& units, const std::vector<bool>& has_parameters)
    : UnitOrder(units, has_parameters, 0, static_cast<int>(units.of_layer.size())) {}

UnitOrder::UnitOrder(const Units& units, const std::vector<bool>& has_parameters, int first,
                     int end) {
  for (std::size_t i = 0; i < units.units.size(); ++i) {
    const int unit = static_cast<int>(i);
    const bool own = units.units[i].layers.front() >= first && units.units[i].layers.front() < end;
    const bool block = own && has_parameters[i] && !units.units[i].root;
    place.push_back(block ? static_cast<int>(blocks.size()) : -1);
    if (block) blocks.push_back(unit);
    if (own && units.units[i].root) root = unit;
  }
}

int UnitOrder::Later(int unit, std::int64_t distance) const {
  const auto count = static_cast<std::int64_t>(blocks.size());
  if (unit != root && place[unit] < 0) return -1;
  const std::int64_t at = (unit == root && distance < 0 ? count : place[unit]) + distance;
  return at >= 0 && at < count ? blocks[at] : -1;
}

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
