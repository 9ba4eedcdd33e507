#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/model/architecture.h"
#include "src/model/layer_operators.h"

// The operators for queries, keys and values of latent attention (DeepSeek-V2, arXiv 2405.04434).
// Down-projections compute two narrow vectors per token, which are normalized. Up-projections
// compute the heads from these vectors. Rotary positions are applied to one part of each query head
// and to the part of the keys that all heads share.
//
// Tensor parallelism follows Megatron-Core (transformer/multi_latent_attention.py @ d98e8a64ddf3).
// Every rank has the full down-projections and applies them to its part of the tokens. The ranks
// gather the two vectors and the shared part of the keys before the up-projections, which are
// divided by heads.
//
// If rotary positions are not fused, kernels and kept values follow Hugging Face transformers
// (models/deepseek_v3/modeling_deepseek_v3.py): copies join the rotated and unrotated parts, and
// keys and values are one tensor. Otherwise, kernels follow Transformer Engine (Megatron-Core's
// fused_mla_yarn_rope_apply.py): queries are rotated in place, and one kernel writes keys and
// values.
namespace stepcast::model {

class LatentAttentionOperators {
 public:
  struct Modules {
    // The modules that compute queries. If LatentAttention::query_rank is not 0, these are the
    // down-projection, the norm and the up-projection. If query_rank is 0, only `query_up` is used.
    LinearModule query_down{}, query_norm{}, query_up{};
    LinearModule kv_down{}, kv_norm{}, kv_up{};
  };
  // `core` is the name prefix of kernels that belong to no module.
  LatentAttentionOperators(LayerOperators& operators, const Architecture& architecture,
                           const Modules& modules, std::string_view core);

  // Returns queries, keys and values of the rank's heads for all tokens. `x` covers the rank's part
  // of the tokens.
  std::array<Operand, 3> QueryKeyValue(const Operand& x);

  // Returns the operands for an attention core that reads only some keys (DeepSeek-V3.2). Each
  // head's query is projected to the width of the latent vector, which serves as both key and value
  // for all heads. ValuesOf projects the core's output to values.
  std::array<Operand, 3> AbsorbedQueryKeyValue(const Operand& x);
  Operand ValuesOf(const Operand& y);
  // Returns the queries' latent vector for the rank's part of the tokens, as computed by the latest
  // call of QueryKeyValue or AbsorbedQueryKeyValue.
  const Operand& query_vector() const { return query_vector_; }

 private:
  // Computes the normalized latent vector of the queries and returns it.
  Operand QueryVector(const Operand& x);
  // Returns two operands: the normalized latent vector of keys and values, and the part of the keys
  // that is not rotated yet.
  std::array<Operand, 2> KeyVector(const Operand& x);
  // Adds one GEMM per head, which multiplies the head by its part of the weight `name`. `later`:
  // another GEMM completes the weight's gradient.
  Operand HeadProduct(const Operand& x, const std::string& name, std::int64_t in, std::int64_t out,
                      std::int64_t kept, bool later);
  using Value = LayerTape::Value;

  std::int64_t heads() const { return a_.heads / operators_.options_.tensor; }
  bool unfused() const { return IsUnfused(operators_.options_.rotary); }
  // Returns the norm of one latent vector.
  Operand Norm(const Operand& x, const LinearModule& norm);
  // Returns the queries of all tokens, projected up from their latent vector, or from the input if
  // queries have no latent vector. The result is one tensor, or one tensor for the unrotated part
  // and one for the rotated part.
  std::array<Operand, 2> Queries(const Operand& x);
  // Returns the queries, keys and values of all heads. Queries and keys have rotary positions. Keys
  // and values are projected up from `normalised`. All heads share the rotated part of the keys,
  // `turned_part`.
  std::array<Operand, 3> Heads(const std::array<Operand, 2>& queries, const Operand& normalised,
                               const Operand& turned_part);
  Operand TurnedInPlace(const Operand& query);
  // Concatenates the unrotated and the rotated part of each head. All heads may share one rotated
  // part (`turned`).
  Operand Joined(const Operand& plain, const Operand& turned, std::string_view suffix);
  // Returns keys, including their rotated part, and values. `both` is the output of the
  // up-projection of keys and values; `shared` is the rotated part.
  std::array<Operand, 2> KeysAndValues(const Operand& both, const Operand& shared);

  LayerOperators& operators_;
  LayerTape& tape_;
  const Architecture& a_;
  const LatentAttention& latent_;
  const Modules modules_;
  const std::string_view core_;
  Operand query_vector_;
};

}  // namespace stepcast::model
