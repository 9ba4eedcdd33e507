#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/data_type.h"
#include "src/base/version.h"

// The input and the output of the rules that decide whether a plan is legal.
namespace stepcast::plan {

// The oldest modeled versions. plan.h has the newest modeled versions, which are the defaults.
inline constexpr Version kOldestTorch{1, 10};
inline constexpr Version kOldestNccl{2, 10};
inline constexpr Version kOldestDriver{450, 0};

// Properties of the model and the cluster that the rules need. Rules that need an unknown (empty)
// property are skipped, so that mistakes in other files do not hide mistakes in the plan.
struct Facts {
  std::optional<std::int64_t> devices;  // number of devices of the cluster
  bool one_machine = false;             // the scenario specifies the cluster as a number of GPUs
  // The longest sequence in tokens that the model supports. 0: no limit.
  std::optional<std::int64_t> max_positions;
  std::optional<std::int64_t> layers;      // number of layers of the model
  std::optional<std::int64_t> blocks;      // number of blocks, which a pipeline divides
  bool has_ends = true;                    // the model has an embedding and a head
  std::int64_t of_block = 0, of_head = 0;  // weights of a block and of the head; 0: unknown
  bool tied_embeddings = false;            // the last stage also uses the embedding's tensor
  std::optional<bool> encoder;        // the model is an encoder, whose head predicts masked tokens
  bool norms_behind = false;          // blocks begin with a GEMM, not with a norm
  std::int64_t attention_window = 0;  // number of tokens that a token attends to; 0: all previous
  bool attention_sinks = false;       // attention has sinks
  // A dimension that tensor parallelism divides, such as "num_attention_heads". `divided` is empty
  // if the dimensions are unknown.
  struct Divided {
    std::string name;
    std::int64_t extent;
    std::int64_t columns = 1;  // columns per item; if more than 1, several ranks can share an item
  };
  std::vector<Divided> divided{};
  // The type of the recurrent layers, such as "gated delta rule", and their numbers of heads, which
  // are divided among tensor- and context-parallel ranks. Empty: no recurrent layers.
  std::string recurrent{};
  std::vector<std::int64_t> recurrent_heads{};
  // Whether no framework supports context parallelism for the recurrent layers (Kimi delta
  // attention).
  bool recurrent_without_context = false;
  // A mixer that only transformers implements, without tensor parallelism: "short convolutions".
  // Empty: the model has no such mixer.
  std::string mixer_of_transformers{};
  bool mixer_divides = false;  // tensor parallelism could divide mixer_of_transformers
  // A rare part of the model: "cross-attention", "attention without a causal mask", "an input of
  // numbers", "a head that does not predict words". Empty: no rare part.
  std::string unusual_part{};
  bool reads_context = false;   // blocks have cross-attention to an encoder's rows
  std::int64_t other_rows = 0;  // additional rows of a sample, from an encoder or a text
  // Whether attention adds to each score a trained number that depends on distance.
  bool distances = false;
  bool predicts_words = true;
  bool predicts_further = false;  // the model has modules for multi-token prediction
  // The number and the width of a mixture's experts. 0 for a dense model.
  std::int64_t experts = 0, expert_width = 0;
  bool expert_biases = false;                // the experts' linear layers have biases
  std::optional<std::int64_t> tensors;       // number of tensors of the model
  std::vector<std::int64_t> matrix_rows{};   // distinct numbers of rows of the blocks' matrices
  std::optional<std::int64_t> node_devices;  // devices of the smallest node; not set: no nodes
  std::string device = "the device";         // the GPU type's name
  int compute_capability = 0;                // 90 for an H100 GPU; 0: unknown
  // Whether the topology describes the host memory and the NVMe drives of nodes, which offloading
  // needs. Not set: unknown.
  std::optional<bool> host_memory, nvme;
  // Whether the GPU's data sheet omits the peak rate of a type, indexed by DataType.
  std::array<bool, kDataTypeCount> without_peak{};
};

struct Violation {
  // The dotted key in the scenario file, such as "parallelism.data". For a rule about two keys: the
  // later key.
  std::string key;
  std::string code;  // "plan.device-count"
  std::string message;
  std::string hint;
};

}  // namespace stepcast::plan
