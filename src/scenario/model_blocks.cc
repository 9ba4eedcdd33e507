#include <variant>

#include "src/model/architecture.h"
#include "src/model/stage.h"
#include "src/scenario/model_file.h"

namespace stepcast::scenario {

plan::ModelBlocks BlocksOf(const model::Model& model) {
  plan::ModelBlocks blocks{.count = model::Blocks(model), .has_ends = !model.is_layer_list()};
  if (const auto* architecture = std::get_if<model::Architecture>(&model.source)) {
    blocks.of_block = model::ProductWeightsOfBlock(*architecture);
    blocks.mixture = architecture->experts.exist();
    blocks.expert_groups = architecture->experts.groups;
    blocks.groups_per_token = architecture->experts.groups_per_token;
    blocks.attention_sinks = architecture->sinks;
    blocks.narrow_values = model::ValueSize(*architecture) != architecture->head_size;
    blocks.attention_chunks = architecture->attention_chunk > 0;
    blocks.distances = model::BiasedByDistance(*architecture, false) != nullptr ||
                       model::BiasedByDistance(*architecture, true) != nullptr;
    blocks.of_head = model::ProductWeightsOfHead(*architecture);
  }
  return blocks;
}

}  // namespace stepcast::scenario
