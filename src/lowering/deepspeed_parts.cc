#include "src/lowering/deepspeed_parts.h"

#include <algorithm>
#include <cstddef>

#include "fmt/format.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {

using model::ParameterGroup;
using program::Category;
using program::kNone;

namespace {

constexpr std::int64_t kMostOfExpertGroup = 178'956'971;

}  // namespace

FlatLayout DeepSpeedLayout(const model::Model& model, std::span<const int> tensors,
                           std::int64_t ranks, bool round_robin) {
  FlatLayout flat;
  const std::size_t stride = round_robin ? static_cast<std::size_t>(ranks) : 1;
  for (std::size_t start = 0; start < std::min(stride, tensors.size()); ++start) {
    for (std::size_t t = start; t < tensors.size(); t += stride) {
      flat.Append(tensors[t], model.tensors[tensors[t]].elements);
    }
  }
  flat.Cut(ranks, 2 * ranks);
  return flat;
}

Holding LargestHolding(const FlatLayout& flat) {
  Holding largest;
  // Tensors of a part, from the one that contains its start to the one that contains its end.
  auto first = flat.tensors.begin();
  for (std::int64_t rank = 0; rank < flat.ranks; ++rank) {
    const std::int64_t begin = rank * flat.shard, end = begin + flat.shard;
    Holding holding;
    while (first != flat.tensors.end() && first->offset + first->elements <= begin) ++first;
    for (auto tensor = first; tensor != flat.tensors.end() && tensor->offset < end; ++tensor) {
      ++holding.tensors;
      holding.elements += tensor->elements;
    }
    largest.tensors = std::max(largest.tensors, holding.tensors);
    largest.elements = std::max(largest.elements, holding.elements);
  }
  return largest;
}

FlatGroups::FlatGroups(const model::Model& model, const OfParameterGroups<std::int64_t>& ranks,
                       bool experts_apart, bool round_robin)
    : of_tensors_(model.tensors.size()), offsets_(model.tensors.size()) {
  const auto add = [&](model::ParameterGroup group, std::span<const int> tensors) {
    Add(model, group, tensors, ranks[static_cast<std::size_t>(group)], round_robin);
  };
  std::vector<int> dense, experts;
  for (std::size_t t = 0; t < model.tensors.size(); ++t) {
    const bool apart = experts_apart && model.tensors[t].group == model::ParameterGroup::kExperts;
    (apart ? experts : dense).push_back(static_cast<int>(t));
  }
  add(model::ParameterGroup::kDense, dense);
  std::int64_t elements = 0;
  std::vector<int> group;
  for (const int tensor : experts) {
    if (!group.empty() && elements + model.tensors[tensor].elements > kMostOfExpertGroup) {
      add(model::ParameterGroup::kExperts, group);
      group.clear();
      elements = 0;
    }
    group.push_back(tensor);
    elements += model.tensors[tensor].elements;
  }
  if (!group.empty()) add(model::ParameterGroup::kExperts, group);
}

void FlatGroups::Add(const model::Model& model, model::ParameterGroup ranks_of,
                     std::span<const int> tensors, std::int64_t ranks, bool round_robin) {
  for (const int tensor : tensors) of_tensors_[static_cast<std::size_t>(tensor)] = groups_.size();
  groups_.push_back(
      {.ranks_of = ranks_of, .flat = DeepSpeedLayout(model, tensors, ranks, round_robin)});
  for (const Piece& piece : groups_.back().flat.tensors) {
    offsets_[static_cast<std::size_t>(piece.tensor)] = piece.offset;
  }
}

std::vector<DeepSpeedBucket> BucketsOf(const model::Model& model, std::span<const int> order,
                                       const FlatGroups& groups, std::int64_t limit) {
  std::vector<DeepSpeedBucket> buckets;
  std::int64_t last_owner = -1;
  auto last_ranks = model::ParameterGroup::kDense;
  for (const int tensor : order) {
    const std::int64_t elements = model.tensors[tensor].elements;
    if (buckets.empty() || buckets.back().elements + elements > limit) {
      buckets.emplace_back();
      last_owner = -1;
    }
    const FlatGroup& group = groups.of(tensor);
    DeepSpeedBucket& bucket = buckets.back();
    DeepSpeedBucket::Share& share = bucket.shares[static_cast<std::size_t>(group.ranks_of)];
    if (share.elements == 0) share.first = bucket.elements;
    bucket.tensors.push_back(tensor);
    bucket.elements += elements;
    share.elements += elements;
    bucket.extra_large = elements > limit;
    if (elements == 0) continue;
    const std::int64_t offset = groups.offset_of(tensor), part = group.flat.shard;
    const std::int64_t first = offset / part, last = (offset + elements - 1) / part;
    const bool goes_on = first == last_owner && group.ranks_of == last_ranks;
    share.parts += last - first + (goes_on ? 0 : 1);
    last_owner = last;
    last_ranks = group.ranks_of;
  }
  return buckets;
}

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
    if (chunk.communicator != kNone) {
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
