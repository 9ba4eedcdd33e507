#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/base/time.h"
#include "src/model/architecture.h"
#include "src/model/layer.h"
#include "src/model/layer_work.h"

// The trained model: its parameter tensors in registration order, and its layers. A model is built
// from an architecture (architecture.h) or from a layer list, whose layer times are input.
namespace stepcast::model {

struct Model {
  std::string name;
  std::vector<Tensor> tensors;   // trained tensors, in registration order
  std::vector<Tensor> frozen{};  // untrained tensors
  std::vector<Layer> layers;     // in execution order of forward
  // The description that the model was built from; BuildWork reads it.
  std::variant<Architecture, LayerList> source;

  // Returns the number of trained elements. Every tensor is counted once, including tied tensors.
  std::int64_t parameter_count() const;
  std::int64_t frozen_count() const;  // untrained elements; tied tensors are counted once
  std::int64_t all_parameter_count() const { return parameter_count() + frozen_count(); }
  // Returns whether the model is a layer list. Layer times are then inputs, so there is no FLOP
  // count and MFU is undefined.
  bool is_layer_list() const { return std::holds_alternative<LayerList>(source); }
};

// Builds a model. The architecture must pass Check (architecture.h); a layer list must have been
// checked.
Model Build(std::string name, const Architecture& architecture);
Model Build(std::string name, const LayerList& list);
// Returns the model with adapters. All parameters of `model` become frozen. The architecture with
// adapters must pass CheckLora.
Model Adapted(const Model& model, const Lora& lora);
// FrozenType returns the storage type of the frozen tensor with index `frozen` in Model::frozen.
// FrozenBytes returns the bytes of that tensor or, without an index, of all frozen tensors.
DataType FrozenType(const Model& model, int frozen);
Bytes FrozenBytes(const Model& model, int frozen);
Bytes FrozenBytes(const Model& model);

// Returns the work of each distinct layer for one micro-batch, indexed by WorkOfLayers. The batch
// in `options` does not affect a layer list, whose values already apply to one micro-batch.
std::vector<LayerWork> BuildWork(const Model& model, const WorkOptions& options);

// Returns, for each layer, the index of its work: of the layer's variant (layer_variant.h), or of
// its entry in the layer list. `begins` has the first layer of each pipeline chunk, and `stages`
// the stage of each chunk (empty: each stage has one chunk). If the first blocks are checkpointed
// (Share), they are counted in each chunk. If a fraction of the blocks is checkpointed, it is
// counted over all chunks of one stage.
std::vector<int> WorkOfLayers(const Model& model, const WorkOptions& options,
                              std::span<const int> begins = {}, std::span<const int> stages = {});

// Returns LayerList::optimizer_step. Zero for an architecture: src/cost computes the time of its
// optimizer kernels.
Time GivenOptimizerStep(const Model& model);

}  // namespace stepcast::model
