#pragma once

#include <cstdint>
#include <vector>

#include "src/model/layer_operators.h"
#include "src/model/layer_tape.h"
#include "src/model/layer_work.h"
#include "src/model/transformer_tensors.h"

// The work of the first and last layers of models that read or predict something other than words,
// or that have an encoder before the decoder.
namespace stepcast::model {

// Rows of the vocabulary that a rank has, with padding.
std::int64_t VocabularyOfRank(const Architecture& a, const WorkOptions& options);

// The options of blocks whose sequences have `tokens` tokens; 0: those of the batch and `more`.
WorkOptions OfLength(WorkOptions options, std::int64_t tokens, std::int64_t more = 0);

// Expands the table of distances of the encoder's or the other blocks, if they have one.
void AppendDistances(const Architecture& a, bool of_encoder,
                     const std::vector<ModuleParameter>& parameters, LayerOperators& operators,
                     const WorkOptions& options);

// The first layer of a model that reads rows of numbers.
LayerWork ValueInputWork(const Architecture& a, const WorkOptions& options);
// The first layer of an encoder-decoder: its output are the encoder's rows. The decoder's rows wait
// for its first block, which counts them as its input.
LayerWork EncoderInputWork(const Architecture& a, const WorkOptions& options);
// The last layer of a diffusion model, from all rows of the last block.
LayerWork ModulatedHeadWork(const Architecture& a, const WorkOptions& options,
                            const std::vector<ModuleParameter>& parameters);
// The last layer of a model that predicts classes or values, from the normalized rows. `parameters`
// are the layer's. Finishes the tape.
LayerWork PredictionWork(const Architecture& a, const WorkOptions& options,
                         const std::vector<ModuleParameter>& parameters, LayerOperators& operators,
                         const Operand& normalized, LayerTape& tape);

}  // namespace stepcast::model
