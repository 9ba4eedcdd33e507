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

// The trained model: parameter tensors in registration order, and the layers that use them. Built
// from an architecture (architecture.h) or from a layer list with given times.
namespace stepcast::model {

struct Model {
  std::string name;
  std::vector<Tensor> tensors;   // trained tensors, in registration order
  std::vector<Tensor> frozen{};  // untrained tensors
  std::vector<Layer> layers;     // in execution order of forward
  // The description that the model was built from; BuildWork reads it.
  std::variant<Architecture, LayerList> source;

  // trained elements; every tensor counts once, including tied ones
  std::int64_t parameter_count() const;
  std::int64_t frozen_count() const;  // untrained elements, likewise
  std::int64_t all_parameter_count() const { return parameter_count() + frozen_count(); }
  // Layer times are inputs, so there is no FLOP count and MFU is undefined.
  bool is_layer_list() const { return std::holds_alternative<LayerList>(source); }
};

// Builds a model. The description must satisfy Check() (architecture.h) or be a checked layer list.
Model Build(std::string name, const Architecture& architecture);
Model Build(std::string name, const LayerList& list);
// The model with adapters and its own parameters frozen. Its architecture must satisfy CheckLora.
Model Adapted(const Model& model, const Lora& lora);
// Storage type and bytes of frozen tensors, by index in Model::frozen; bytes of all of them.
DataType FrozenType(const Model& model, int frozen);
Bytes FrozenBytes(const Model& model, int frozen);
Bytes FrozenBytes(const Model& model);

// The work of each distinct layer for one micro-batch, indexed by WorkOfLayers. A layer list
// ignores the batch: its times and activations are given for one micro-batch.
std::vector<LayerWork> BuildWork(const Model& model, const WorkOptions& options);

// For each layer, the index of its work: that of its variant (layer_variant.h), or of its entry in
// the layer list. `begins`: the first layers of a pipeline's chunks, from which checkpointed blocks
// are counted. `stages`: the stage of each chunk; a fraction of the blocks (Share) is counted
// through all chunks of one stage. Empty: no stage has several chunks.
std::vector<int> WorkOfLayers(const Model& model, const WorkOptions& options,
                              std::span<const int> begins = {}, std::span<const int> stages = {});

// The given time of a layer list's update of all parameters on one device. Zero for an
// architecture, whose update is priced as kernels.
Time GivenOptimizerStep(const Model& model);

}  // namespace stepcast::model
