#pragma once

#include <cstdint>
#include <string_view>

// Token mixers other than full softmax attention: recurrent layers, which update a state from token
// to token, short convolutions, and sparse attention with an indexer.
namespace stepcast::model {

enum class Mixer : std::uint8_t {
  kAttention,      // attention or latent attention
  kDelta,          // the gated delta rule
  kStateSpace,     // Mamba-2
  kShortConv,      // a short convolution between two gates (LFM2)
  kSelectiveScan,  // Mamba-1
  kDecay,          // linear attention with a fixed decay (lightning attention)
  kNone,           // the block has only a feed-forward layer
};
// Returns the mixer's name in messages, such as "the gated delta rule".
std::string_view Name(Mixer mixer);
// Returns whether the mixer is neither attention nor absent. Recurrent mixers compute all their
// inputs with one GEMM, and read no score matrix.
constexpr bool IsRecurrent(Mixer mixer) {
  return mixer != Mixer::kAttention && mixer != Mixer::kNone;
}

// How the mixer's output is multiplied by a gate, which is a linear layer of the mixer's input.
// Attention uses the gate's sigmoid. Recurrent layers apply the gate inside a norm.
enum class OutputGate : std::uint8_t {
  kNone,
  kElement,  // one number for each element of the output
  kHead,     // one number for each head
};

// The gated delta rule (Yang et al. 2024, arXiv 2412.06464). Each value head has a state of `key` x
// `value` numbers. For each token, the state decays, and the token's value replaces the value
// stored at the token's key. Each key head belongs to value_heads / key_heads value heads.
struct DeltaRule {
  std::int64_t key_heads = 0, value_heads = 0;
  std::int64_t key = 0, value = 0;  // size of a head
  std::int64_t conv = 4;            // width of the causal convolution before the delta rule
  // Whether the decay has one number per key channel (Kimi delta attention, arXiv 2510.26692). Two
  // linear layers, with `decay_rank` numbers between them, compute the decay. If false, the decay
  // has one number per head.
  bool by_channel = false;
  std::int64_t decay_rank = 0;
  std::int64_t gate_rank = 0;  // rank of the output gate's linear layer; 0: full rank
  std::int64_t chunk = 64;     // tokens that a kernel processes at once

  constexpr std::int64_t keys() const { return key_heads * key; }
  constexpr std::int64_t values() const { return value_heads * value; }
  friend bool operator==(const DeltaRule&, const DeltaRule&) = default;
};

// Mamba-2 (Dao and Gu 2024, arXiv 2405.21060). Each head has a state of `head` x `state` numbers.
// For each token, the state decays, and the outer product of the token's input and the token's B is
// added. The heads of a group share B and C.
struct StateSpace {
  std::int64_t heads = 0, head = 0;
  std::int64_t state = 0, groups = 1;
  std::int64_t conv = 4;
  bool conv_bias = true;
  bool projection_bias = false;  // the first and last linear layers have biases
  bool norm = true;          // the gate is part of a norm; false: SiLU of the gate, without norm
  std::int64_t chunk = 256;  // tokens that a kernel processes at once

  constexpr std::int64_t inner() const { return heads * head; }
  // Returns the number of channels of the convolution: the channels of x, B and C together.
  constexpr std::int64_t convolved() const { return inner() + 2 * groups * state; }
  friend bool operator==(const StateSpace&, const StateSpace&) = default;
};

// A short convolution (LFM2, arXiv 2511.23404). A linear layer computes two gates and an input,
// each as wide as the residual. The first gate multiplies the input of a causal convolution, and
// the second gate multiplies its output.
struct ShortConvolution {
  std::int64_t conv = 4;
  bool bias = false;  // the convolution and both linear layers have biases
  friend bool operator==(const ShortConvolution&, const ShortConvolution&) = default;
};

// Mamba-1 (Gu and Dao 2023, arXiv 2312.00752). Each of `inner` channels has a state of `state`
// numbers. A linear layer computes B, C and a vector of `rank` numbers from the output of a causal
// convolution. Another linear layer computes the time step of each channel from this vector.
struct SelectiveScan {
  std::int64_t inner = 0, state = 16, rank = 0;
  std::int64_t conv = 4;
  bool conv_bias = true;
  bool projection_bias = false;  // the first and last linear layers have biases
  // Whether B, C and the vector of the time step have RMS norms with weights (Jamba). Without
  // norms, one autograd function computes all that follows the first linear layer.
  bool norms = false;
  friend bool operator==(const SelectiveScan&, const SelectiveScan&) = default;
};

// Linear attention whose state decays by a constant of the head (lightning attention, arXiv
// 2401.04658). SiLU follows the linear layer of queries, keys and values. A norm over all heads and
// a gate, which another linear layer computes, follow the attention.
struct DecayAttention {
  std::int64_t heads = 0, head = 0;
  std::int64_t chunk = 256;  // tokens that a kernel processes at once

  constexpr std::int64_t inner() const { return heads * head; }
  friend bool operator==(const DecayAttention&, const DecayAttention&) = default;
};

// The indexer, which chooses the keys that attention reads for each query (DeepSeek-V3.2, arXiv
// 2512.02556). Small heads score all previous keys. The indexer then chooses the `top` best keys,
// in blocks of `block` keys.
struct Indexer {
  std::int64_t heads = 0, head = 0;
  std::int64_t top = 0;    // keys per query; 0: no indexer
  std::int64_t block = 1;  // number of keys that are chosen together
  // Whether the layer reuses the keys that the nearest earlier indexer chose.
  bool shared = false;
  // Whether training runs the indexer. False: attention reads all keys, and the indexer's weights
  // are not used.
  bool runs = true;
  bool from_query_rank = true;  // queries are computed from latent attention's query vector
  bool weighs_heads = true;     // a linear layer of the input computes the weights of heads

  constexpr bool exists() const { return top > 0; }
  constexpr bool chooses() const { return exists() && runs; }
  friend bool operator==(const Indexer&, const Indexer&) = default;
};

// Cross-attention: keys and values are computed from rows of another part of the model, called the
// context. Every block with cross-attention reads the same context.
struct CrossAttention {
  std::int64_t heads = 0, kv_heads = 0, head = 0;  // heads 0: no cross-attention
  std::int64_t width = 0;                          // width of a row of the context
  std::int64_t tokens = 0;                         // rows of the context per sequence
  bool bias = false, key_bias = false, output_bias = false;
  bool norms = false;  // RMS norms of queries and keys, over all heads together (Wan)

  constexpr bool exists() const { return heads > 0; }
  friend bool operator==(const CrossAttention&, const CrossAttention&) = default;
};

// Attention whose key and value are one vector per token, shared by all heads (DeepSeek-V4). A
// query attends to the tokens of a window and, if `compressed` is not 0, to vectors that each
// represent several tokens.
struct SharedKeyValue {
  // The width of the vector from which queries are computed. 0: the block does not have this kind
  // of attention.
  std::int64_t query_rank = 0;
  // Two linear layers compute the output. The first layer maps each of `output_groups` groups of
  // heads to `output_rank` numbers.
  std::int64_t output_groups = 0, output_rank = 0;
  std::int64_t compressed = 0;  // tokens per compressed vector; 0: no compressed vectors
  std::int64_t overlap = 1;     // inputs of a compressed vector: overlap x compressed tokens

  constexpr bool exists() const { return query_rank > 0; }
  friend bool operator==(const SharedKeyValue&, const SharedKeyValue&) = default;
};

}  // namespace stepcast::model
