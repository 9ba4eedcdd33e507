#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "src/base/data_type.h"

// Low-rank adaptation (Hu et al. 2021, arXiv 2106.09685). The model's own parameters are frozen.
// Some linear layers y = x W get an adapter: the output becomes y + s (x A) B. Only the adapter's
// two matrices are trained: A has `rank` columns, and B has `rank` rows.
namespace stepcast::model {

// The linear layers of a block that have an adapter. Layers that GPT-2 or Megatron-LM fuses into
// one GEMM share one adapter: linear_qkv and linear_fc1.
struct AdaptedLayers {
  bool linear_qkv = false, query = false, key = false, value = false;
  bool projection = false;
  bool linear_fc1 = false, gate = false, up = false;
  bool down = false;

  friend auto operator<=>(const AdaptedLayers&, const AdaptedLayers&) = default;
};
// A name of an adapted layer: either a Megatron-LM module or a module of Hugging Face's Llama.
struct AdaptedLayerName {
  const char* name;
  bool AdaptedLayers::*member;
};
// The names of adapted layers. If a layer has several names, Text returns the first.
inline constexpr AdaptedLayerName kAdaptedLayerNames[] = {
    {"linear_qkv", &AdaptedLayers::linear_qkv},
    {"q_proj", &AdaptedLayers::query},
    {"k_proj", &AdaptedLayers::key},
    {"v_proj", &AdaptedLayers::value},
    {"linear_proj", &AdaptedLayers::projection},
    {"o_proj", &AdaptedLayers::projection},
    {"linear_fc1", &AdaptedLayers::linear_fc1},
    {"gate_proj", &AdaptedLayers::gate},
    {"up_proj", &AdaptedLayers::up},
    {"linear_fc2", &AdaptedLayers::down},
    {"down_proj", &AdaptedLayers::down}};

// Returns the names of the layers, for example "linear_qkv linear_proj".
std::string Text(const AdaptedLayers& layers);

// The largest allowed rank.
inline constexpr std::int64_t kMostRank = 1 << 14;

struct Lora {
  std::int64_t rank = 0;  // 0: no adapters; all parameters are trained
  AdaptedLayers targets{};
  double dropout = 0;  // dropout probability of an adapter's input
  // The storage type of frozen parameters. With kFp8, only the matrices of blocks are in FP8; all
  // other frozen parameters are in bf16.
  DataType frozen_dtype = DataType::kBf16;
  // With sequence parallelism, for layers divided by rows: whether an all-to-all replaces the
  // all-gather of the adapter's output (NeMo's a2a_experimental). The all-to-all converts parts of
  // the features to parts of the tokens.
  bool all_to_all = false;

  bool adapts() const { return rank > 0; }
  friend bool operator==(const Lora&, const Lora&) = default;
};

}  // namespace stepcast::model
