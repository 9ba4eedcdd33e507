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

// What is trained: parameter tensors in registration order, and per layer the kernels of forward
// and backward with the tensors that autograd keeps between the two. Built from an architecture
// (architecture.h) or from a layer list with given times.
namespace stepcast::model {

struct Model {
  std::string name;
  std::vector<Tensor> tensors;   // that are trained; registration order
  std::vector<Tensor> frozen{};  // the others
  std::vector<Layer> layers;     // execution order of forward
  // Where it came from: the source of the work.
  std::variant<Architecture, LayerList> source;

  std::int64_t parameter_count() const;  // that are trained; every tensor once, tied ones too
  std::int64_t frozen_count() const;     // likewise
  std::int64_t all_parameter_count() const { return parameter_count() + frozen_count(); }
  // Layer times are inputs: there is no FLOP count, so MFU has no meaning.
  bool is_layer_list() const { return std::holds_alternative<LayerList>(source); }
};

// Build a model. The description must satisfy Check() (architecture.h) or be a checked layer list.
Model Build(std::string name, const Architecture& architecture);
Model Build(std::string name, const LayerList& list);
// The model with adapters: its own parameters frozen. Of an architecture that satisfies CheckLora.
Model Adapted(const Model& model, const Lora& lora);
// What the model keeps frozen tensors in, by the place in Model::frozen; all of them.
DataType FrozenType(const Model& model, int frozen);
Bytes FrozenBytes(const Model& model, int frozen);
Bytes FrozenBytes(const Model& model);

// The work of each distinct layer for one micro-batch, indexed as WorkOfLayers says. A layer list
// ignores the batch: its times and activations are those of one micro-batch as given.
std::vector<LayerWork> BuildWork(const Model& model, const WorkOptions& options);

// Which of them each layer does: the one of its variant (layer_variant.h), or of its entry in the
// layer list. Checkpointed blocks are counted anew from the layers `begins` on: a pipeline's
// chunks. `stages`: the stage that has each chunk; a part of the blocks (Share) is counted through
// all chunks of one. Empty: no stage has several.
std::vector<int> WorkOfLayers(const Model& model, const WorkOptions& options,
                              std::span<const int> begins = {}, std::span<const int> stages = {});

// What the optimizer adds to a step of a layer list: its given time for all parameters on one
// device; zero for an architecture (the update is then priced as a kernel).
Time GivenOptimizerStep(const Model& model);

}  // namespace stepcast::model
