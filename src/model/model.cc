#include "src/model/model.h"

#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/model/transformer_tensors.h"
#include "src/model/transformer_work.h"

namespace stepcast::model {
namespace {

LayerWork ListedWork(const ListedLayer& layer) {
  LayerWork work;
  ForwardOperator forward{.kernel = {.name = layer.name + ".forward",
                                     .kind = KernelKind::kGiven,
                                     .given = layer.forward},
                          .creates = {}};
  if (layer.activation > Bytes()) {
    work.saved.push_back({"activation", layer.activation});
    forward.creates.push_back(0);
  }
  BackwardOperator backward{.kernel = {.name = layer.name + ".backward",
                                       .kind = KernelKind::kGiven,
                                       .given = layer.backward},
                            .gradients = {}};
  for (std::size_t i = 0; i < layer.parameters.size(); ++i) {
    backward.gradients.push_back(static_cast<int>(i));
  }
  work.output = layer.output;
  // A listed layer is one module.
  forward.parameters = backward.parameters = backward.gradients;
  work.forward.push_back(std::move(forward));
  work.backward.push_back(std::move(backward));
  return work;
}

}  // namespace

std::int64_t Model::parameter_count() const {
  std::int64_t count = 0;
  for (const Tensor& tensor : tensors) count += tensor.elements;
  return count;
}

Model Build(std::string name, const Architecture& architecture) {
  STEPCAST_CHECK(Check(architecture).empty(), "an impossible architecture");
  TransformerLayout layout = LayOut(architecture);
  return {.name = std::move(name),
          .tensors = std::move(layout.tensors),
          .layers = std::move(layout.layers),
          .source = architecture};
}

Model Build(std::string name, const LayerList& list) {
  Model model{.name = std::move(name), .tensors = {}, .layers = {}, .source = list};
  for (std::size_t i = 0; i < list.layers.size(); ++i) {
    const ListedLayer& listed = list.layers[i];
    STEPCAST_CHECK(listed.repeat >= 1, "a layer that does not occur");
    for (std::int64_t r = 0; r < listed.repeat; ++r) {
      Layer layer{.name = listed.repeat > 1 ? fmt::format("{}.{}", listed.name, r) : listed.name,
                  .kind = LayerKind::kBlock,
                  .tensors = {},
                  .work = static_cast<int>(i)};
      for (std::size_t p = 0; p < listed.parameters.size(); ++p) {
        layer.tensors.push_back(static_cast<int>(model.tensors.size()));
        model.tensors.push_back({.name = fmt::format("{}.parameter.{}", layer.name, p),
                                 .shape = {listed.parameters[p]},
                                 .elements = listed.parameters[p]});
      }
      model.layers.push_back(std::move(layer));
    }
  }
  return model;
}

std::vector<LayerWork> BuildWork(const Model& model, const WorkOptions& options) {
  if (const auto* architecture = std::get_if<Architecture>(&model.source)) {
    return TransformerWork(*architecture, options);
  }
  std::vector<LayerWork> works;
  for (const ListedLayer& layer : std::get<LayerList>(model.source).layers) {
    works.push_back(ListedWork(layer));
  }
  return works;
}

std::vector<int> WorkOfLayers(const Model& model, const WorkOptions& options) {
  const bool some = options.checkpointing != Checkpointing::kNone &&
                    !options.checkpointed_blocks.all() && !model.is_layer_list();
  std::vector<int> works;
  works.reserve(model.layers.size());
  std::int64_t block = 0;
  for (const Layer& layer : model.layers) {
    const bool plain =
        some && layer.kind == LayerKind::kBlock && !options.checkpointed_blocks.Has(block++);
    works.push_back(plain ? kPlainBlock : layer.work);
  }
  return works;
}

Time GivenOptimizerStep(const Model& model) {
  const auto* list = std::get_if<LayerList>(&model.source);
  return list == nullptr ? Time() : list->optimizer_step;
}

}  // namespace stepcast::model
