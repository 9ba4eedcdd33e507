#pragma once

#include <string_view>

#include "src/model/architecture.h"

namespace stepcast::model {

// What a family calls its modules. Those of a block stand without the block's own name.
struct ModuleNames {
  std::string_view embedding, positions, blocks, final_norm, head;
  std::string_view attention_norm, attention, query, key, value, query_key_value, projection;
  std::string_view feed_forward_norm, feed_forward, gate, up, activator, down;
  // What is one linear layer, or with some frameworks one product. Where it is one tensor, `key`,
  // `value` and `up` name parts of what it makes.
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
  std::string_view shared_expert_gate{};  // of the product that what they make is multiplied by
};
const ModuleNames& NamesOf(Family family);

}  // namespace stepcast::model
