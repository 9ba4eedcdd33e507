#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/ends.h"
#include "src/model/lora.h"
#include "src/model/mixers.h"
#include "src/model/tower.h"

// The dimensions of a transformer, either a decoder or an encoder, as stated in a model YAML file
// or a Hugging Face config.json.
namespace stepcast::model {

struct Family;  // family.h

// Differences between a family's code and Llama's. Files of models/families list them by these
// names.
struct FamilyTraits {
  // Every token attends to its whole sequence and the head predicts masked tokens.
  bool encoder = false;
  // Norms come after residuals. Embeddings then also have a norm, and the head has none before it.
  bool post_norm = false;
  bool one_qkv = false;        // one product computes queries, keys and values
  bool one_gate_up = false;    // one product computes gate and up
  bool whole_heads = false;    // heads x head size is the hidden size
  bool shares_norm = false;    // parallel attention and feed-forward always share one norm
  bool latent = false;         // attention is latent
  bool needs_experts = false;  // all models have experts
  bool no_biases = false;      // of attention and feed-forward layers
  // Registration order of tensors, and their storage.
  bool projection_first = false;  // the output projection before the product of one_qkv
  bool norms_in_order = false;    // each norm before its layer
  bool norms_first = false;       // both norms before all else
  bool router_first = false;      // the router before the experts
  bool experts_by_input = false;  // the experts' matrices are stored as [in, out]
  bool weights_by_input = false;  // all other matrices are
  // Norms of queries and keys come after rotary positions.
  bool norms_after_positions = false;
  // Blocks that attend to all tokens have neither positions nor norms of queries and keys.
  bool full_without_positions = false;
  bool torchtitan = false;  // torchtitan's llama3 has these layers
};

enum class Normalization : std::uint8_t { kLayerNorm, kRmsNorm };
enum class Activator : std::uint8_t {
  kGelu,
  kSwiGlu,       // gated: two linear layers feed it
  kGeGlu,        // gated, with GELU instead of SiLU (Shazeer 2020, arXiv 2002.05202)
  kSquaredRelu,  // max(x, 0)^2 (So et al. 2021, arXiv 2109.08668)
  kRelu,
};
constexpr bool IsGated(Activator activator) {
  return activator == Activator::kSwiGlu || activator == Activator::kGeGlu;
}
enum class Position : std::uint8_t { kLearned, kRotary, kAlibi, kNone };

// How a router's scores become the weights of a token's experts.
enum class RouterScores : std::uint8_t {
  kSoftmaxOfChosen,  // over the logits of the chosen experts (Mixtral, GPT-OSS)
  kSoftmax,          // over the logits of all experts (Qwen3, DeepSeek-V2)
  kSigmoid,          // of each logit separately (DeepSeek-V3)
};

// The experts of a mixture. In blocks with experts, the feed-forward layer is a router and `count`
// experts, of which each token uses `per_token`.
struct Experts {
  std::int64_t count = 0;         // E; 0: the model is dense
  std::int64_t per_token = 0;     // k
  std::int64_t feed_forward = 0;  // width of one expert
  // Total width of the shared experts, which every token uses; 0: there are none.
  std::int64_t shared_feed_forward = 0;
  // The first `leading_dense` blocks have a dense feed-forward layer of width
  // Architecture::feed_forward. After them, every `every`-th block has experts, counted from the
  // model's first block: with 2, those with an odd index.
  std::int64_t leading_dense = 0;
  std::int64_t every = 1;
  RouterScores scores = RouterScores::kSoftmaxOfChosen;
  // The weights of a token's experts are normalized to sum to 1 (norm_topk_prob).
  bool normalized_weights = true;
  // Experts are divided into `groups`, and a token chooses experts only from `groups_per_token` of
  // them; 0: from all (DeepSeek-V3: 8 and 4).
  std::int64_t groups = 0, groups_per_token = 0;
  // A per-expert score correction balances the loads; it is not a parameter (DeepSeek-V3).
  bool balancing_bias = false;
  // The shared experts' output is multiplied by the sigmoid of one product (Qwen2-MoE).
  bool shared_gate = false;
  bool router_bias = false;  // the router's product has a bias (GPT-OSS)
  bool bias = false;         // the experts' products have biases (GPT-OSS)
  // Routed experts work on a vector of this width, made by a product before them and mapped back by
  // one after them (Nemotron 3); 0: on the token itself. With `latent_norm` the vector is
  // normalized.
  std::int64_t latent = 0;
  bool latent_norm = false;
  // The block's dense feed-forward layer runs in parallel with the experts (Gemma 4). Both have
  // their own norms, and the router scales its input and each expert's weight.
  bool beside_dense = false;

  constexpr bool exist() const { return count > 0; }
  friend bool operator==(const Experts&, const Experts&) = default;
};

// Attention whose keys and values are computed from one narrow vector per token (DeepSeek-V2, arXiv
// 2405.04434, section 2.1). One part of each query and key is rotated by its position; in keys this
// part is the same for all heads. The other part is not rotated.
struct LatentAttention {
  std::int64_t kv_rank = 0;  // kv_lora_rank, the width of the vector; 0: no latent attention
  // q_lora_rank, the width of the queries' vector; 0: queries are made of the input
  std::int64_t query_rank = 0;
  std::int64_t plain_head = 0;   // qk_nope_head_dim, the unrotated part of a head
  std::int64_t rotary_head = 0;  // qk_rope_head_dim, the rotated part of a head
  std::int64_t value_head = 0;   // v_head_dim, values of a head

  constexpr bool exists() const { return kv_rank > 0; }
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

struct Architecture {
  // Decides the tensors' names and their registration order. Null: for parts without names.
  std::shared_ptr<const Family> family{};
  std::int64_t layers = 0;
  std::int64_t hidden = 0;        // h
  std::int64_t heads = 0;         // a, query heads
  std::int64_t kv_heads = 0;      // g, key-value heads; divides heads
  std::int64_t head_size = 0;     // d; q projection is hidden x (heads * head_size)
  std::int64_t feed_forward = 0;  // f
  std::int64_t vocabulary = 0;    // V, rows of the embedding
  // Learned positions: rows of their table, the longest possible sequence. Others: as stated, not a
  // limit; 0: not stated.
  std::int64_t max_positions = 0;
  Normalization normalization = Normalization::kRmsNorm;
  Activator activator = Activator::kSwiGlu;
  Position position = Position::kRotary;
  bool tie_embeddings = false;  // the head shares the embedding's tensor
  bool head_bias = false;       // the head's product has a bias (GPT-J, Phi)
  // Parallel attention and feed-forward take the same input, normalized by this many norms: 1,
  // which both share, or 2, one each. 0: not parallel; the feed-forward takes the sum after
  // attention.
  std::int64_t parallel_residual_norms = 0;
  // RMS norms over each head of queries and keys.
  bool qk_norm = false;
  // the norms span all heads, with a weight for each element (OLMo 2 and OLMoE)
  bool norms_all_heads = false;
  bool weightless_norms = false;  // per-head norms without weights (Llama 4)
  bool norms_values = false;      // values also have norms without weights (Gemma 4)
  // Norms after attention and feed-forward, before the residual sum. They are in addition to the
  // norms before them, except in OLMo 2, which has only these.
  bool branch_norms = false;
  // Embeddings are multiplied by the square root of their width.
  bool scales_embeddings = false;
  // Attention sinks: one number for each head takes part in the softmax (arXiv 2309.17453).
  bool sinks = false;
  // Scores and logits are soft-capped to this absolute value (Gemma 2); 0: not capped.
  double score_cap = 0, logit_cap = 0;
  bool attention_bias = false;   // q, k, v projections have biases
  bool projection_bias = false;  // the attention output projection has one
  bool feed_forward_bias = false;
  bool norm_bias = false;          // LayerNorm only
  bool dropout = false;            // residual and embedding dropout are active in training
  bool attention_dropout = false;  // dropout of attention weights is active in training
  // a token attends to at most this many previous tokens; 0: all
  std::int64_t attention_window = 0;
  // A token attends only within its chunk of this many tokens (Llama 4); 0: the whole sequence.
  std::int64_t attention_chunk = 0;
  // With a window or chunks: every n-th block has full attention, counted from the model's first.
  // With 2, blocks with an odd index (GPT-OSS, Gemma 2); with 6, every sixth (Gemma 3). 0: none
  // has.
  std::int64_t full_attention_every = 0;
  // Encoders: rows of the table of token types (segments); 0: no table.
  std::int64_t token_types = 0;
  // Encoders: a pooler and a head predict from the first token whether one segment follows the
  // other.
  bool next_sentence = false;
  // if it exists, head_size is plain_head + rotary_head and kv_heads equals heads
  LatentAttention latent{};
  Experts experts{};
  // Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): the number of modules
  // after the last block that predict further tokens, 0 or 1. A module is a block whose input
  // combines the blocks' output and the next token's embedding.
  std::int64_t further_tokens = 0;
  Lora lora{};  // training with adapters; all other parameters are frozen

  // Every token attends to its whole sequence (encoders).
  bool attends_both_ways = false;
  bool key_without_bias = false;  // attention_bias is only for queries and values (Whisper)
  // A trained number per head and bucket of distances is added to the scores; one table serves all
  // blocks of a stack (T5, arXiv 1910.10683). 0: none.
  std::int64_t distance_buckets = 0;
  // Attention to rows of the encoder, after attention within the sequence.
  CrossAttention cross{};
  // Tokens of a sequence in this block; 0: those of the batch and `joined_rows` more.
  std::int64_t own_length = 0;
  std::int64_t joined_rows = 0;
  // The products of the joined rows have weights of their own (Flux's double blocks).
  bool two_streams = false;
  Modulation modulation{};             // of the block; of a model: of its head
  bool norms_without_weights = false;  // but those of queries, keys and cross-attention

  // Token mixer of the block. The fields above describe attention.
  Mixer mixer = Mixer::kAttention;
  std::int64_t value_size = 0;  // values of a head; 0: head_size
  OutputGate output_gate = OutputGate::kNone;
  bool gate_of_query = false;  // the query product also makes the gate
  bool key_is_value = false;   // values are the keys before norm and positions (Gemma 4)
  bool borrows_keys = false;   // keys and values come from an earlier block (Gemma 4)
  Indexer indexer{};
  SharedKeyValue shared_key{};
  DeltaRule delta{};
  StateSpace state_space{};
  // Each block gates its output with a row of this width from a second embedding table (Gemma 4);
  // 0: no table.
  std::int64_t layer_input = 0;
  // Each branch's input is a weighted mean of the residual stream and of the outputs of every n-th
  // previous block (attention residuals, Kimi K3); 0: only the stream.
  std::int64_t residual_bank = 0;
  // Number of residual streams of the hidden width, which each branch mixes (hyper-connections,
  // arXiv 2512.24880); 0: one plain stream.
  std::int64_t streams = 0;

  // Kinds of blocks, and the kind of each block. A kind is an architecture of the same width
  // without kinds, describing a model with only such blocks. Empty: all blocks follow this
  // architecture. Otherwise the attention and expert fields here are those of the first kind that
  // has them.
  std::vector<Architecture> kinds{};
  std::vector<int> pattern{};
  std::vector<Tower> towers{};
  ValueInput input{};
  Prediction prediction{};
  Condition condition{};
  TextRows text{};
  Encoder encoder{};      // its blocks are the first of `pattern`
  int further_kind = -1;  // kind of the multi-token-prediction module; -1: the last block's

  friend bool operator==(const Architecture&, const Architecture&) = default;
};

// The first kind of the encoder's blocks, or of all others, with a table of distances; null: none.
const Architecture* BiasedByDistance(const Architecture& architecture, bool of_encoder);
// Whether every token attends to its whole sequence in all blocks that are not of `encoder`.
bool AttendsBothWays(const Architecture& architecture);
// The architecture of a block of this kind, or of all blocks if there are no kinds.
Architecture OfKind(const Architecture& architecture, int kind);
// The kind of the block with this index; -1: there are no kinds.
int KindOfBlock(const Architecture& architecture, std::int64_t block);
// The family's name in model files.
std::string_view FamilyName(const Architecture& architecture);

const FamilyTraits& TraitsOf(const Architecture& architecture);

// Whether the block with this index, counted from the model's first, has experts.
inline bool HasExperts(const Architecture& architecture, std::int64_t block) {
  if (!architecture.kinds.empty()) {
    return architecture.kinds[static_cast<std::size_t>(KindOfBlock(architecture, block))]
        .experts.exist();
  }
  const Experts& experts = architecture.experts;
  return experts.exist() && block >= experts.leading_dense && (block + 1) % experts.every == 0;
}

// Whether the block has a feed-forward layer.
inline bool HasFeedForward(const Architecture& architecture) {
  return architecture.feed_forward > 0 || architecture.experts.exist();
}

// Elements of one head's value, which is also the size of its attention output.
inline std::int64_t ValueSize(const Architecture& architecture) {
  if (architecture.latent.exists()) return architecture.latent.value_head;
  return architecture.value_size > 0 ? architecture.value_size : architecture.head_size;
}

// Whether some blocks have a window or chunks and others attend to all tokens.
inline bool MixesWindows(const Architecture& architecture) {
  return (architecture.attention_window > 0 || architecture.attention_chunk > 0) &&
         architecture.full_attention_every > 0;
}
// Whether the block with this index has full attention in a model that mixes windows.
inline bool AttendsInFull(const Architecture& architecture, std::int64_t block) {
  return MixesWindows(architecture) && (block + 1) % architecture.full_attention_every == 0;
}

// Whether one product computes queries, keys and values, and attention reads its output directly
// (GPT-2's c_attn, MPT's Wqkv).
inline bool HasFusedAttention(const Architecture& a) {
  return TraitsOf(a).one_qkv && a.position != Position::kRotary;
}
// Whether one product computes queries, keys and values, which are split for rotary positions.
inline bool HasFusedProjections(const Architecture& a) {
  return TraitsOf(a).one_qkv && a.position == Position::kRotary;
}
// Whether one product computes gate and up.
inline bool HasFusedGate(const Architecture& a) {
  return TraitsOf(a).one_gate_up && IsGated(a.activator);
}

// One error in the dimensions. `field` is the model file's key ("hidden_size"); `message` is one
// sentence. Check returns no faults if the architecture can be built.
struct ArchitectureFault {
  std::string field;
  std::string message;
  std::string hint;
};
std::vector<ArchitectureFault> Check(const Architecture& architecture);
// The same for its adapters; `field` is a field of `lora`, such as "targets". Not included in
// Check.
std::vector<ArchitectureFault> CheckLora(const Architecture& architecture);

// Weights in the matrix products of a block (keys and values counted for every query head) and of
// the head. nanotron divides blocks among stages by them (models/llama.py,
// get_block_compute_costs).
std::int64_t ProductWeightsOfBlock(const Architecture& architecture);
std::int64_t ProductWeightsOfHead(const Architecture& architecture);

// Names in the model file: "layernorm", "gelu", "learned".
const char* Name(Normalization normalization);
const char* Name(Activator activator);
const char* Name(Position position);

// Limits that keep every count of a model (elements, bytes, FLOPs of a micro-batch) within 64 bits.
inline constexpr std::int64_t kMostLayers = 10'000;
inline constexpr std::int64_t kMostWidth = 1 << 18;  // hidden, heads x head size, ...
inline constexpr std::int64_t kMostVocabulary = 1 << 24;
inline constexpr std::int64_t kMostPositions = 1 << 24;
inline constexpr std::int64_t kMostMatrix = std::int64_t{1} << 34;  // elements of one matrix
inline constexpr std::int64_t kMostExperts = 1 << 16;
// elements of all experts in one block
inline constexpr std::int64_t kMostExpertElements = std::int64_t{1} << 38;

}  // namespace stepcast::model
