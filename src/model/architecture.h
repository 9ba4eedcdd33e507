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

// The differences between a family's model code and Llama's model code. Files in models/families
// list these traits by member name.
struct FamilyTraits {
  // Whether the model is an encoder: every token attends to its full sequence, and the head
  // predicts masked tokens.
  bool encoder = false;
  // Post-norm: each norm follows a residual sum. The embedding is then followed by a norm, and the
  // head is not preceded by a norm.
  bool post_norm = false;
  bool one_qkv = false;        // one GEMM computes queries, keys and values
  bool one_gate_up = false;    // one GEMM computes gate and up
  bool whole_heads = false;    // heads x head size must equal the hidden size
  bool shares_norm = false;    // attention and feed-forward run in parallel and share one norm
  bool latent = false;         // all models of the family have latent attention
  bool needs_experts = false;  // all models of the family have experts
  bool no_biases = false;      // attention and feed-forward layers have no biases
  // The members below describe the registration order and the storage of tensors.
  bool projection_first = false;  // the output projection precedes the QKV projection
  bool norms_in_order = false;    // each norm is registered before the layer that reads its output
  bool norms_first = false;       // both norms precede all other modules
  bool router_first = false;      // the router precedes the experts
  bool experts_by_input = false;  // the experts' matrices are stored as [in, out]
  bool weights_by_input = false;  // all other matrices are stored as [in, out]
  // Whether queries and keys are normalized after their rotary positions are applied, not before.
  bool norms_after_positions = false;
  // Whether blocks with full attention have neither rotary positions nor norms of queries and keys.
  bool full_without_positions = false;
  bool torchtitan = false;  // torchtitan's llama3 model can represent this family
};

enum class Normalization : std::uint8_t { kLayerNorm, kRmsNorm };
enum class Activator : std::uint8_t {
  kGelu,
  kSwiGlu,       // gated: it combines the outputs of two linear layers
  kGeGlu,        // gated, with GELU instead of SiLU (Shazeer 2020, arXiv 2002.05202)
  kSquaredRelu,  // max(x, 0)^2 (So et al. 2021, arXiv 2109.08668)
  kRelu,
  kXielu,  // xIELU, which has two trained numbers (Huang and Schlag 2024, arXiv 2411.13010)
};
constexpr bool IsGated(Activator activator) {
  return activator == Activator::kSwiGlu || activator == Activator::kGeGlu;
}
enum class Position : std::uint8_t { kLearned, kRotary, kAlibi, kNone };

// The function that turns a router's scores into the weights of a token's experts.
enum class RouterScores : std::uint8_t {
  kSoftmaxOfChosen,  // over the logits of the chosen experts (Mixtral, GPT-OSS)
  kSoftmax,          // over the logits of all experts (Qwen3, DeepSeek-V2)
  kSigmoid,          // applied to each logit separately (DeepSeek-V3)
};

// The experts of a mixture. In a block with experts, the feed-forward layer consists of a router
// and `count` experts. Each token uses `per_token` experts.
struct Experts {
  std::int64_t count = 0;         // E; 0: the model is dense
  std::int64_t per_token = 0;     // k
  std::int64_t feed_forward = 0;  // width of one expert
  // The total width of the shared experts, which every token uses. 0: no shared experts.
  std::int64_t shared_feed_forward = 0;
  // The first `leading_dense` blocks have a dense feed-forward layer of width
  // Architecture::feed_forward. Every `every`-th of the other blocks has experts. Blocks are
  // counted from the model's first block: if `every` is 2, the blocks with an odd index have
  // experts.
  std::int64_t leading_dense = 0;
  std::int64_t every = 1;
  RouterScores scores = RouterScores::kSoftmaxOfChosen;
  // Whether the weights of a token's experts are normalized so that their sum is 1
  // (norm_topk_prob).
  bool normalized_weights = true;
  // Experts form `groups` groups, and the router chooses a token's experts from only
  // `groups_per_token` groups (DeepSeek-V3: 8 and 4). If `groups` is 0, the router chooses from all
  // experts.
  std::int64_t groups = 0, groups_per_token = 0;
  // Whether a correction is added to each expert's score to balance the experts' loads. The
  // correction is not a trained parameter (DeepSeek-V3).
  bool balancing_bias = false;
  // Whether the shared experts' output is multiplied by a gate: the sigmoid of a linear layer of
  // the input (Qwen2-MoE).
  bool shared_gate = false;
  bool router_bias = false;  // the router's linear layer has a bias (GPT-OSS)
  bool bias = false;         // the experts' linear layers have biases (GPT-OSS)
  // The width of the latent vector that routed experts read (Nemotron 3). A GEMM computes the
  // vector from the token's activation. Another GEMM maps the experts' output to the hidden size.
  // 0: experts read the activation itself. `latent_norm`: the latent vector is normalized.
  std::int64_t latent = 0;
  bool latent_norm = false;
  // Whether the block also has a dense feed-forward layer, in parallel with the experts (Gemma 4).
  // The dense layer and the experts have separate norms. The router multiplies its input and each
  // expert's weight by trained factors.
  bool beside_dense = false;

  constexpr bool exist() const { return count > 0; }
  friend bool operator==(const Experts&, const Experts&) = default;
};

// Latent attention: keys and values are computed from one narrow vector per token (DeepSeek-V2,
// arXiv 2405.04434, section 2.1). Rotary positions are applied to one part of each query and key.
// All heads share the rotated part of the keys.
struct LatentAttention {
  std::int64_t kv_rank = 0;  // kv_lora_rank, the width of the latent vector; 0: no latent attention
  // The width of the vector from which queries are computed (q_lora_rank). 0: queries are computed
  // from the input.
  std::int64_t query_rank = 0;
  std::int64_t plain_head = 0;   // qk_nope_head_dim: elements of a head that are not rotated
  std::int64_t rotary_head = 0;  // qk_rope_head_dim: elements of a head that are rotated
  std::int64_t value_head = 0;   // v_head_dim: elements of a head's value

  constexpr bool exists() const { return kv_rank > 0; }
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

struct Architecture {
  // The model's family, which determines the names and the registration order of tensors. Null for
  // architectures whose modules have no names.
  std::shared_ptr<const Family> family{};
  std::int64_t layers = 0;
  std::int64_t hidden = 0;        // h
  std::int64_t heads = 0;         // a, query heads
  std::int64_t kv_heads = 0;      // g, key-value heads; a divisor of heads
  std::int64_t head_size = 0;     // d; q projection is hidden x (heads * head_size)
  std::int64_t feed_forward = 0;  // f
  std::int64_t vocabulary = 0;    // V, rows of the embedding
  // For learned positions: the number of rows of the position table, which limits the sequence
  // length in tokens. For other positions: the number in the model file, which limits nothing. 0:
  // not specified.
  std::int64_t max_positions = 0;
  Normalization normalization = Normalization::kRmsNorm;
  Activator activator = Activator::kSwiGlu;
  Position position = Position::kRotary;
  bool tie_embeddings = false;  // the head shares the embedding's tensor
  bool head_bias = false;       // the head's linear layer has a bias (GPT-J, Phi)
  // If attention and feed-forward run in parallel on the same input: the number of norms before
  // them, 1 (shared) or 2 (separate). 0: the feed-forward runs after attention and reads the
  // residual sum.
  std::int64_t parallel_residual_norms = 0;
  // Whether the queries and keys of each head have an RMS norm.
  bool qk_norm = false;
  // Whether the norms of queries and keys span all heads, with one weight for each element (OLMo 2
  // and OLMoE).
  bool norms_all_heads = false;
  bool weightless_norms = false;  // per-head norms without weights (Llama 4)
  bool norms_values = false;      // values also have norms without weights (Gemma 4)
  // Whether a norm follows attention and another norm follows the feed-forward, each before the
  // residual sum. Except in OLMo 2, norms also precede attention and the feed-forward.
  bool branch_norms = false;
  // Whether embeddings are multiplied by the square root of the hidden size.
  bool scales_embeddings = false;
  // Whether attention has sinks: one trained number per head is an additional term of the softmax
  // (arXiv 2309.17453).
  bool sinks = false;
  // Soft-capping limits the absolute values of attention scores to `score_cap` and of logits to
  // `logit_cap` (Gemma 2). 0: not capped.
  double score_cap = 0, logit_cap = 0;
  bool attention_bias = false;   // q, k, v projections have biases
  bool projection_bias = false;  // the attention output projection has a bias
  bool feed_forward_bias = false;
  bool norm_bias = false;          // LayerNorm only
  bool dropout = false;            // residual and embedding dropout are active in training
  bool attention_dropout = false;  // dropout of attention weights is active in training
  // The largest number of previous tokens to which a token attends. 0: all previous tokens.
  std::int64_t attention_window = 0;
  // The length in tokens of the chunks within which tokens attend (Llama 4). 0: tokens attend
  // within the full sequence.
  std::int64_t attention_chunk = 0;
  // For models with a window or chunks: every n-th block, counted from the model's first block, has
  // full attention. If n is 2, these are the blocks with an odd index (GPT-OSS, Gemma 2). If n is
  // 6, every sixth block has full attention (Gemma 3). 0: no block has full attention.
  std::int64_t full_attention_every = 0;
  // For encoders: the number of token types (segments), one table row each. 0: no table.
  std::int64_t token_types = 0;
  // For encoders: whether a pooler and a head use the first token to predict whether the second
  // segment follows the first segment.
  bool next_sentence = false;
  // With latent attention, `head_size` is plain_head + rotary_head, and `kv_heads` equals `heads`.
  LatentAttention latent{};
  Experts experts{};
  // Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): the number of modules
  // after the last block that predict further tokens. A module is a block whose input combines the
  // next token's embedding with the output of the previous module. The first module reads the
  // output of the last block.
  std::int64_t further_tokens = 0;
  bool further_repeated = false;  // all modules share the parameters of the first module
  Lora lora{};                    // training with adapters; all other parameters are frozen

  // Whether every token attends to its full sequence (encoders).
  bool attends_both_ways = false;
  bool key_without_bias = false;  // attention_bias is only for queries and values (Whisper)
  // The number of relative-distance buckets (T5, arXiv 1910.10683). Attention adds to each score a
  // trained number that depends on the head and on the bucket. All blocks of the encoder, or of the
  // decoder, share one table of these numbers. 0: no table.
  std::int64_t distance_buckets = 0;
  // Cross-attention to the encoder's output, which runs after self-attention.
  CrossAttention cross{};
  // The number of tokens of a sequence in this block. 0: the sequence length of the batch plus
  // `joined_rows`.
  std::int64_t own_length = 0;
  std::int64_t joined_rows = 0;
  // Whether all linear layers have one set of weights for rows of text and another set for all
  // other rows (Flux's double blocks).
  bool two_streams = false;
  Modulation modulation{};             // modulation of the block (complete model: of the head)
  bool norms_without_weights = false;  // only norms of q, k and cross-attention have weights

  // The block's token mixer. The attention members above apply only to Mixer::kAttention.
  Mixer mixer = Mixer::kAttention;
  // A second mixer, which reads the same normalized input (Falcon-H1). The outputs of both mixers
  // are added to the residual. kNone: there is no second mixer.
  Mixer beside = Mixer::kNone;
  std::int64_t value_size = 0;  // elements of a head's value; 0: head_size
  OutputGate output_gate = OutputGate::kNone;
  bool gate_of_query = false;  // the GEMM of the queries also computes the gate
  bool key_is_value = false;   // values equal the keys before norm and rotary positions (Gemma 4)
  bool borrows_keys = false;   // keys and values come from an earlier block (Gemma 4)
  Indexer indexer{};
  SharedKeyValue shared_key{};
  DeltaRule delta{};
  StateSpace state_space{};
  ShortConvolution short_conv{};
  SelectiveScan selective_scan{};
  DecayAttention decay{};
  // The row width of a second embedding table. Each block multiplies its output by a gate that is
  // computed from a row of this table (Gemma 4). 0: no table.
  std::int64_t layer_input = 0;
  // Attention residuals (Kimi K3): attention and the feed-forward layer read a weighted mean of the
  // residual stream and of the outputs of every n-th previous block. 0: they read only the residual
  // stream.
  std::int64_t residual_bank = 0;
  // The number of residual streams, each of the hidden size. Attention and the feed-forward layer
  // each mix the streams (hyper-connections, arXiv 2512.24880). 0: one ordinary residual stream.
  std::int64_t streams = 0;

  // `kinds` lists the kinds of blocks, and `pattern` lists the kind of each block. A kind is an
  // architecture with the same hidden size and an empty `kinds`. If `kinds` is empty, all blocks
  // have this architecture. Otherwise, this struct's attention members are copies of the first kind
  // with attention, and its expert members are copies of the first kind with experts.
  std::vector<Architecture> kinds{};
  std::vector<int> pattern{};
  std::vector<Tower> towers{};
  ValueInput input{};
  Prediction prediction{};
  Condition condition{};
  TextRows text{};
  Encoder encoder{};      // the encoder's blocks come first in `pattern`
  int further_kind = -1;  // multi-token prediction: kind of block; -1: as the last block

  friend bool operator==(const Architecture&, const Architecture&) = default;
};

// Returns whether the block has this mixer.
inline bool Has(const Architecture& block, Mixer mixer) {
  return block.mixer == mixer || block.beside == mixer;
}
// Returns the first kind of block whose attention scores get a bias by relative distance. Considers
// the encoder's blocks if `of_encoder`, otherwise all other blocks. Null: there is no such kind.
const Architecture* BiasedByDistance(const Architecture& architecture, bool of_encoder);
// Returns whether every token attends to its full sequence in all blocks that are not part of
// `encoder`.
bool AttendsBothWays(const Architecture& architecture);
// Returns the architecture of blocks of kind `kind`. If the architecture has no kinds, returns the
// architecture of all blocks.
Architecture OfKind(const Architecture& architecture, int kind);
// Returns the kind of the block with this index, or -1 if there are no kinds.
int KindOfBlock(const Architecture& architecture, std::int64_t block);
// Returns the family's name as model files write it.
std::string_view FamilyName(const Architecture& architecture);

const FamilyTraits& TraitsOf(const Architecture& architecture);

// Returns whether the block with this index, counted from the model's first block, has experts.
inline bool HasExperts(const Architecture& architecture, std::int64_t block) {
  if (!architecture.kinds.empty()) {
    return architecture.kinds[static_cast<std::size_t>(KindOfBlock(architecture, block))]
        .experts.exist();
  }
  const Experts& experts = architecture.experts;
  return experts.exist() && block >= experts.leading_dense && (block + 1) % experts.every == 0;
}

// Returns whether the block has a feed-forward layer.
inline bool HasFeedForward(const Architecture& architecture) {
  return architecture.feed_forward > 0 || architecture.experts.exist();
}

// Returns the number of elements of one head's value, which is also the size of the head's output.
inline std::int64_t ValueSize(const Architecture& architecture) {
  if (architecture.latent.exists()) return architecture.latent.value_head;
  return architecture.value_size > 0 ? architecture.value_size : architecture.head_size;
}

// Returns whether some blocks have a window or chunks, and all other blocks attend to all tokens.
inline bool MixesWindows(const Architecture& architecture) {
  return (architecture.attention_window > 0 || architecture.attention_chunk > 0) &&
         architecture.full_attention_every > 0;
}
// Returns whether the block with this index has full attention in a model whose other blocks have a
// window or chunks. False if all blocks attend in the same way.
inline bool AttendsInFull(const Architecture& architecture, std::int64_t block) {
  return MixesWindows(architecture) && (block + 1) % architecture.full_attention_every == 0;
}

// Returns whether one GEMM computes queries, keys and values, and attention reads the GEMM's output
// directly (GPT-2's c_attn, MPT's Wqkv).
inline bool HasFusedAttention(const Architecture& a) {
  return TraitsOf(a).one_qkv && a.position != Position::kRotary;
}
// Returns whether one GEMM computes queries, keys and values, which are then split to apply rotary
// positions.
inline bool HasFusedProjections(const Architecture& a) {
  return TraitsOf(a).one_qkv && a.position == Position::kRotary;
}
// Returns whether one GEMM computes gate and up.
inline bool HasFusedGate(const Architecture& a) {
  return TraitsOf(a).one_gate_up && IsGated(a.activator);
}

// One error in an architecture's dimensions. `field` is a key of the model file ("hidden_size").
// `message` is one sentence.
struct ArchitectureFault {
  std::string field;
  std::string message;
  std::string hint;
};
std::vector<ArchitectureFault> Check(const Architecture& architecture);
// Checks only the architecture's adapters, which Check ignores. A fault's `field` is a field of
// `lora`, such as "targets".
std::vector<ArchitectureFault> CheckLora(const Architecture& architecture);

// These functions return the number of weights in the linear layers of a block or of the head. For
// grouped-query attention, the weights of a key-value head are counted for every query head that
// uses it. nanotron divides blocks among stages by these numbers (models/llama.py,
// get_block_compute_costs).
std::int64_t ProductWeightsOfBlock(const Architecture& architecture);
std::int64_t ProductWeightsOfHead(const Architecture& architecture);

// These functions return the spelling in model files, such as "layernorm", "gelu" or "learned".
const char* Name(Normalization normalization);
const char* Name(Activator activator);
const char* Name(Position position);

// With these limits, every total of a model (elements, bytes, FLOPs of a micro-batch) fits in 64
// bits.
inline constexpr std::int64_t kMostLayers = 10'000;
inline constexpr std::int64_t kMostWidth = 1 << 18;  // hidden, heads x head size, ...
inline constexpr std::int64_t kMostVocabulary = 1 << 24;
inline constexpr std::int64_t kMostPositions = 1 << 24;
inline constexpr std::int64_t kMostMatrix = std::int64_t{1} << 34;  // elements of one matrix
inline constexpr std::int64_t kMostExperts = 1 << 16;
inline constexpr std::int64_t kMostFurtherTokens = 8;
// The largest number of elements that all experts of one block may have.
inline constexpr std::int64_t kMostExpertElements = std::int64_t{1} << 38;

}  // namespace stepcast::model
