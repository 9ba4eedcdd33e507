#pragma once

#include <cstdint>
#include <vector>

#include "src/model/layer_operators.h"
#include "src/model/layer_tape.h"
#include "src/model/layer_work.h"
#include "src/model/transformer_tensors.h"

// The work of the first and last layers of models whose input or prediction is not words, and of
// encoder-decoders.
namespace stepcast::model {

// Returns the number of vocabulary rows on each rank, including padding.
std::int64_t VocabularyOfRank(const Architecture& a, const WorkOptions& options);

// Returns `options` with another sequence length: `tokens` or, if `tokens` is 0, the length in
// `options` plus `more`.
WorkOptions OfLength(WorkOptions options, std::int64_t tokens, std::int64_t more = 0);

// Adds the kernels that expand the table of relative distances of the encoder's blocks
// (`of_encoder`) or of all other blocks. Does nothing if these blocks have no table.
void AppendDistances(const Architecture& a, bool of_encoder,
                     const std::vector<ModuleParameter>& parameters, LayerOperators& operators,
                     const WorkOptions& options);

// Returns the work of the first layer of a model that reads rows of numbers (ValueInput).
LayerWork ValueInputWork(const Architecture& a, const WorkOptions& options);
// Returns the work of the first layer of an encoder-decoder. The layer outputs the encoder's rows.
// The layer also keeps the decoder's rows until the decoder's first block reads them; the rows are
// part of that block's work.
LayerWork EncoderInputWork(const Architecture& a, const WorkOptions& options);
// Returns the work of the last layer of a diffusion model, which reads all rows of the last block.
LayerWork ModulatedHeadWork(const Architecture& a, const WorkOptions& options,
                            const std::vector<ModuleParameter>& parameters);
// Returns the work of the last layer of a model that predicts classes or values. `normalized` is
// the layer's normalized input; `parameters` are the layer's parameters. Finishes `tape`.
LayerWork PredictionWork(const Architecture& a, const WorkOptions& options,
                         const std::vector<ModuleParameter>& parameters, LayerOperators& operators,
                         const Operand& normalized, LayerTape& tape);

}  // namespace stepcast::model
