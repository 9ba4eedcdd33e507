#include "src/lowering/deepspeed_parts.h"

#include <cstddef>

#include "fmt/format.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {
using program::Category;

void ChunkedReduction::AddChunks(Index communicator, std::int64_t ranks,
                                 std::span<const int> tensors) {
  constexpr std::int64_t kChunk = 500'000'000;
  ranks_ = ranks;
  ProgramBuilder& builder = step_.builder();
  const DataType type = step_.plan().training.parameter_dtype;
  const DataType sent = step_.plan().training.reduce_dtype;
  std::int64_t elements = 0;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const std::int64_t own = step_.model().tensors[tensors[t]].elements;
    if (elements == 0) chunks_.emplace_back().communicator = communicator;
    chunks_.back().pieces.push_back({.tensor = tensors[t], .elements = own, .offset = elements});
    elements += own;
    if (elements <= kChunk && t + 1 < tensors.size()) continue;
    const auto add = [&](const char* name, DataType of) {
      return operations_.AddRange({.first = builder.AddText(name)}, elements, of,
                                  Category::kCommunication);
    };
    chunks_.back().flat = add("flat bucket", type);
    if (sent != type) chunks_.back().sent = add("bucket as sent", sent);
    elements = 0;
  }
}

void ChunkedReduction::Reduce(const LocalGradients& gradients) {
  const StreamId compute = step_.compute();
  for (const Chunk& chunk : chunks_) {
    operations_.Allocate(compute, chunk.flat);
    operations_.Writes(chunk.flat);
    for (const Piece& piece : chunk.pieces) {
      const Range& gradient = gradients.range(piece.tensor);
      operations_.Reads(gradient);
      operations_.Moves(chunk.flat.Part(piece.offset, piece.elements), gradient,
                        1.0 / static_cast<double>(ranks_));
    }
    operations_.Run(compute, "flatten");
    const Range& place = chunk.sent ? chunk.sent : chunk.flat;
    if (chunk.sent) {
      operations_.Allocate(compute, chunk.sent);
      operations_.Copy(compute, "cast_bucket", chunk.sent, chunk.flat);
    }
    operations_.Updates(place);  // its values were divided on the way
    operations_.Run(compute, "divide");
    if (chunk.communicator != program::kNone) {
      operations_.AllReduce(compute, chunk.communicator, place);
    }
    if (chunk.sent) {
      operations_.Copy(compute, "cast_bucket", chunk.flat, chunk.sent);
      operations_.Release(chunk.sent);
    }
    for (const Piece& piece : chunk.pieces) {
      operations_.Copy(compute, "copy_from_bucket", gradients.range(piece.tensor),
                       chunk.flat.Part(piece.offset, piece.elements));
    }
    operations_.Release(chunk.flat);
  }
}

using model::ParameterGroup;
using program::Category;
using program::kNone;

DeepSpeedPartitions::DeepSpeedPartitions(TrainingStep& step, Operations& operations)
    : step_(step),
      operations_(operations),
      shards_(step.plan().data_parallel.zero_stage > 0),
      ranks_{ProcessGroupsOf(step.grids(), step.rank(), ParameterGroup::kDense),
             ProcessGroupsOf(step.grids(), step.rank(), ParameterGroup::kExperts)},
      flats_(step.model(), Shards(), plan::HasExpertGroup(step.plan()),
             step.plan().data_parallel.deepspeed.round_robin_gradients && shards_) {
  for (const FlatGroup& group : flats_.all()) {
    State& state = states_.emplace_back();
    const ProcessGroups& of = ranks_[IndexOf(group.ranks_of)];
    const std::int64_t index = shards_ ? of.data.Index(of.rank) : 0;
    state.own_first = index * group.flat.shard;
    if (step.builder().describes_data_flow()) state.own = PartsOf(group.flat, index);
    state.held = LargestHolding(group.flat);
    state.kept_first = held_.elements;
    held_.tensors += state.held.tensors;
    held_.elements += state.held.elements;
  }
}

OfParameterGroups<std::int64_t> DeepSpeedPartitions::Shards() const {
  if (!shards_) return {1, 1};
  return {ranks(ParameterGroup::kDense), ranks(ParameterGroup::kExperts)};
}

std::string DeepSpeedPartitions::PrefixOf(std::size_t g) {
  if (g == 0) return "";
  return g == 1 ? "expert " : fmt::format("expert group {} ", g);
}

void DeepSpeedPartitions::AddCommunicators() {
  const auto add = [this](const char* name, ParameterGroup of) {
    communicators_[IndexOf(of)] = step_.builder().AddCommunicator(name, ranks_[IndexOf(of)].data);
  };
  add("data", ParameterGroup::kDense);
  if (size() > 1) add("expert data", ParameterGroup::kExperts);
}

void DeepSpeedPartitions::AddParameters() {
  for (std::size_t g = 0; g < size(); ++g) {
    states_[g].parameters = operations_.AddRange(
        {.first = step_.builder().AddText(PrefixOf(g) + "flat parameters")}, flat(g).padded(),
        step_.plan().training.parameter_dtype, Category::kParameter, flat(g).exact);
    operations_.Allocate(step_.compute(), states_[g].parameters);
  }
}

std::int64_t DeepSpeedPartitions::ElementsOf(ParameterGroup ranks_of) const {
  std::int64_t elements = 0;
  for (const FlatGroup& group : flats_.all()) {
    if (group.ranks_of == ranks_of) elements += group.flat.exact;
  }
  return elements;
}

std::int64_t DeepSpeedPartitions::HeldOf(ParameterGroup ranks_of) const {
  std::int64_t elements = 0;
  for (std::size_t g = 0; g < size(); ++g) {
    if (flats_.all()[g].ranks_of == ranks_of) elements += states_[g].held.elements;
  }
  return elements;
}

Range DeepSpeedPartitions::Parameter(int tensor) const {
  const std::size_t g = flats_.group_of(tensor);
  return states_[g].parameters.Part(flats_.offset_of(tensor),
                                    step_.model().tensors[tensor].elements);
}

program::BufferUse DeepSpeedPartitions::OwnParameters(std::size_t g) const {
  return Writes(states_[g].parameters.Part(states_[g].own_first, flat(g).shard));
}

const Piece* DeepSpeedPartitions::OwnOf(int tensor) const {
  for (const Piece& own : Own(flats_.group_of(tensor))) {
    if (own.tensor == tensor) return &own;
  }
  return nullptr;
}

void DeepSpeedPartitions::Gather() {
  if (!shards_) return;
  for (std::size_t g = 0; g < size(); ++g) {
    const Index over = communicator(flats_.all()[g].ranks_of);
    if (over == kNone) continue;
    const Range& all = states_[g].parameters;
    operations_.AllGather(step_.compute(), over, all,
                          all.Part(states_[g].own_first, flat(g).shard));
  }
}

}  // namespace stepcast::lowering
