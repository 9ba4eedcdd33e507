#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/base/time.h"
#include "src/model/architecture.h"
#include "src/model/layer_list.h"
#include "src/model/recomputation.h"

// What is trained: parameter tensors in registration order, and per layer the kernels of forward
// and backward with the tensors that autograd keeps between the two. Built from an architecture
// (architecture.h) or from a layer list with given times.
namespace stepcast::model {

// One parameter tensor as the framework registers it.
struct Tensor {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;
};

enum class LayerKind : std::uint8_t { kEmbedding, kBlock, kHead };

// A module that runs as a whole: the embedding, one transformer block, the head (final norm, output
// projection and loss). Layers stand in execution order.
struct Layer {
  std::string name;  // "model.layers.0"
  LayerKind kind = LayerKind::kBlock;
  // Indices into Model::tensors. The layer's operators call them by their position here. A tied
  // tensor stands in two layers (GPT-2: embedding and head); the first one owns it.
  std::vector<int> tensors;
  int work = 0;  // which LayerWork; identical layers share one
};

// What one micro-batch on one rank looks like.
struct WorkOptions {
  std::int64_t micro_batch_size = 1;  // sequences
  std::int64_t sequence_length = 1;   // tokens
  DataType compute = DataType::kBf16;
  Checkpointing checkpointing = Checkpointing::kNone;
  Attention attention = Attention::kFlash;
};

// A tensor that lives between operators: kept for backward, or handed on.
struct Activation {
  std::string name;  // "mlp.gate_proj output"
  Bytes bytes;
};

struct ForwardOperator {
  Kernel kernel;
  // Activations of this layer (indices into LayerWork::saved or, in `recompute`,
  // LayerWork::recomputed) that come to life with this kernel.
  std::vector<int> creates;
};

struct BackwardOperator {
  Kernel kernel;
  // Positions in Layer::tensors whose gradient contribution from this layer is complete after it.
  std::vector<int> gradients;
};

// The work of one layer for one micro-batch, in execution order.
struct LayerWork {
  std::vector<Activation> saved;  // live from forward to the end of the layer's backward
  std::vector<ForwardOperator> forward;
  // Run at the start of the layer's backward; empty without recomputation. `recomputed` lives from
  // there to the end of the layer's backward.
  std::vector<Activation> recomputed;
  std::vector<ForwardOperator> recompute;
  std::vector<BackwardOperator> backward;
  // Besides what is saved: temporaries alive at once while the layer's forward, or backward,
  // runs (activation gradients, softmax scratch, unsaved outputs).
  Bytes forward_transient;
  Bytes backward_transient;
};

struct Model {
  std::string name;
  std::vector<Tensor> tensors;  // registration order
  std::vector<Layer> layers;    // execution order of forward
  // Where it came from: the source of the work.
  std::variant<Architecture, LayerList> source;

  std::int64_t parameter_count() const;  // every tensor once, tied ones too
  // Layer times are inputs: there is no FLOP count, so MFU has no meaning.
  bool is_layer_list() const { return std::holds_alternative<LayerList>(source); }
};

// Build a model. The description must satisfy Check() (architecture.h) or be a checked layer list.
Model Build(std::string name, const Architecture& architecture);
Model Build(std::string name, const LayerList& list);

// The work of each distinct layer for one micro-batch, indexed by Layer::work. A layer list
// ignores the batch: its times and activations are those of one micro-batch as given.
std::vector<LayerWork> BuildWork(const Model& model, const WorkOptions& options);

// What the optimizer adds to a step of a layer list: its given time for all parameters on one
// device; zero for an architecture (the update is then priced as a kernel).
Time GivenOptimizerStep(const Model& model);

}  // namespace stepcast::model
