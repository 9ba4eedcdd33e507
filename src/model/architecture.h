#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/lora.h"
#include "src/model/mixers.h"
#include "src/model/tower.h"

// A transformer, a decoder or an encoder alone, by its dimensions: what a model YAML file or a
// Hugging Face config.json states.
namespace stepcast::model {

enum class Family : std::uint8_t {
  kGpt2,
  kLlama,
  kMistral,
  kQwen2,
  kMpt,
  kNemotron,
  kMixtral,  // Mistral's layers with experts (arXiv 2401.04088)
  kQwen3,    // norms of queries and keys (arXiv 2505.09388); with experts Qwen3-MoE
  // Latent attention (arXiv 2405.04434, 2412.19437); with experts, as all that are released: V2,
  // V3, Moonlight, Kimi K2.
  kDeepseek,
  kGptOss,  // attention sinks, and biases of all products (OpenAI 2025, gpt-oss)
  // Norms before and behind attention and feed-forward, embeddings times a constant (arXiv
  // 2408.00118, 2503.19786).
  kGemma2,
  kGemma3,
  kPhi3,   // one tensor for queries, keys and values, one for gate and up (arXiv 2404.14219); Phi-4
  kOlmo2,  // norms behind attention and feed-forward alone, and of all heads (arXiv 2501.00656)
  kGlm4Moe,  // GLM-4.5 (arXiv 2508.06471)
  kLlama4,   // text models of Llama 4: experts, attention within chunks
  kGemma,  // Llama's layers with a gate of GELU, and embeddings times a constant (arXiv 2403.08295)
  kGlm,    // one tensor for gate and up (arXiv 2406.12793); kGlm4 has norms behind, too
  kGlm4,
  kStarcoder2,  // layer norms, GELU and biases, with rotary positions (arXiv 2402.19173)
  kOlmoe,       // experts, and norms of all heads of queries and of keys (arXiv 2409.02060)
  // Attention and feed-forward side by side, which take the same input.
  kGptj,     // Wang and Komatsuzaki 2021, GPT-J-6B
  kGptNeox,  // GPT-NeoX and Pythia (arXiv 2204.06745, 2304.01373)
  kPhi,      // Phi-1, 1.5 and 2 (arXiv 2309.05463)
  kFalcon,   // arXiv 2311.16867
  kCohere,   // Command R
  // Encoders, pre-trained by predicting masked tokens (Devlin et al. 2018, arXiv 1810.04805).
  kBert,          // norms behind residuals
  kMegatronBert,  // norms before attention and feed-forward (Shoeybi et al. 2019, arXiv 1909.08053)
  // A family that a file describes: Architecture::described has its names.
  kDescribed,
};
struct DescribedFamily;  // module_names.h
enum class Normalization : std::uint8_t { kLayerNorm, kRmsNorm };
enum class Activator : std::uint8_t {
  kGelu,
  kSwiGlu,       // gated: two linear layers before it
  kGeGlu,        // likewise, with GELU in the place of SiLU (Shazeer 2020, arXiv 2002.05202)
  kSquaredRelu,  // max(x, 0)^2 (So et al. 2021, arXiv 2109.08668)
};
constexpr bool IsGated(Activator activator) {
  return activator == Activator::kSwiGlu || activator == Activator::kGeGlu;
}
enum class Position : std::uint8_t { kLearned, kRotary, kAlibi, kNone };

// How a router's scores become the weights of the experts that a token takes.
enum class RouterScores : std::uint8_t {
  kSoftmaxOfChosen,  // over the logits of the chosen experts (Mixtral, GPT-OSS)
  kSoftmax,          // over the logits of all experts (Qwen3, DeepSeek-V2)
  kSigmoid,          // of each logit by itself (DeepSeek-V3)
};

// The experts of a mixture. In the blocks that have experts, the feed-forward layer is a router and
// `count` feed-forward layers of their own, of which each token takes `per_token`.
struct Experts {
  std::int64_t count = 0;         // E; 0: the model is dense
  std::int64_t per_token = 0;     // k
  std::int64_t feed_forward = 0;  // width of one expert
  // Width of the shared experts together, which every token takes; 0: there are none.
  std::int64_t shared_feed_forward = 0;
  // The first blocks have a dense feed-forward layer of width Architecture::feed_forward. Behind
  // them every `every`-th block has experts, counted from the model's first block: with 2 those
  // with an odd index.
  std::int64_t leading_dense = 0;
  std::int64_t every = 1;
  RouterScores scores = RouterScores::kSoftmaxOfChosen;
  // The weights of a token's experts add up to 1 (norm_topk_prob).
  bool normalized_weights = true;
  // Experts stand in so many groups, and a token takes its experts from so many of them; 0: from
  // all (DeepSeek-V3: 8 and 4).
  std::int64_t groups = 0, groups_per_token = 0;
  // A correction of each expert's score balances the loads; it is no parameter (DeepSeek-V3).
  bool balancing_bias = false;
  // What the shared experts make is multiplied by the sigmoid of one product (Qwen2-MoE).
  bool shared_gate = false;
  bool router_bias = false;  // the router's product has a bias (GPT-OSS)
  bool bias = false;         // so have the experts' (GPT-OSS)
  // Routed experts work on a vector of this width, which one product makes of a token and another
  // one turns back (Nemotron 3); 0: on the token itself. With `latent_norm` it is normalised.
  std::int64_t latent = 0;
  bool latent_norm = false;
  // The dense feed-forward layer of the block runs beside the experts (Gemma 4). Both have norms of
  // their own, and the router scales its input and each expert's weight.
  bool beside_dense = false;

  constexpr bool exist() const { return count > 0; }
  friend bool operator==(const Experts&, const Experts&) = default;
};

// Attention whose keys and values are made of one narrow vector a token (DeepSeek-V2, arXiv
// 2405.04434, section 2.1). Of each query and key one part is turned by its position, which is the
// same for all heads of the keys, and one is not.
struct LatentAttention {
  std::int64_t kv_rank = 0;  // width of the vector, kv_lora_rank; 0: attention has no such vector
  std::int64_t query_rank = 0;   // of the queries' own, q_lora_rank; 0: they are made of the input
  std::int64_t plain_head = 0;   // part of a head that is not turned, qk_nope_head_dim
  std::int64_t rotary_head = 0;  // that is, qk_rope_head_dim
  std::int64_t value_head = 0;   // values of a head, v_head_dim

  constexpr bool exists() const { return kv_rank > 0; }
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

struct Architecture {
  Family family = Family::kLlama;  // decides the tensors' names and their registration order
  std::int64_t layers = 0;
  std::int64_t hidden = 0;         // h
  std::int64_t heads = 0;          // a, query heads
  std::int64_t kv_heads = 0;       // g, key-value heads; divides heads
  std::int64_t head_size = 0;      // d; q projection is hidden x (heads * head_size)
  std::int64_t feed_forward = 0;   // f
  std::int64_t vocabulary = 0;     // V, rows of the embedding
  std::int64_t max_positions = 0;  // learned positions: rows of their table, the longest sequence
                                   // it can take. Others: what is stated, no limit; 0 = nothing
  Normalization normalization = Normalization::kRmsNorm;
  Activator activator = Activator::kSwiGlu;
  Position position = Position::kRotary;
  bool tie_embeddings = false;  // the head uses the embedding's tensor
  bool head_bias = false;       // the head's product has a bias (GPT-J, Phi)
  // Attention and feed-forward take the same input, normalised by so many norms: 1, which both
  // share, or 2, one for each. 0: feed-forward takes the sum that attention is added to.
  std::int64_t parallel_residual_norms = 0;
  // RMS norms over each head of queries and of keys, or over all heads together.
  bool qk_norm = false;
  bool norms_all_heads = false;   // with a weight for each place (OLMo 2 and OLMoE)
  bool weightless_norms = false;  // over each head, without weights (Llama 4)
  bool norms_values = false;      // values have such norms without weights, too (Gemma 4)
  // Norms stand behind attention and feed-forward, before they are added: beside norms before them,
  // or in OLMo 2 in their place.
  bool branch_norms = false;
  // Embeddings are multiplied by the root of their width.
  bool scales_embeddings = false;
  // A number for each head takes part in the softmax of its scores (arXiv 2309.17453).
  bool sinks = false;
  // Scores, and logits, lie between such a number and its negative (Gemma 2); 0: anywhere.
  double score_cap = 0, logit_cap = 0;
  bool attention_bias = false;   // q, k, v projections have biases
  bool projection_bias = false;  // the attention output projection has one
  bool feed_forward_bias = false;
  bool norm_bias = false;             // LayerNorm only
  bool dropout = false;               // residual and embedding dropout are active in training
  bool attention_dropout = false;     // so is dropout of the attention weights
  std::int64_t attention_window = 0;  // a token sees at most so many before it; 0 = all of them
  // A token sees none before its part of so many tokens (Llama 4); 0: of the whole sequence.
  std::int64_t attention_chunk = 0;
  // With a window, or with chunks: each so-many-th block has none, counted from the model's first:
  // with 2 those with an odd index (GPT-OSS, Gemma 2), with 6 (Gemma 3) the sixth; 0: every block
  // has it.
  std::int64_t full_attention_every = 0;
  // Encoders: rows of the table of token types (segments); 0: there is none.
  std::int64_t token_types = 0;
  // Encoders: a pooler and a head tell from the first token whether one segment follows the other.
  bool next_sentence = false;
  LatentAttention latent{};  // head_size is then plain_head + rotary_head, kv_heads are heads
  Experts experts{};
  // Modules behind the last block that predict further tokens from it, 0 or 1 (multi-token
  // prediction, DeepSeek-V3, arXiv 2412.19437, section 2.2): a block of their own, which takes what
  // the blocks have made and the next token's embedding.
  std::int64_t further_tokens = 0;
  Lora lora{};  // how it is trained: with adapters, all else frozen

  // The block. Attention is described above.
  Mixer mixer = Mixer::kAttention;
  std::int64_t value_size = 0;  // values of a head; 0: head_size
  OutputGate output_gate = OutputGate::kNone;
  bool gate_of_query = false;  // the product of queries makes the gate, too
  bool key_is_value = false;   // values are the keys before their norm and positions (Gemma 4)
  bool borrows_keys = false;   // keys and values are those of an earlier block (Gemma 4)
  Indexer indexer{};
  SharedKeyValue shared_key{};
  DeltaRule delta{};
  StateSpace state_space{};
  // Each block has a row of so many numbers of a second table, which gates what it adds (Gemma 4);
  // 0: none.
  std::int64_t layer_input = 0;
  // Each branch takes a weighted mean of the stream and of the outputs of every so-many blocks
  // before it (attention residuals, Kimi K3); 0: the stream alone.
  std::int64_t residual_bank = 0;
  // The residual stream is so many streams of the hidden width, which each branch mixes
  // (hyper-connections, arXiv 2512.24880); 0: one stream, as it is.
  std::int64_t streams = 0;

  // Blocks of several kinds: what each kind is, and of each block its kind. A kind is an
  // architecture of the same width without kinds of its own, a model of such blocks alone. Empty:
  // all blocks are as this architecture says. What is said here of attention and experts is then
  // that of the first kind that has them.
  std::vector<Architecture> kinds{};
  std::vector<int> pattern{};
  std::vector<Tower> towers{};
  int further_kind = -1;  // of the module that predicts further tokens; -1: of the last block
  // Module names of a family read from a file; null: those of `family`.
  std::shared_ptr<const DescribedFamily> described{};
};

// The architecture of a block of the kind, or of all blocks where there are no kinds.
Architecture OfKind(const Architecture& architecture, int kind);
// The kind of the block with this index; -1: there are no kinds.
int KindOfBlock(const Architecture& architecture, std::int64_t block);
// The family's name in model files.
std::string_view FamilyName(const Architecture& architecture);

// What the released models of a family have in common: normalisation, activation, positions,
// biases, tied embeddings. Dimensions and dropout are left at zero and false.
Architecture TypicalOf(Family family);

// Whether the block with this index, counted from the model's first, has experts.
inline bool HasExperts(const Architecture& architecture, std::int64_t block) {
  if (!architecture.kinds.empty()) {
    return architecture.kinds[static_cast<std::size_t>(KindOfBlock(architecture, block))]
        .experts.exist();
  }
  const Experts& experts = architecture.experts;
  return experts.exist() && block >= experts.leading_dense && (block + 1) % experts.every == 0;
}

// The block has a feed-forward layer.
inline bool HasFeedForward(const Architecture& architecture) {
  return architecture.feed_forward > 0 || architecture.experts.exist();
}

// Values of one head: what attention makes of it.
inline std::int64_t ValueSize(const Architecture& architecture) {
  if (architecture.latent.exists()) return architecture.latent.value_head;
  return architecture.value_size > 0 ? architecture.value_size : architecture.head_size;
}

// Some blocks have the window, or chunks, and others attend to all tokens.
inline bool MixesWindows(const Architecture& architecture) {
  return (architecture.attention_window > 0 || architecture.attention_chunk > 0) &&
         architecture.full_attention_every > 0;
}
// The block with this index is one of the others.
inline bool AttendsInFull(const Architecture& architecture, std::int64_t block) {
  return MixesWindows(architecture) && (block + 1) % architecture.full_attention_every == 0;
}

// One product computes queries, keys and values, and attention takes what it makes as it is
// (GPT-2's c_attn, MPT's Wqkv).
inline bool HasFusedAttention(const Architecture& a) {
  return a.family == Family::kMpt || (a.family == Family::kGpt2 && a.position != Position::kRotary);
}
// One product computes queries, keys and values, which are taken apart to be turned.
inline bool HasFusedProjections(const Architecture& a) {
  return a.family == Family::kPhi3 || a.family == Family::kGptNeox || a.family == Family::kFalcon ||
         (a.family == Family::kGpt2 && !HasFusedAttention(a));
}
// One product computes gate and up.
inline bool HasFusedGate(const Architecture& a) {
  return a.family == Family::kPhi3 || a.family == Family::kGlm || a.family == Family::kGlm4 ||
         (a.family == Family::kGpt2 && IsGated(a.activator));
}

// Attention and feed-forward side by side have one norm, and never two.
constexpr bool HasOneNorm(Family family) {
  return family == Family::kGptj || family == Family::kPhi || family == Family::kCohere;
}

// Every token sees all tokens of its sequence; the head predicts masked ones.
constexpr bool IsEncoder(Family family) {
  return family == Family::kBert || family == Family::kMegatronBert;
}
// Norms stand behind residuals: embeddings have one, too, and there is none before the head.
constexpr bool HasPostNorm(Family family) { return family == Family::kBert; }

// What is impossible about the dimensions, one sentence each, naming the field as in the model
// file ("hidden_size"); empty when the architecture can be built.
struct ArchitectureFault {
  std::string field;
  std::string message;
  std::string hint;
};
std::vector<ArchitectureFault> Check(const Architecture& architecture);
// What its adapters cannot be, the same; fields of `lora`: "targets". Not a part of Check.
std::vector<ArchitectureFault> CheckLora(const Architecture& architecture);

// Weights in the matrix products of a block, keys and values counted for every query head, and in
// those of the head. nanotron shares out blocks by them (models/llama.py, get_block_compute_costs).
std::int64_t ProductWeightsOfBlock(const Architecture& architecture);
std::int64_t ProductWeightsOfHead(const Architecture& architecture);

// The words of the model file: "gpt2", "layernorm", "gelu", "learned".
const char* Name(Family family);
const char* Name(Normalization normalization);
const char* Name(Activator activator);
const char* Name(Position position);

// Limits that keep every count of a model (elements, bytes, FLOPs of a micro-batch) inside 64 bits.
inline constexpr std::int64_t kMostLayers = 10'000;
inline constexpr std::int64_t kMostWidth = 1 << 18;  // hidden, heads x head size, ...
inline constexpr std::int64_t kMostVocabulary = 1 << 24;
inline constexpr std::int64_t kMostPositions = 1 << 24;
inline constexpr std::int64_t kMostMatrix = std::int64_t{1} << 34;  // elements of one matrix
inline constexpr std::int64_t kMostExperts = 1 << 16;
inline constexpr std::int64_t kMostExpertElements = std::int64_t{1} << 38;  // of all in one block

}  // namespace stepcast::model
