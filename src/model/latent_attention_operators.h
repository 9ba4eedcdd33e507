#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/model/architecture.h"
#include "src/model/layer_operators.h"

// Queries, keys and values of latent attention (DeepSeek-V2, arXiv 2405.04434): down-projections to
// two narrow vectors per token, a norm of each, and up-projections to the heads. Positions rotate
// one part of each query's head and one key part that all heads share.
//
// Tensor parallelism follows Megatron-Core (transformer/multi_latent_attention.py @ d98e8a64ddf3):
// every rank has the whole down-projections and applies them to its part of the tokens. The vectors
// and the shared key part are gathered before the up-projections, which are divided by heads.
//
// If rotary positions are computed operation by operation, kernels and kept values follow
// transformers (models/deepseek_v3/modeling_deepseek_v3.py): copies join the rotated and unrotated
// parts, and keys and values stay one tensor. Otherwise they follow Transformer Engine
// (Megatron-Core's fused_mla_yarn_rope_apply.py): queries are rotated in place, and one kernel
// writes keys and values.
namespace stepcast::model {

class LatentAttentionOperators {
 public:
  struct Modules {
    // With `query_rank`: down-projection, norm, up-projection. Otherwise only `query_up`.
    LinearModule query_down{}, query_norm{}, query_up{};
    LinearModule kv_down{}, kv_norm{}, kv_up{};
  };
  // `core` prefixes the names of kernels that belong to no module.
  LatentAttentionOperators(LayerOperators& operators, const Architecture& architecture,
                           const Modules& modules, std::string_view core);

  // Operands of the rank's heads, for all tokens. `x` is the rank's part of the tokens.
  std::array<Operand, 3> QueryKeyValue(const Operand& x);

  // The same for a core that reads only some keys (DeepSeek-V3.2). Every head's query is projected
  // down to the width of the latent vector, which is key and value of all heads. ValuesOf projects
  // the core's output up.
  std::array<Operand, 3> AbsorbedQueryKeyValue(const Operand& x);
  Operand ValuesOf(const Operand& y);
  // The latent vector of the queries, for the rank's part of the tokens, from the latest call.
  const Operand& query_vector() const { return query_vector_; }

 private:
  // The normalized latent vector of the queries.
  Operand QueryVector(const Operand& x);
  // The normalized latent vector of keys and values, and the key part to be rotated.
  std::array<Operand, 2> KeyVector(const Operand& x);
  // A product of each head with its part of one weight. `later`: another product completes the
  // weight's gradient.
  Operand HeadProduct(const Operand& x, const std::string& name, std::int64_t in, std::int64_t out,
                      std::int64_t kept, bool later);
  using Value = LayerTape::Value;

  std::int64_t heads() const { return a_.heads / operators_.options_.tensor; }
  bool unfused() const { return IsUnfused(operators_.options_.rotary); }
  // The norm of one latent vector.
  Operand Norm(const Operand& x, const LinearModule& norm);
  // The up-projection of the queries' vector (or of the input) for all tokens: one tensor, or the
  // unrotated and the rotated part.
  std::array<Operand, 2> Queries(const Operand& x);
  // Queries with positions, and keys and values projected up from their vector and the shared part.
  std::array<Operand, 3> Heads(const std::array<Operand, 2>& queries, const Operand& normalised,
                               const Operand& turned_part);
  Operand TurnedInPlace(const Operand& query);
  // Concatenates a head's unrotated and rotated parts. All heads may share `turned`.
  Operand Joined(const Operand& plain, const Operand& turned, std::string_view suffix);
  // Keys with their rotated part, and values, from the output of their common up-projection.
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
