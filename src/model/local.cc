#include "src/model/local.h"

#include <cstddef>
#include <utility>
#include <variant>

#include "src/model/architecture.h"
#include "src/model/transformer_tensors.h"

namespace stepcast::model {

Model Localised(const Model& whole, std::int64_t ranks) {
  Model local = whole;
  const auto divide = [ranks](Tensor& tensor) {
    if (tensor.division != Division::kDimension0 && tensor.division != Division::kDimension1) {
      return;
    }
    const std::size_t dimension = tensor.division == Division::kDimension0 ? 0 : 1;
    std::int64_t& extent = tensor.shape[dimension];
    extent = (extent + ranks - 1) / ranks;
    tensor.elements = 1;
    for (const std::int64_t size : tensor.shape) tensor.elements *= size;
  };
  for (Tensor& tensor : local.tensors) divide(tensor);
  for (Tensor& tensor : local.frozen) divide(tensor);
  return local;
}

Model WithVocabularyApart(const Model& whole, std::int64_t stages) {
  const auto& architecture = std::get<Architecture>(whole.source);
  Model apart = whole;
  apart.layers.clear();
  const auto divide = [&](int number) {
    Tensor& tensor = apart.tensors[static_cast<std::size_t>(number)];
    if (std::exchange(tensor.of_vocabulary, true)) return;  // input and output layer share it
    tensor.shape[0] = (tensor.shape[0] + stages - 1) / stages;
    tensor.elements = tensor.shape[0] * tensor.shape[1];
  };
  Layer embedding = whole.layers.front(), head = whole.layers.back();
  Layer input = embedding, output = head;
  input.tensors = {embedding.tensors.front()};
  input.work = kInputLayer;
  output.tensors = {head.tensors.back()};
  output.work = kOutputLayer;
  divide(input.tensors.front());
  divide(output.tensors.front());
  apart.layers.push_back(std::move(input));
  if (architecture.position == Position::kLearned || architecture.dropout) {
    embedding.tensors.erase(embedding.tensors.begin());
    embedding.name += " (positions)";
    embedding.work = kPositionsLayer;
    apart.layers.push_back(std::move(embedding));
  }
  apart.layers.insert(apart.layers.end(), whole.layers.begin() + 1, whole.layers.end() - 1);
  head.tensors.pop_back();
  head.name += " (norm)";
  head.work = kFinalNormLayer;
  apart.layers.push_back(std::move(head));
  apart.layers.push_back(std::move(output));
  return apart;
}

}  // namespace stepcast::model
