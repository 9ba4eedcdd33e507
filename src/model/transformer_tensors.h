#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "src/model/architecture.h"
#include "src/model/family.h"
#include "src/model/layer.h"

// The parameter tensors of a transformer, as Hugging Face transformers registers them. Names, order
// and shapes are those of GPT2LMHeadModel, LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM,
// Qwen3ForCausalLM, GemmaForCausalLM, Gemma2ForCausalLM, Gemma3ForCausalLM, Phi3ForCausalLM,
// Olmo2ForCausalLM, GlmForCausalLM, Glm4ForCausalLM, Starcoder2ForCausalLM, GPTJForCausalLM,
// GPTNeoXForCausalLM, PhiForCausalLM, FalconForCausalLM, CohereForCausalLM, BertForPreTraining,
// MegatronBertForPreTraining and, with the options that llm-foundry adds, MptForCausalLM. Mixtures
// are those of transformers 5, which has one tensor for all experts of a block: MixtralForCausalLM.
namespace stepcast::model {

struct ModuleParameter {
  std::string_view module;  // one of the family's ModuleNames
  // The weight, the bias, or the adapter's matrix for the input (A) or the result (B).
  enum class Of : std::uint8_t { kWeight, kBias, kLoraA, kLoraB } of = Of::kWeight;
  std::vector<std::int64_t> shape;
  std::vector<Split> splits{};
  bool sequence_parallel = false;  // see Tensor
  bool frozen = false;
  ParameterGroup group = ParameterGroup::kDense;
  bool direct = false;   // the module's only parameter: its name ends with the module's
  bool further = false;  // of the multi-token-prediction module, which is named like a block
};

// The parameters of one layer in registration order. A tied head's weight is the embedding's:
// module `embedding`, last in HeadParameters. Multi-token prediction runs with the head: the
// embedding's parameters, which it also reads, and then its own come before the head's. Adapters'
// parameters follow their linear layer's.
std::vector<ModuleParameter> EmbeddingParameters(const Architecture& architecture);
// `experts`: the block's feed-forward layer is a mixture of experts.
std::vector<ModuleParameter> BlockParameters(const Architecture& architecture,
                                             bool experts = false);
std::vector<ModuleParameter> HeadParameters(const Architecture& architecture);

// The norm after the encoder's last block, to which its parameters are appended.
std::vector<ModuleParameter> EncoderNorm(const Architecture& architecture);

// Classes of next-sentence prediction: the segment follows, or it does not.
inline constexpr std::int64_t kSentenceClasses = 2;

// All tensors, and the layers that use them: embedding, blocks, head.
struct TransformerLayout {
  std::vector<Tensor> tensors, frozen;
  std::vector<Layer> layers;
};
TransformerLayout LayOut(const Architecture& architecture);

}  // namespace stepcast::model
