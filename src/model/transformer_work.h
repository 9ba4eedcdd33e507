#pragma once

#include <vector>

#include "src/model/architecture.h"
#include "src/model/layer_work.h"

namespace stepcast::model {

// The kernels of a transformer's distinct layers in one micro-batch, one entry for each of
// VariantsOf (layer_variant.h): the embedding, the most frequent block, the head, and further
// blocks. Positions in Operation::gradients follow transformer_tensors.h. Only blocks are
// recomputed. A block keeps these bytes per token (e: element size, 2 in 16 bits):
//
//  GPT-2, MPT   e (4h + (a + 2g) d + a d + 2f), with dropout 2h more (masks);
//               h = a d, g = a, f = 4h: 34 h with dropout, 32 h without
//               (Korthikanti et al. 2022, arXiv 2205.05198)
//  Llama etc.   e (4h + 2 a d + 2 g d + 4f) + 8
//  flash        4a more (log-sum-exp)
//  norms of heads   (e d + 4) (a + g) more: their inputs, and a number for each head
//  latent       e (2 q + 2 k + r + a (2 (p + r) + 2 v)) + 8 instead of e (2 a d + 2 g d). The
//               latent vectors have q and k elements. Heads have p + r elements for queries and
//               for keys, and v elements for values
//  norms after attention and feed-forward, besides those before   2 (e h + 4) more
//  BERT         as GPT-2. The 4h elements are the block's input, two residual sums, and the first
//               norm's result
//  math         (e + [1 + e with attention dropout]) a s more; keys and values of grouped heads
//               are repeated first, and the copies are kept
//
// The head keeps its input, the normalized input and the FP32 log-softmax. In 16 bits, (2 + 4 + 4 +
// 4) bytes per token and vocabulary entry are alive at the peak of the head's backward. An
// encoder's head keeps values only for the tokens that it predicts: the FP32 log-softmax, and the
// inputs of both linear layers, of GELU and of the norm.
std::vector<LayerWork> TransformerWork(const Architecture& architecture, WorkOptions options);

}  // namespace stepcast::model
