#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/model/architecture.h"
#include "src/model/layer_operators.h"

// Queries, keys and values of latent attention (DeepSeek-V2, arXiv 2405.04434): down to two narrow
// vectors a token, a norm of each, and up to the heads. A part of each query's head and one part
// for all heads of the keys are turned by their position.
//
// With tensor parallelism as Megatron-Core has it (transformer/multi_latent_attention.py @
// d98e8a64ddf3): every rank has the whole matrices that lead down and applies them to its part of
// the tokens; the vectors are gathered before the products that lead up, of which it has some
// heads, and so is what the keys share.
//
// Kernels and what is kept follow transformers (models/deepseek_v3/modeling_deepseek_v3.py) where
// rotary positions are turned operation by operation: what is turned is put together with what is
// not by copies, and keys and values stay one tensor. Else Transformer Engine's (Megatron-Core's
// fused_mla_yarn_rope_apply.py): queries are turned in place, and one kernel writes keys and
// values.
namespace stepcast::model {

class LatentAttentionOperators {
 public:
  struct Modules {
    // With `query_rank`: down, the norm, up; else `query_up` is all.
    LinearModule query_down{}, query_norm{}, query_up{};
    LinearModule kv_down{}, kv_norm{}, kv_up{};
  };
  // Kernels outside of modules are called after `core`.
  LatentAttentionOperators(LayerOperators& operators, const Architecture& architecture,
                           const Modules& modules, std::string_view core);

  // For the rank's heads, of all tokens. `x` is the rank's part of the tokens.
  std::array<Operand, 3> QueryKeyValue(const Operand& x);

  // The same for a core that reads some of the keys alone (DeepSeek-V3.2): every head's query is
  // led down to the width of the one vector, which is key and value of all heads. What comes of
  // such a core is led up by ValuesOf.
  std::array<Operand, 3> AbsorbedQueryKeyValue(const Operand& x);
  Operand ValuesOf(const Operand& y);
  // The vector of queries, of the rank's part of the tokens: of the last of both.
  const Operand& query_vector() const { return query_vector_; }

 private:
  // The vectors of queries, normalised.
  Operand QueryVector(const Operand& x);
  // Down to the vector of keys and values, normalised, and the part that is turned.
  std::array<Operand, 2> KeyVector(const Operand& x);
  // A product of each head with its part of one weight. `later`: another product completes the
  // weight's gradient.
  Operand HeadProduct(const Operand& x, const std::string& name, std::int64_t in, std::int64_t out,
                      std::int64_t kept, bool later);
  using Value = LayerTape::Value;

  std::int64_t heads() const { return a_.heads / operators_.options_.tensor; }
  bool unfused() const { return IsUnfused(operators_.options_.rotary); }
  // A norm of one of the vectors.
  Operand Norm(const Operand& x, const LinearModule& norm);
  // The queries' vector, or the input, of all tokens, up to the heads: in one tensor, or what is
  // not turned and what is.
  std::array<Operand, 2> Queries(const Operand& x);
  // Queries with their positions, and keys and values up from their vector and from what keys
  // share.
  std::array<Operand, 3> Heads(const std::array<Operand, 2>& queries, const Operand& normalised,
                               const Operand& turned_part);
  Operand TurnedInPlace(const Operand& query);
  // A head's plain part and its turned one, side by side; `turned` may be one for all heads.
  Operand Joined(const Operand& plain, const Operand& turned, std::string_view suffix);
  // Keys with their turned part, and values, of what both are made of.
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
