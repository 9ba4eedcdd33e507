#include "src/lowering/deepspeed_partitions.h"

#include "fmt/format.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {

using model::ParameterGroup;
using program::Category;
using program::kNone;

DeepSpeedPartitions::DeepSpeedPartitions(TrainingStep& step, Operations& operations)
    : step_(step),
      operations_(operations),
      shards_(step.plan().data_parallel.zero_stage > 0),
      ranks_{ProcessGroupsOf(step.plan(), step.rank(), ParameterGroup::kDense),
             ProcessGroupsOf(step.plan(), step.rank(), ParameterGroup::kExperts)},
      flats_(step.model(), Shards(), plan::HasExpertGroup(step.plan()),
             step.plan().data_parallel.deepspeed.round_robin_gradients && shards_) {
  for (const FlatGroup& group : flats_.all()) {
    State& state = states_.emplace_back();
    const ProcessGroups& of = ranks_[IndexOf(group.ranks_of)];
    if (shards_) state.own_first = of.data.Index(of.rank) * group.flat.part();
    state.held = group.flat.LargestHolding();
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
        step_.plan().training.parameter_dtype, Category::kParameter, flat(g).elements());
    operations_.Allocate(step_.compute(), states_[g].parameters);
  }
}

std::int64_t DeepSpeedPartitions::ElementsOf(ParameterGroup ranks_of) const {
  std::int64_t elements = 0;
  for (const FlatGroup& group : flats_.all()) {
    if (group.ranks_of == ranks_of) elements += group.flat.elements();
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
  return states_[g].parameters.Part(flat(g).offsets[tensor], flat(g).sizes[tensor]);
}

program::BufferUse DeepSpeedPartitions::OwnParameters(std::size_t g) const {
  return Writes(states_[g].parameters.Part(states_[g].own_first, flat(g).part()));
}

std::int64_t DeepSpeedPartitions::OwnOffset(int tensor, std::int64_t first) const {
  const std::size_t g = flats_.group_of(tensor);
  return flat(g).offsets[tensor] + first - states_[g].own_first;
}

void DeepSpeedPartitions::Gather() {
  if (!shards_) return;
  for (std::size_t g = 0; g < size(); ++g) {
    const Index over = communicator(flats_.all()[g].ranks_of);
    if (over == kNone) continue;
    const Range& all = states_[g].parameters;
    operations_.AllGather(step_.compute(), over, all,
                          all.Part(states_[g].own_first, flat(g).part()));
  }
}

}  // namespace stepcast::lowering
