#include "src/model/parameter_counts.h"

#include <cstddef>
#include <variant>
#include <vector>

#include "src/model/architecture.h"

namespace stepcast::model {

ActiveParameters ActiveParametersOf(const Model& model) {
  const auto* architecture = std::get_if<Architecture>(&model.source);
  const auto active = [&](const Tensor& tensor) {
    if (tensor.group != ParameterGroup::kExperts || architecture == nullptr) return tensor.elements;
    const Experts& experts = architecture->experts;
    return tensor.elements / experts.count * experts.per_token;
  };
  ActiveParameters parameters;
  for (const std::vector<Tensor>* tensors : {&model.tensors, &model.frozen}) {
    for (const Tensor& tensor : *tensors) parameters.all += active(tensor);
  }
  parameters.without_input_embedding = parameters.all;
  if (architecture != nullptr && !architecture->tie_embeddings) {
    parameters.without_input_embedding -= architecture->vocabulary * architecture->hidden;
  }
  return parameters;
}

}  // namespace stepcast::model
