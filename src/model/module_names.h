#pragma once

#include <map>
#include <string>
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
  // Experts on a latent vector: the products before and behind them, and the vector's norm.
  std::string_view latent_down{}, latent_up{}, latent_norm{};
  // Experts beside a dense layer: norms behind the dense layer, before and behind the experts, and
  // what the router multiplies its input and the experts' weights by.
  std::string_view dense_post_norm{}, experts_norm{}, experts_post_norm{}, router_scale{},
      expert_scale{};
  // The product that gates attention's output, where the product of queries does not.
  std::string_view attention_gate{};
  // Indexer: queries, keys with their norm, and the weights of its heads.
  std::string_view index_query{}, index_key{}, index_key_norm{}, index_weights{};
  std::string_view index_query_norm{};
  // Delta rule: the product of queries, keys, values and gate, that of decay and beta, the
  // convolution; products of their own where the decay is by channel; its constants, norm and the
  // product behind it.
  std::string_view delta_in{}, delta_decay_beta{}, delta_conv{};
  std::string_view delta_query{}, delta_key{}, delta_value{}, delta_query_conv{}, delta_key_conv{},
      delta_value_conv{};
  std::string_view delta_beta{}, delta_decay_down{}, delta_decay_up{}, delta_gate_down{},
      delta_gate_up{};
  std::string_view delta_a{}, delta_bias{}, delta_norm{}, delta_out{};
  // State-space layer.
  std::string_view state_in{}, state_conv{}, state_a{}, state_d{}, state_bias{}, state_norm{},
      state_out{};
  // Rows for each layer: their table, the product of the embedding and its norm; in a block the
  // gate, the product behind it and its norm.
  std::string_view layer_table{}, layer_projection{}, layer_projection_norm{};
  std::string_view layer_gate{}, layer_up{}, layer_norm{};
  // Attention residuals: before the mixer, before the feed-forward layer, before the head.
  std::string_view bank_attention{}, bank_feed_forward{}, bank_head{};
  // Hyper-connections, likewise: their product, what is added to it and multiplied.
  std::string_view streams_attention{}, streams_feed_forward{}, streams_head{};
  // Attention with one key and value for all heads: its product and norm, the output's first
  // product; of compressed vectors the product, what positions add, and the norm; of the indexer's
  // compressed keys likewise.
  std::string_view shared_key{}, shared_key_norm{}, output_down{};
  std::string_view compress{}, compress_positions{}, compress_norm{};
  std::string_view index_compress{}, index_compress_positions{}, index_compress_norm{};
  // Tower: patches, positions, and of all its layers together what each has; its mergers.
  std::string_view tower_patch{}, tower_positions{}, tower_norm{}, tower_query_key_value{},
      tower_projection{}, tower_up{}, tower_down{}, tower_last_norm{}, tower_merge_norm{},
      tower_merge_up{}, tower_merge_down{};
};
const ModuleNames& NamesOf(Family family);

// A family that a file describes. `names` refers to `texts`.
struct DescribedFamily {
  std::string name;
  ModuleNames names;
  std::map<std::string, std::string, std::less<>> texts;
};
// Its name, and its modules: those of the family `like`, but for the modules that `texts` names by
// their fields ("query"). Null, and the field that there is none of: `unknown`.
std::shared_ptr<const DescribedFamily> DescribeFamily(
    std::string name, Family like, std::map<std::string, std::string, std::less<>> texts,
    std::string* unknown);

const ModuleNames& NamesOf(const Architecture& architecture);

}  // namespace stepcast::model
