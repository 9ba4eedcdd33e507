#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/model/architecture.h"
#include "src/plan/plan.h"
#include "src/plan/request.h"

// Which plans can exist: the rules that tie a plan's settings to each other, to the model and to
// the cluster. Whether a plan fits in memory is not a rule but a result.
namespace stepcast::plan {

// The oldest versions whose rules are known; the newest are the defaults (plan.h).
inline constexpr Version kOldestTorch{1, 10};
inline constexpr Version kOldestNccl{2, 10};
inline constexpr Version kOldestDriver{450, 0};

// A micro-batch has at most this many tokens, and at most so many pairs of tokens attend to each
// other in it on each of the ranks that divide its sequences; a step has at most so many
// micro-batches, and of a model's layers and tensors at most so many passes. Beyond real runs, and
// near enough that no count of operations or bytes leaves 64 bits and no step program outgrows the
// memory.
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;
inline constexpr std::int64_t kMostTokenPairs = std::int64_t{1} << 44;
inline constexpr std::int64_t kMostMicroBatches = 2048;
inline constexpr std::int64_t kMostLayerPasses = std::int64_t{1} << 17;
inline constexpr std::int64_t kMostTensorPasses = std::int64_t{1} << 22;

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
  // What tensor parallelism divides, by its name: "num_attention_heads"; empty: nothing is known.
  struct Divided {
    std::string name;
    std::int64_t extent;
    std::int64_t columns = 1;  // of one; more than 1: ranks can share it, each with some of them
  };
  std::vector<Divided> divided{};
  // Of a mixture; 0: the model is dense.
  std::int64_t experts = 0, expert_width = 0;
  bool expert_biases = false;                // experts' products have biases
  std::optional<std::int64_t> tensors;       // of the model
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

// Everything that is wrong with the request, in the order of the scenario file's keys. Values that
// are missing from the request are the reader's business, not violations.
std::vector<Violation> Check(const Request& request, const Facts& facts);

// The types of a request ("training.parameter_dtype") that its framework and stage cannot have
// beside its precision, in the order in which they must be left out until the rest is legal: a
// recipe of another framework's, to be completed by this one's defaults. Empty: all may stay.
std::vector<std::string> TypesNotOfFramework(const Request& request);

// Sentences about what was requested and does nothing. The request must be legal.
std::vector<std::string> KeysWithoutEffect(const Request& request);
// And of what does nothing to a model of this architecture.
std::vector<std::string> KeysWithoutEffectOn(const Request& request,
                                             const model::Architecture& architecture);
// Nor to a layer list, whose times and activations are given.
std::vector<std::string> KeysWithoutEffectOnLayerLists(const Request& request);

}  // namespace stepcast::plan
