#pragma once

#include <cstdint>

#include "src/model/model.h"

namespace stepcast::model {

// The part of the model that one rank of a tensor-parallel group of so many has: the same layers,
// with the shapes of its parts of the divided tensors. What does not divide is rounded up: the last
// rank's part is padded. Its works are those of WorkOptions::tensor ranks.
Model Localised(const Model& whole, std::int64_t ranks);

// The same model with the vocabulary shared out over so many stages of a pipeline, as one of them
// has it: the first layer and the last one are the input and the output layer with the stage's
// words alone, and what else embedding and head do are layers between these and the blocks. Of an
// architecture.
Model WithVocabularyApart(const Model& whole, std::int64_t stages);

}  // namespace stepcast::model
