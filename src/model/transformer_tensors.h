#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "src/model/architecture.h"
#include "src/model/layer.h"

// The parameter tensors of a transformer, as Hugging Face transformers registers them: names,
// order and shapes of GPT2LMHeadModel, LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM,
// Qwen3ForCausalLM, Gemma2ForCausalLM, Gemma3ForCausalLM, Phi3ForCausalLM, Olmo2ForCausalLM,
// BertForPreTraining, MegatronBertForPreTraining and, with the options that llm-foundry adds,
// MptForCausalLM. Mixtures are those of transformers 5, where all experts of a block are one
// tensor: MixtralForCausalLM.
namespace stepcast::model {

// What a family calls its modules. Those of a block stand without the block's own name.
struct ModuleNames {
  std::string_view embedding, positions, blocks, final_norm, head;
  std::string_view attention_norm, attention, query, key, value, query_key_value, projection;
  std::string_view feed_forward_norm, feed_forward, gate, up, activator, down;
  // What is one linear layer, or with some frameworks one product.
  std::string_view linear_qkv, linear_fc1;
  // Of encoders. `predictions` has the bias of the head's last product.
  std::string_view token_types{}, embedding_norm{}, pooler{}, predictions{}, head_dense{},
      head_norm{}, next_sentence{};
  // Norms behind attention and feed-forward, before their sums. Families that have no norms before
  // them have empty names there.
  std::string_view attention_post_norm{}, feed_forward_post_norm{};
  // Norms of queries and keys.
  std::string_view query_norm{}, key_norm{};
  std::string_view sinks{};
  // Of latent attention: down to the vectors, their norms, and up from them; `query` where queries
  // have none of their own.
  std::string_view query_down{}, query_latent_norm{}, query_up{};
  std::string_view kv_down{}, kv_latent_norm{}, kv_up{};
  // Of a module that predicts further tokens, beside its block: norms of the embedding and of what
  // the blocks have made, the product of both, and the norm before the head.
  std::string_view further_embedding_norm{}, further_hidden_norm{}, further_projection{};
  std::string_view further_norm{};
  // Of a mixture: the router, the experts' first and second matrices, and the shared experts'.
  std::string_view router{}, experts_gate_up{}, experts_down{};
  std::string_view shared_gate{}, shared_up{}, shared_down{};
};
const ModuleNames& NamesOf(Family family);

// One projection computes queries, keys and values (GPT-2's c_attn, MPT's Wqkv).
bool HasFusedAttention(Family family);
// So does one of a decoder with rotary positions, and another one gate and up (Phi-3). Their names
// are those of `query` and of `gate`.
constexpr bool HasFusedLayers(Family family) { return family == Family::kPhi3; }

struct ModuleParameter {
  std::string_view module;  // one of the family's ModuleNames
  // The weight, or of its adapter the matrix that the input or the result is multiplied by.
  enum class Of : std::uint8_t { kWeight, kBias, kLoraA, kLoraB } of = Of::kWeight;
  std::vector<std::int64_t> shape;
  std::vector<Split> splits{};
  bool sequence_parallel = false;  // see Tensor
  bool frozen = false;
  ParameterGroup group = ParameterGroup::kDense;
  bool direct = false;   // of the module that has no other: its name ends with the module's
  bool further = false;  // of the module that predicts further tokens, which is named as a block
};

// The parameters of one layer in registration order. A tied head's weight is the embedding's:
// module `embedding`, last in HeadParameters. What predicts further tokens runs with the head: its
// parameters, and first of all the embedding's, which it reads, too, come before the head's own.
// With adapters: theirs behind each linear layer's.
std::vector<ModuleParameter> EmbeddingParameters(const Architecture& architecture);
// `experts`: of a block whose feed-forward layer is a mixture of experts.
std::vector<ModuleParameter> BlockParameters(const Architecture& architecture,
                                             bool experts = false);
std::vector<ModuleParameter> HeadParameters(const Architecture& architecture);

// One segment follows the other, or it does not.
inline constexpr std::int64_t kSentenceClasses = 2;

// All tensors, and the layers that use them: embedding, blocks, head.
struct TransformerLayout {
  std::vector<Tensor> tensors, frozen;
  std::vector<Layer> layers;
};
TransformerLayout LayOut(const Architecture& architecture);

}  // namespace stepcast::model
