#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "src/model/architecture.h"
#include "src/model/family.h"
#include "src/model/layer.h"

// The parameter tensors of a transformer, as Hugging Face transformers registers them. Names, order
// and shapes follow GPT2LMHeadModel, LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM,
// Qwen3ForCausalLM, GemmaForCausalLM, Gemma2ForCausalLM, Gemma3ForCausalLM, Phi3ForCausalLM,
// Olmo2ForCausalLM, GlmForCausalLM, Glm4ForCausalLM, Starcoder2ForCausalLM, GPTJForCausalLM,
// GPTNeoXForCausalLM, PhiForCausalLM, FalconForCausalLM, CohereForCausalLM, BertForPreTraining,
// MegatronBertForPreTraining and, with the options that llm-foundry adds, MptForCausalLM. Mixtures
// follow MixtralForCausalLM of transformers 5, which has one tensor for all experts of a block.
namespace stepcast::model {

struct ModuleParameter {
  std::string_view module;  // a name from the family's ModuleNames
  // The parameter's role: weight, bias, or the adapter's matrix for the input (A) or for the output
  // (B).
  enum class Of : std::uint8_t { kWeight, kBias, kLoraA, kLoraB } of = Of::kWeight;
  std::vector<std::int64_t> shape;
  std::vector<Split> splits{};
  bool sequence_parallel = false;  // see Tensor
  bool frozen = false;
  ParameterGroup group = ParameterGroup::kDense;
  bool direct = false;  // the module's only parameter; its name is the module's name
  int further = 0;      // its module of multi-token prediction, counted from 1; 0: none
};

// EmbeddingParameters, BlockParameters and HeadParameters return the parameters of one layer in
// registration order. An adapter's parameters follow the parameters of its linear layer. A tied
// head uses the embedding's weight, which is last in HeadParameters, with module `embedding`.
// Multi-token prediction runs with the head. HeadParameters first lists the parameters of the
// embedding that multi-token prediction reads, then its own parameters, then the head's.
std::vector<ModuleParameter> EmbeddingParameters(const Architecture& architecture);
// Returns the parameters of a block. If `experts`, the block's feed-forward layer is a mixture of
// experts.
std::vector<ModuleParameter> BlockParameters(const Architecture& architecture,
                                             bool experts = false);
std::vector<ModuleParameter> HeadParameters(const Architecture& architecture);

// Returns the parameters of the norm after the encoder's last block, which belong to that block.
std::vector<ModuleParameter> EncoderNorm(const Architecture& architecture);

// The number of classes of next-sentence prediction: the second segment does or does not follow the
// first.
inline constexpr std::int64_t kSentenceClasses = 2;

// All tensors of a transformer, and the layers that use them: embedding, blocks and head.
struct TransformerLayout {
  std::vector<Tensor> tensors, frozen;
  std::vector<Layer> layers;
};
TransformerLayout LayOut(const Architecture& architecture);

}  // namespace stepcast::model
