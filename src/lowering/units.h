#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/lowering/buckets.h"
#include "src/model/model.h"
#include "src/plan/data_parallel.h"

// What is gathered and freed together when parameters are sharded.
namespace stepcast::lowering {

struct Unit {
  std::string name;           // of its first layer, or "root"
  std::vector<int> layers;    // ascending; forward needs it from the first to the last of them
  std::vector<int> tensors;   // owned, registration order
  std::vector<int> frozen;    // the same of Model::frozen
  std::int64_t elements = 0;  // of tensors
  bool root = false;          // all that is in no unit of its own: UnitPerBlock, UnitPerModule
};

struct Units {
  std::vector<Unit> units;    // in the order of their first layers
  std::vector<int> of_layer;  // unit of each layer
};

// Every layer a unit of its own; layers that share a tied tensor are one unit.
Units UnitPerLayer(const model::Model& model);

// What FSDP wraps (plan::DataParallel::units, ::unit_blocks). PyTorch's usual wrapping is
// `fully_shard` on every block and then on the model: every block a unit, all the rest (embedding,
// final norm, head) the root unit. kLayer: embedding and head are units, too, as torchtitan and
// Galvatron wrap; layers that share a tied tensor make up the root unit, for a unit's parameters
// are its own. kModel: everything is the root's. `chunk_begins`: of a pipeline stage, the first
// layer of each of its chunks, which is a module with a root of its own.
Units WrappedUnitsOf(const model::Model& model, const plan::DataParallel& plan,
                     const std::vector<int>& chunk_begins = {0});

// One bucket for each unit, in the order in which the units' gradients are complete, where those of
// tensors are in this `order`, which is sorted by it. The buckets point into `order`.
std::vector<Bucket> BucketPerUnit(const Units& units, std::vector<int>& order);

// The order in which frameworks with hooks visit units: the root first, both forward and backward,
// for its hooks are around all others'; then the blocks.
struct UnitOrder {
  UnitOrder() = default;
  // `has_parameters`: by unit.
  UnitOrder(const Units& units, const std::vector<bool>& has_parameters);
  // Of the units that begin with one of the layers [first, end).
  UnitOrder(const Units& units, const std::vector<bool>& has_parameters, int first, int end);

  // The unit that comes `distance` units later, forward or (negative) backward; -1: none.
  int Later(int unit, std::int64_t distance) const;

  int root = -1;            // unit; -1: there is none
  std::vector<int> blocks;  // the other units with parameters, in forward order
  std::vector<int> place;   // by unit: in blocks; -1: not there
};

}  // namespace stepcast::lowering
