#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/model/layer.h"
#include "src/model/transformer_work.h"

// Helpers for tests of a transformer's work.
namespace stepcast::model {

inline constexpr std::size_t kEmbedding = 0, kBlock = 1, kHead = 2;

inline std::int64_t Sum(const std::vector<LayerValue>& activations) {
  std::int64_t bytes = 0;
  for (const LayerValue& activation : activations) bytes += activation.bytes.count();
  return bytes;
}

template <typename Operators>
std::int64_t ModelFlops(const Operators& operators) {
  std::int64_t flops = 0;
  for (const auto& op : operators) flops += op.kernel.model_flops;
  return flops;
}

inline WorkOptions Options(std::int64_t sequences, std::int64_t tokens,
                           Checkpointing checkpointing = Checkpointing::kNone,
                           Attention attention = Attention::kFlash) {
  return {.micro_batch_size = sequences,
          .sequence_length = tokens,
          .compute = DataType::kBf16,
          .checkpointing = checkpointing,
          .attention = attention};
}

inline LayerWork BlockOf(const Architecture& architecture, const WorkOptions& options) {
  return TransformerWork(architecture, options)[kBlock];
}

// Returns the index of the layer's work (embedding, block or head). Valid only for models without
// checkpoints or adapters.
inline std::size_t WorkOf(const Layer& layer) { return static_cast<std::size_t>(layer.kind); }

inline const Kernel* Find(const LayerWork& work, std::string_view name) {
  for (const Operation& op : work.forward) {
    if (op.kernel.name == name) return &op.kernel;
  }
  for (const Operation& op : work.backward) {
    if (op.kernel.name == name) return &op.kernel;
  }
  return nullptr;
}

}  // namespace stepcast::model
