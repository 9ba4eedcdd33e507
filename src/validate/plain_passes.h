#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/model/model.h"
#include "src/scenario/scenario.h"

namespace stepcast::validate {

// What gradients are made from where a micro-batch's passes communicate: each rank has a word of 32
// bits, which it makes from what messages of other pipeline stages and collectives inside layers
// bring, and which goes into those that leave. The same as programs say it
// (lowering/pass_values.h), from the layers' lists of operations alone, with all ranks that share a
// micro-batch side by side.
class PlainPasses {
 public:
  explicit PlainPasses(const scenario::Scenario& scenario);

  // Neither pipeline stages nor ranks that divide layers or sequences: gradients are made from
  // rank, step and micro-batch.
  bool apart() const { return apart_; }
  // Ranks that divide layers, or stages that share out the vocabulary.
  int parts() const { return parts_; }
  // ... of all parts of the sequences, one behind the other.
  int ranks() const { return ranks_; }
  // The whole model, or as a stage that shares out the vocabulary has it: its layers are cut there.
  const model::Model& model() const { return apart_model_ ? *apart_model_ : *scenario_.model; }

  // [rank][layer][position in Layer::tensors]: the seed of the layer's contribution to the gradient
  // of its tensor. `data_rank`: among the data-parallel ones.
  using Seeds = std::vector<std::vector<std::vector<std::uint32_t>>>;
  Seeds Of(int data_rank, std::uint32_t step, int micro_batch) const;

 private:
  Seeds OfSharedVocabulary(int data_rank, std::uint32_t step, int micro_batch) const;
  const model::LayerWork& WorkOf(int layer) const {
    return works_[static_cast<std::size_t>(work_of_layer_[static_cast<std::size_t>(layer)])];
  }

  const scenario::Scenario& scenario_;
  const bool shares_vocabulary_;
  std::optional<model::Model> apart_model_;
  const bool apart_;
  const int parts_, ranks_;
  std::vector<model::LayerWork> works_;
  std::vector<int> work_of_layer_;
  std::vector<int> stages_;  // the chunks' layers: where they begin, and where the last one ends
  // [chunk][micro-batch]: backward comes in two passes; empty: it never does.
  std::vector<std::vector<bool>> split_;
};

}  // namespace stepcast::validate
