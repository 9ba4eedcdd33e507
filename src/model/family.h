#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/architecture.h"
#include "src/model/numerical_constants.h"

namespace stepcast::model {

// A family's module names. Names inside a block omit the block's own name.
struct ModuleNames {
  std::string_view embedding, positions, blocks, final_norm, head;
  std::string_view attention_norm, attention, query, key, value, query_key_value, projection;
  std::string_view feed_forward_norm, feed_forward, gate, up, activator, down;
  // Fused layers: one linear layer in the model, or one product in some frameworks. If it is one
  // tensor, `key`, `value` and `up` name parts of its output.
  std::string_view linear_qkv, linear_fc1;
  // Encoders. `predictions` has the bias of the head's last product.
  std::string_view token_types{}, embedding_norm{}, pooler{}, predictions{}, head_dense{},
      head_norm{}, next_sentence{};
  // Norms after attention and feed-forward, before the residual sums. Families that have no norms
  // before them leave those names empty.
  std::string_view attention_post_norm{}, feed_forward_post_norm{};
  // Norms of queries and keys.
  std::string_view query_norm{}, key_norm{};
  std::string_view sinks{};
  // Latent attention: down-projections, norms and up-projections. `query` is used if queries have
  // no latent vector.
  std::string_view query_down{}, query_latent_norm{}, query_up{};
  std::string_view kv_down{}, kv_latent_norm{}, kv_up{};
  // Multi-token prediction, besides its block: norms of the embedding and of the blocks' output,
  // the product of both, and the norm before the head.
  std::string_view further_embedding_norm{}, further_hidden_norm{}, further_projection{};
  std::string_view further_norm{};
  // Mixtures: the router, the experts' first and second matrices, and the shared experts'.
  std::string_view router{}, experts_gate_up{}, experts_down{};
  std::string_view shared_gate{}, shared_up{}, shared_down{};
  // the product whose sigmoid multiplies the shared experts' output
  std::string_view shared_expert_gate{};
  // Experts on a latent vector: the products before and after them, and the vector's norm.
  std::string_view latent_down{}, latent_up{}, latent_norm{};
  // Experts parallel to a dense layer: norms after the dense layer, before and after the experts,
  // and the factors of the router's input and of the experts' weights.
  std::string_view dense_post_norm{}, experts_norm{}, experts_post_norm{}, router_scale{},
      expert_scale{};
  // The product that gates attention's output, if the query product does not.
  std::string_view attention_gate{};
  // Indexer: queries, keys with their norm, and the weights of its heads.
  std::string_view index_query{}, index_key{}, index_key_norm{}, index_weights{};
  std::string_view index_query_norm{};
  // Delta rule: the product of queries, keys, values and gate; that of decay and beta; the
  // convolution; separate products if the decay is by channel; constants, norm and output product.
  std::string_view delta_in{}, delta_decay_beta{}, delta_conv{};
  std::string_view delta_query{}, delta_key{}, delta_value{}, delta_query_conv{}, delta_key_conv{},
      delta_value_conv{};
  std::string_view delta_beta{}, delta_decay_down{}, delta_decay_up{}, delta_gate_down{},
      delta_gate_up{};
  std::string_view delta_a{}, delta_bias{}, delta_norm{}, delta_out{};
  // State-space layer.
  std::string_view state_in{}, state_conv{}, state_a{}, state_d{}, state_bias{}, state_norm{},
      state_out{};
  // Per-layer inputs: their table, the product of the embedding and its norm; in a block, the gate,
  // the product after it and its norm.
  std::string_view layer_table{}, layer_projection{}, layer_projection_norm{};
  std::string_view layer_gate{}, layer_up{}, layer_norm{};
  // Attention residuals: before the mixer, before the feed-forward layer, before the head.
  std::string_view bank_attention{}, bank_feed_forward{}, bank_head{};
  // Hyper-connections, likewise: their product, the addends and the factors.
  std::string_view streams_attention{}, streams_feed_forward{}, streams_head{};
  // Attention with a key and value shared by all heads: its product and norm, and the first output
  // product; for compressed vectors the product, the position addends and the norm; the same for
  // the indexer's compressed keys.
  std::string_view shared_key{}, shared_key_norm{}, output_down{};
  std::string_view compress{}, compress_positions{}, compress_norm{};
  std::string_view index_compress{}, index_compress_positions{}, index_compress_norm{};
  // Tower: patches, positions, the modules of all its layers together, and its mergers.
  std::string_view tower_patch{}, tower_positions{}, tower_norm{}, tower_query_key_value{},
      tower_projection{}, tower_up{}, tower_down{}, tower_last_norm{}, tower_merge_norm{},
      tower_merge_up{}, tower_merge_down{};
  // Rows of numbers instead of words: their product or first convolution, the further ones, the
  // rows before them. `positions` has their positions.
  std::string_view input{}, input_halving{}, class_rows{};
  // Tables of numbers by distance: of the blocks, and of the encoder's.
  std::string_view distances{}, encoder_distances{};
  // Encoder before a decoder: blocks, norm and input.
  std::string_view encoder_blocks{}, encoder_norm{}, encoder_input{}, encoder_input_halving{},
      encoder_positions{};
  // Cross-attention.
  std::string_view cross_norm{}, cross_query{}, cross_key{}, cross_value{}, cross_projection{},
      cross_query_norm{}, cross_key_norm{};
  // The condition's products and table, the vectors that it makes for all blocks, for a block and
  // for the head, and the products of the text's rows.
  std::string_view time_in{}, time_out{}, guidance_in{}, guidance_out{}, classes{},
      text_vector_in{}, text_vector_out{}, shared_modulation{}, modulation{}, head_modulation{},
      text_in{}, text_out{};
  // Operations that the family's code performs outside modules, and the products of several
  // modules.
  std::string_view core{}, query_rotary{}, key_rotary{}, key_repeat{}, value_repeat{};
  std::string_view attention_dropout{}, attention_residual{}, product{}, dropout{}, residual{};
  std::string_view joined_query_key_value{}, joined_gate_up{};
};

// A family of models, as a file of models/families describes it.
struct Family {
  std::string name;
  ModuleNames names;
  ModuleNames of_text;  // of the joined rows in blocks with two streams
  // Properties of its released models: normalization, activation, positions, biases, tied
  // embeddings. Dimensions are zero and dropout is false.
  Architecture typical{};
  FamilyTraits traits{};
  NumericalConstants constants{};  // of its first release
  // All values that a model of the family can have; empty: only the typical one.
  std::vector<Activator> activators{};
  std::vector<Normalization> normalizations{};
  std::vector<Position> positions{};
  std::string without_experts{};    // the family with the same layers but for the experts
  std::deque<std::string> texts{};  // what the names point into
};

// A family with these module names, keyed by field ("query"). Null, and `unknown` is set, if a key
// is not a field.
std::shared_ptr<Family> MakeFamily(std::string name,
                                   const std::map<std::string, std::string>& module_names,
                                   std::string* unknown);

// A model of the family, without dimensions.
Architecture TypicalOf(std::shared_ptr<const Family> family);
// The family of the architecture. Without a family: an empty one, without names and traits.
const Family& FamilyOf(const Architecture& architecture);

const ModuleNames& NamesOf(const Architecture& architecture);
// The norm before a block's feed-forward layer. In families whose blocks have one layer each, all
// norms have one name; a block with a mixer and a feed-forward layer then has a second norm.
std::string_view FeedForwardNormOf(const Architecture& architecture);
// The names of the second stream in blocks of a described family.
const ModuleNames& NamesOfText(const Architecture& architecture);

}  // namespace stepcast::model
