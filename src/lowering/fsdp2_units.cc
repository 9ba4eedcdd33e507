#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "src/lowering/layouts.h"
#include "src/lowering/units.h"

namespace stepcast::lowering {
namespace {

using program::Category;

// Rows are those of the first dimension. If experts are fewer than the ranks, rows are those of the
// second dimension (torchtitan/models/llama4/infra/parallelize.py, apply_fsdp: Shard(1)).
std::int64_t ShardElements(const model::Tensor& tensor, std::int64_t ranks) {
  std::int64_t rows = tensor.shape.empty() ? 1 : tensor.shape.front();
  if (tensor.group == model::ParameterGroup::kExperts && ranks > rows) rows = tensor.shape[1];
  const std::int64_t row = rows == 0 ? 0 : tensor.elements / rows;
  return ShardLength(rows, ranks) * row;
}

// This rank's elements of each tensor of a unit, padded rows included: the local parts of DTensors,
// as the optimizer sees them. Blocks are alike, so the result for the previous unit is usually
// reused.
std::vector<std::int64_t> ShardElements(const model::Model& model, const std::vector<int>& own,
                                        std::int64_t ranks, const ShardedUnit* before) {
  const std::vector<model::Tensor>& tensors = model.tensors;
  if (before != nullptr) {
    const bool alike = std::equal(
        own.begin(), own.end(), before->tensors.begin(), before->tensors.end(), [&](int a, int b) {
          return tensors[a].elements == tensors[b].elements && tensors[a].shape == tensors[b].shape;
        });
    if (alike) return before->tensor_elements;
  }
  std::vector<std::int64_t> elements;
  for (const int t : own) elements.push_back(ShardElements(tensors[t], ranks));
  return elements;
}

// `before`: the previous unit of the same group, or nullptr.
ShardedUnit AddUnit(TrainingStep& step, Operations& operations, const Unit& unit,
                    model::ParameterGroup group, const Fsdp2Shards& shards,
                    const ShardedUnit* before) {
  const model::Model& model = step.model();
  const plan::Training& training = step.plan().training;
  ProgramBuilder& builder = step.builder();
  const bool experts = group == model::ParameterGroup::kExperts;
  const Index name = builder.AddText(experts ? unit.name + ".experts" : unit.name);
  const Fsdp2Shards::Mesh mesh = shards.meshes[static_cast<std::size_t>(group)];
  const std::int64_t ranks = mesh.ranks;
  const DataType compute_type = plan::ComputeType(training.precision);
  ShardedUnit u;
  u.group = group;
  u.root = unit.root;
  u.first_layer = unit.layers.front();
  u.last_layer = unit.layers.back();
  for (const int t : unit.tensors) {
    const bool of_experts =
        shards.has_experts_apart && model.tensors[t].group == model::ParameterGroup::kExperts;
    if (of_experts == experts) u.tensors.push_back(t);
  }
  const std::vector<int> own_frozen = experts ? std::vector<int>() : unit.frozen;
  std::int64_t exact = 0;  // sum of the unpadded tensors
  for (const int t : u.tensors) exact += model.tensors[t].elements;
  u.tensor_elements = ShardElements(model, u.tensors, ranks, before);
  for (const std::int64_t elements : u.tensor_elements) u.shard_elements += elements;
  std::int64_t frozen = 0, exact_frozen = 0;
  for (const int t : own_frozen) {
    const model::Tensor& tensor = model.frozen[static_cast<std::size_t>(t)];
    frozen += ShardElements(tensor, ranks);
    exact_frozen += tensor.elements;
  }
  u.frozen = operations.AddRange(
      builder.Named(name, "/frozen shard"), frozen,
      own_frozen.empty() ? compute_type : model::FrozenType(model, own_frozen.front()),
      Category::kParameter);
  if (frozen > 0) operations.Allocate(step.compute(), u.frozen);
  u.gathered_elements = (u.shard_elements + frozen) * ranks;
  u.empty = u.gathered_elements == 0;
  u.has_backward = std::any_of(unit.layers.begin(), unit.layers.end(), [&](int layer) {
    return !step.works()[static_cast<std::size_t>(step.work_of(layer))].backward.empty();
  });
  Pieces parts;
  if (builder.describes_data_flow()) {
    u.blocks = BlockLayout(model, u.tensors, u.tensor_elements, ranks);
    u.gather_blocks = u.blocks.Before(frozen);
    if (shards.kept_ranks > 0) u.kept_blocks = u.gather_blocks.Over(shards.kept_ranks);
    for (const BlockLayout::Block& block : u.blocks.blocks()) {
      parts.push_back(u.blocks.Own(block, mesh.index));
    }
  }
  std::vector<UpdatedTensor> updated;
  for (std::size_t i = 0; i < u.tensors.size(); ++i) {
    if (model.tensors[u.tensors[i]].elements == 0) continue;
    updated.push_back({.tensor = u.tensors[i], .elements = u.tensor_elements[i]});
  }
  u.state = AddShardedState(step, operations, name, u.shard_elements, exact, ranks,
                            std::move(parts), std::move(updated));
  u.state.group = group;
  const DataType reduced_in = training.reduce_dtype;
  const auto whole = [&](const char* what, std::int64_t elements, DataType type,
                         Category category) {
    return operations.AddRange(builder.Named(name, what), elements, type, category, exact);
  };
  const auto gathered = [&](const char* what) {
    return operations.AddRange(builder.Named(name, what), u.gathered_elements, compute_type,
                               Category::kCommunication, exact + exact_frozen);
  };
  u.gathered = gathered("/gather buffer");
  u.full = gathered("/parameters");
  if (shards.kept_ranks > 0 && !u.root) {
    u.kept = operations.AddRange(builder.Named(name, "/kept shard"),
                                 ShardLength(u.gathered_elements, shards.kept_ranks), compute_type,
                                 Category::kCommunication);
  }
  u.gather_done = builder.AddEvent(builder.Named(name, " gathered"));
  u.copy_out_done = builder.AddEvent(builder.Named(name, " copied out"));
  u.kept_written = builder.AddEvent(builder.Named(name, " kept"));

  u.reduce_input =
      whole("/reduce-scatter input", u.shard_elements * ranks, reduced_in, Category::kGradient);
  u.reduce_output =
      operations.AddShard(builder.Named(name, "/reduce-scatter output"), u.shard_elements,
                          reduced_in, Category::kGradient, exact, ranks);
  if (shards.accumulates) {
    u.accumulated = whole("/accumulated gradients", exact, reduced_in, Category::kGradient);
  }
  u.reduced = builder.AddEvent(builder.Named(name, " reduce-scattered"));
  u.post_reduced = builder.AddEvent(builder.Named(name, " gradient ready"));
  return u;
}

}  // namespace

std::vector<ShardedUnit> AddShardedUnits(TrainingStep& step, Operations& operations,
                                         const Units& wrapping, const Fsdp2Shards& shards) {
  std::vector<ShardedUnit> units;
  units.reserve(2 * wrapping.units.size());
  for (const model::ParameterGroup group : model::kParameterGroups) {
    const bool experts = group == model::ParameterGroup::kExperts;
    if (experts && !shards.has_experts_apart) continue;
    const std::size_t first = units.size();
    for (std::size_t i = 0; i < wrapping.units.size(); ++i) {
      const Unit& unit = wrapping.units[i];
      const bool has_any =
          !experts || std::any_of(unit.tensors.begin(), unit.tensors.end(), [&](int tensor) {
            return step.model().tensors[tensor].group == model::ParameterGroup::kExperts;
          });
      if (!has_any) continue;
      if (experts) units[i].experts = static_cast<int>(units.size());
      const ShardedUnit* before = units.size() > first ? &units.back() : nullptr;
      units.push_back(AddUnit(step, operations, unit, group, shards, before));
    }
  }
  return units;
}

}  // namespace stepcast::lowering
