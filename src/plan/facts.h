#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/data_type.h"
#include "src/base/version.h"

// What rules about plans are told, and what they answer.
namespace stepcast::plan {

// The oldest versions whose rules are known; the newest are the defaults (plan.h).
inline constexpr Version kOldestTorch{1, 10};
inline constexpr Version kOldestNccl{2, 10};
inline constexpr Version kOldestDriver{450, 0};

// What the rules need to know beside the request. What is not known is left out, and the rules
// that need it are passed over: other files' mistakes must not hide a plan's.
struct Facts {
  std::optional<std::int64_t> devices;        // of the cluster
  std::optional<std::int64_t> max_positions;  // longest sequence the model can take; 0: no limit
  std::optional<std::int64_t> layers;         // of the model
  std::optional<std::int64_t> blocks;         // of the model: what a pipeline's stages share out
  bool has_ends = true;                       // the model has an embedding and a head
  std::int64_t of_block = 0, of_head = 0;     // weights in products (ModelBlocks); 0: not known
  bool tied_embeddings = false;               // the last stage uses the embedding's tensor, too
  std::optional<bool> encoder;                // the model is one, whose head predicts masked tokens
  bool norms_behind = false;                  // its blocks begin with products, not with a norm
  std::int64_t attention_window = 0;          // tokens that one sees; 0: all before it
  bool attention_sinks = false;               // in the softmax of scores
  // What tensor parallelism divides, by its name: "num_attention_heads"; empty: nothing is known.
  struct Divided {
    std::string name;
    std::int64_t extent;
    std::int64_t columns = 1;  // of one; more than 1: ranks can share it, each with some of them
  };
  std::vector<Divided> divided{};
  // Recurrent layers, by what they are ("gated delta rule"), and their heads, which tensor- and
  // context-parallel ranks share out; empty: there are none.
  std::string recurrent{};
  std::vector<std::int64_t> recurrent_heads{};
  bool recurrent_by_channel = false;  // Kimi delta attention
  // Of a mixture; 0: the model is dense.
  std::int64_t experts = 0, expert_width = 0;
  bool expert_biases = false;                // experts' products have biases
  std::optional<std::int64_t> tensors;       // of the model
  std::vector<std::int64_t> matrix_rows{};   // of its blocks' matrices, each number once
  std::optional<std::int64_t> node_devices;  // of the smallest node; none: there are no nodes
  std::string device = "the device";         // the GPU type's name
  int compute_capability = 0;                // of it, 90 for an H100; 0: not known
  // Whether the nodes' memory, and their NVMe drives, are described: what states are offloaded to.
  std::optional<bool> host_memory, nvme;
  // By DataType: the GPU's data sheet states no peak of it.
  std::array<bool, kDataTypeCount> without_peak{};
};

struct Violation {
  std::string key;   // of the scenario file, dotted: "parallelism.data"; the later one of a pair
  std::string code;  // "plan.device-count"
  std::string message;
  std::string hint;
};

}  // namespace stepcast::plan
