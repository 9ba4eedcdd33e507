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

// The trained model: its parameter tensors in registration order, and the layers that use them. A
// model is built from an architecture (architecture.h) or from a layer list with given times.
namespace stepcast::model {

struct Model {
  std::string name;
  std::vector<Tensor> tensors;   // trained tensors, in registration order
  std::vector<Tensor> frozen{};  // untrained tensors
  std::vector<Layer> layers;     // in execution order of forward
  // The description that the model was built from; BuildWork reads it.
  std::variant<Architecture, LayerList> source;

  // Returns the number of trained elements. Every tensor counts once, including every tied tensor.
  std::int64_t parameter_count() const;
  std::int64_t frozen_count() const;  // untrained elements; tied tensors count once
  std::int64_t all_parameter_count() const { return parameter_count() + frozen_count(); }
  // Returns whether the model is a layer list. Layer times are then inputs, so there is no FLOP
  // count and MFU is undefined.
  bool is_layer_list() const { return std::holds_alternative<LayerList>(source); }
};

// Builds a model. The architecture must pass Check (architecture.h); a layer list must have been
// checked.
Model Build(std::string name, const Architecture& architecture);
Model Build(std::string name, const LayerList& list);
// Returns the model with adapters; all its own parameters are frozen. Its architecture must pass
// CheckLora.
Model Adapted(const Model& model, const Lora& lora);
// FrozenType returns the storage type of the frozen tensor with index `frozen` in Model::frozen.
// FrozenBytes returns the bytes of that tensor or, without an index, of all frozen tensors.
DataType FrozenType(const Model& model, int frozen);
Bytes FrozenBytes(const Model& model, int frozen);
Bytes FrozenBytes(const Model& model);

// Returns the work of each distinct layer for one micro-batch, indexed by WorkOfLayers. A layer
// list ignores the batch in `options`, because its times and activations are given for one
// micro-batch.
std::vector<LayerWork> BuildWork(const Model& model, const WorkOptions& options);

// Returns, for each layer, the index of its work. This is the index of the layer's variant
// (layer_variant.h), or of its entry in the layer list. `begins` has the first layer of each
// pipeline chunk, where the count of checkpointed blocks starts. `stages` has the stage of each
// chunk. A fraction of the blocks (Share) is counted through all chunks of one stage. If `stages`
// is empty, no stage has several chunks.
std::vector<int> WorkOfLayers(const Model& model, const WorkOptions& options,
                              std::span<const int> begins = {}, std::span<const int> stages = {});

// Returns the time that a layer list states for the update of all parameters on one device. Zero
// for an architecture, because the kernels of its update are priced.
Time GivenOptimizerStep(const Model& model);

}  // namespace stepcast::model
