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

// The module names of a family. Names of modules inside a block omit the block's name.
struct ModuleNames {
  std::string_view embedding, positions, blocks, final_norm, head;
  std::string_view attention_norm, attention, query, key, value, query_key_value, projection;
  std::string_view feed_forward_norm, feed_forward, gate, up, activator, down;
  // Names of fused layers: one linear layer in the model, or several that some frameworks run as
  // one GEMM. If a fused layer is one tensor, `key`, `value` and `up` name parts of its output.
  std::string_view linear_qkv, linear_fc1;
  // Names of an encoder's modules. The bias of the head's last linear layer belongs to module
  // `predictions`.
  std::string_view token_types{}, embedding_norm{}, pooler{}, predictions{}, head_dense{},
      head_norm{}, next_sentence{};
  // Names of the norms after attention and feed-forward, before the residual sums. If a family has
  // no norms before attention and feed-forward, `attention_norm` and `feed_forward_norm` are empty.
  std::string_view attention_post_norm{}, feed_forward_post_norm{};
  // Names of the norms of queries and keys.
  std::string_view query_norm{}, key_norm{};
  std::string_view sinks{};
  // Names of latent attention's modules: down-projections, norms and up-projections. If queries
  // have no latent vector, `query` replaces `query_down` and `query_up`.
  std::string_view query_down{}, query_latent_norm{}, query_up{};
  std::string_view kv_down{}, kv_latent_norm{}, kv_up{};
  // Module names for multi-token prediction, outside its block. These are the norms of the
  // embedding and of the blocks' output, the linear layer that combines both, and the norm before
  // the head.
  std::string_view further_embedding_norm{}, further_hidden_norm{}, further_projection{};
  std::string_view further_norm{}, further_words{}, further_streams{}, further_streams_head{};
  // Names of a mixture's modules: the router, the two matrices of the experts, and the matrices of
  // the shared experts.
  std::string_view router{}, experts_gate_up{}, experts_down{};
  std::string_view shared_gate{}, shared_up{}, shared_down{};
  // The name of the linear layer whose sigmoid multiplies the shared experts' output.
  std::string_view shared_expert_gate{};
  // Names for experts that read a latent vector: the linear layers before and after the experts,
  // and the vector's norm.
  std::string_view latent_down{}, latent_up{}, latent_norm{};
  // Names for a block with experts in parallel with a dense layer. In order: the norm after the
  // dense layer, the norms before and after the experts, and the factors of the router's input and
  // of the experts' weights.
  std::string_view dense_post_norm{}, experts_norm{}, experts_post_norm{}, router_scale{},
      expert_scale{};
  // The name of the linear layer that computes the gate of attention's output. Empty if the query
  // projection also computes the gate.
  std::string_view attention_gate{};
  // Names of the indexer's modules. These are the linear layers and norms of queries and keys, and
  // the linear layer that computes the weights of the indexer's heads.
  std::string_view index_query{}, index_key{}, index_key_norm{}, index_weights{};
  std::string_view index_query_norm{};
  // Names of the delta rule's modules. First: the linear layer of queries, keys, values and gate;
  // the linear layer of decay and beta; the convolution. If the decay is by channel, separate
  // linear layers and convolutions replace these three modules. Last: the constants, the norm and
  // the output projection.
  std::string_view delta_in{}, delta_decay_beta{}, delta_conv{};
  std::string_view delta_query{}, delta_key{}, delta_value{}, delta_query_conv{}, delta_key_conv{},
      delta_value_conv{};
  std::string_view delta_beta{}, delta_decay_down{}, delta_decay_up{}, delta_gate_down{},
      delta_gate_up{};
  std::string_view delta_a{}, delta_bias{}, delta_norm{}, delta_out{};
  // Names of the modules of a state-space layer.
  std::string_view state_in{}, state_conv{}, state_a{}, state_d{}, state_bias{}, state_norm{},
      state_out{};
  // Names of the modules of a short convolution.
  std::string_view short_in{}, short_conv{}, short_out{};
  // Names of Mamba-1's modules, beside `state_in`, `state_conv`, `state_a`, `state_d` and
  // `state_out`: the linear layers of B, C and the time step, and the norms of these three.
  std::string_view scan_inputs{}, scan_time{}, scan_time_norm{}, scan_b_norm{}, scan_c_norm{};
  // Names of the modules of lightning attention.
  std::string_view decay_in{}, decay_gate{}, decay_norm{}, decay_out{};
  // Names for per-layer inputs. Outside blocks: the embedding table, the linear layer of the
  // embedding, and the norm after this linear layer. In each block: the gate, the next linear
  // layer, and the last norm.
  std::string_view layer_table{}, layer_projection{}, layer_projection_norm{};
  std::string_view layer_gate{}, layer_up{}, layer_norm{};
  // Module names for attention residuals: before the mixer, before the feed-forward layer and
  // before the head.
  std::string_view bank_attention{}, bank_feed_forward{}, bank_head{};
  // Module names for hyper-connections: before the mixer, before the feed-forward layer and before
  // the head. Each module has a linear layer's weight, a bias and three scale factors.
  std::string_view streams_attention{}, streams_feed_forward{}, streams_head{};
  // Names for attention with one key and value for all heads: the linear layer and norm of the
  // shared key, and the first output projection. Then, for compressed vectors and for the indexer's
  // compressed keys: the linear layer, the position addends and the norm.
  std::string_view shared_key{}, shared_key_norm{}, output_down{};
  std::string_view compress{}, compress_positions{}, compress_norm{};
  std::string_view index_compress{}, index_compress_positions{}, index_compress_norm{};
  // Names of a tower's modules: patches, positions, the layers and the mergers. The modules of all
  // layers share one name.
  std::string_view tower_patch{}, tower_positions{}, tower_norm{}, tower_query_key_value{},
      tower_projection{}, tower_up{}, tower_down{}, tower_last_norm{}, tower_merge_norm{},
      tower_merge_up{}, tower_merge_down{};
  // Names for an input of rows of numbers: the linear layer or first convolution, the further
  // convolutions, and the trained rows that precede all other rows. The table of positions is named
  // `positions`.
  std::string_view input{}, input_halving{}, class_rows{};
  // The module names of the tables of relative distances. `encoder_distances` belongs to the
  // encoder's blocks, and `distances` to all other blocks.
  std::string_view distances{}, encoder_distances{};
  // Names for an encoder before a decoder: the blocks, the norm and the modules of the input.
  std::string_view encoder_blocks{}, encoder_norm{}, encoder_input{}, encoder_input_halving{},
      encoder_positions{};
  // Names of cross-attention's modules.
  std::string_view cross_norm{}, cross_query{}, cross_key{}, cross_value{}, cross_projection{},
      cross_query_norm{}, cross_key_norm{};
  // Names for a diffusion model's condition and text. First: the linear layers and the table that
  // compute the condition. Then: the modules that compute modulation vectors for all blocks, for
  // one block and for the head. Last: the linear layers that convert the text's rows.
  std::string_view time_in{}, time_out{}, guidance_in{}, guidance_out{}, classes{},
      text_vector_in{}, text_vector_out{}, shared_modulation{}, modulation{}, head_modulation{},
      text_in{}, text_out{};
  // Names of operations outside modules, and of GEMMs that combine several modules.
  std::string_view core{}, query_rotary{}, key_rotary{}, key_repeat{}, value_repeat{};
  std::string_view attention_dropout{}, attention_residual{}, product{}, dropout{}, residual{};
  std::string_view joined_query_key_value{}, joined_gate_up{};
};

// A family of models, as described by a file in models/families.
struct Family {
  std::string name;
  ModuleNames names;
  ModuleNames of_text;  // names for the rows of text in blocks with two streams
  // The properties of the family's released models: normalization, activation, positions, biases
  // and tied embeddings. All dimensions are zero, and dropout is false.
  Architecture typical{};
  FamilyTraits traits{};
  NumericalConstants constants{};  // constants of the family's first release
  // The values that each property may have in models of the family. Empty: only the value in
  // `typical`.
  std::vector<Activator> activators{};
  std::vector<Normalization> normalizations{};
  std::vector<Position> positions{};
  std::string without_experts{};    // name of the family with equal layers but without experts
  std::deque<std::string> texts{};  // storage of the names, which are string views
};

// Returns a family with these module names. The keys of `module_names` are member names of
// ModuleNames, such as "query". If a key is unknown, returns null and stores the key in `unknown`.
std::shared_ptr<Family> MakeFamily(std::string name,
                                   const std::map<std::string, std::string>& module_names,
                                   std::string* unknown);

// Returns Family::typical with its member `family` set.
Architecture TypicalOf(std::shared_ptr<const Family> family);
// Returns the architecture's family. If the architecture has no family, returns an empty family
// without names and traits.
const Family& FamilyOf(const Architecture& architecture);

const ModuleNames& NamesOf(const Architecture& architecture);
// Returns the name of the norm before a block's feed-forward layer. Families with one layer per
// block have one name for all norms. A block with a mixer and a feed-forward layer then has another
// name for the second norm.
std::string_view FeedForwardNormOf(const Architecture& architecture);
// Returns the module names for rows of text in blocks with two streams. Only families from model
// files have such names.
const ModuleNames& NamesOfText(const Architecture& architecture);

}  // namespace stepcast::model
