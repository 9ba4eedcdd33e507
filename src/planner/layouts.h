#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/model/context_parallel.h"
#include "src/plan/facts.h"
#include "src/plan/framework.h"
#include "src/plan/legality.h"
#include "src/plan/request.h"
#include "src/scenario/scenario.h"

// Finds legal layouts: the divisions of the model, the sequences and the batch among a job's ranks.
// A layout is legal if plan::Check accepts it with some micro-batch size.
namespace stepcast::planner {

// The kinds of parallelism other than data parallelism.
enum class ParallelKind : std::uint8_t { kTensor, kPipeline, kContext, kExpert };
inline constexpr ParallelKind kParallelKinds[] = {ParallelKind::kTensor, ParallelKind::kPipeline,
                                                  ParallelKind::kContext, ParallelKind::kExpert};
const char* Name(ParallelKind kind);  // "tensor"

struct Layout {
  std::int64_t tensor = 1;
  bool sequence_parallel = false;
  std::int64_t pipeline = 1;
  std::string schedule{};  // empty: the default schedule, or no pipeline
  std::int64_t virtual_stages = 1;
  // Whether the embedding, and the head with the loss, each count as a block when layers are
  // divided into equal parts.
  bool counts_embedding = false, counts_loss = false;
  std::int64_t context = 1;
  model::ContextMethod context_method = model::ContextMethod::kRing;
  std::int64_t context_inner = 0;  // ranks among which the hierarchical exchange divides heads
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 1;
  std::int64_t data = 1;  // number of devices divided by all other degrees

  std::int64_t ranks_per_replica() const { return tensor * pipeline * context; }
  friend auto operator<=>(const Layout&, const Layout&) = default;
};

// A setting of `parallelism` that is part of a layout, in the order in which settings are chosen.
struct LayoutKey {
  const char* key;  // "parallelism.tensor"
  ParallelKind kind;
  std::string (*text)(const Layout& layout);  // returns the value as written in a scenario
  // Sets a value; the text "null" means the default. Returns false if the value is invalid.
  bool (*take)(Layout& layout, std::string_view text);
  bool (*used)(const Layout& layout);  // returns whether the setting has an effect in the layout
};
std::span<const LayoutKey> LayoutKeys();
const LayoutKey* FindLayoutKey(std::string_view key);  // null: `key` is not a setting of layouts

// The smallest number of tokens of a sequence on one rank, unless fewer are requested.
inline constexpr std::int64_t kLeastContextTokens = 1024;

// Returns the scenario's own layout.
Layout LayoutOf(const plan::Plan& plan);

// The framework, ZeRO stage and number of devices for which layouts are requested.
struct LayoutQuestion {
  const scenario::Scenario& scenario;
  const plan::Facts& facts;  // facts of the scenario
  plan::Framework framework{};
  int stage = 0;
  std::int64_t devices = 1;
  // Whether each plan uses all devices. False: `parallelism.data` varies separately.
  bool fills = true;
  std::span<const ParallelKind> kinds{};  // kinds of parallelism whose degree may exceed 1
  // Whether another setting determines stage_layers.
  bool stage_layers_vary = false;
  bool own_stage_layers = false;  // the scenario sets stage_layers for its number of stages
  bool compiles = false;          // plans have training.compile
  // The requested values of each key (LayoutKey::key). Keys without requested values have all legal
  // values and the scenario's value. Null: no values are requested.
  const std::map<std::string, std::vector<std::string>, std::less<>>* given = nullptr;
};

class LayoutRules {
 public:
  explicit LayoutRules(const LayoutQuestion& question);

  // Returns all legal layouts, in the order of the values of LayoutKeys; the last key varies
  // fastest.
  std::vector<Layout> Legal() const;
  // Returns the first violated rule, or no value if the layout is legal.
  std::optional<plan::Violation> WhyNot(const Layout& layout) const;
  // Returns the elements of `sizes` (sequences) that are legal micro-batch sizes of some plan with
  // the layout.
  std::vector<std::int64_t> MicroBatches(const Layout& layout,
                                         const std::vector<std::int64_t>& sizes) const;
  // Returns whether the framework can overlap layers' collectives with GEMMs in this layout.
  bool Overlaps(const Layout& layout) const;
  // Returns whether the scenario's stage_layers match the layout's stages.
  bool KeepsStageLayers(const Layout& layout) const;

 private:
  plan::Request RequestOf(const Layout& layout) const;
  std::vector<plan::Violation> Broken(const plan::Request& request, bool on_devices) const;
  bool Allowed(ParallelKind kind) const;
  // Returns whether the framework's interleaved stages support any group size of micro-batches.
  bool GroupsMicroBatches() const;
  void SetFrameworksDefault(const LayoutKey& row, Layout& layout) const;
  std::vector<Layout> With(std::vector<Layout> layouts,
                           std::initializer_list<const char*> keys) const;
  std::vector<Layout> WithoutMistakes(std::vector<Layout> layouts) const;
  std::vector<Layout> Tensors() const;
  std::vector<Layout> Pipelines() const;
  std::vector<Layout> Contexts(const Layout& layout) const;
  std::vector<Layout> Experts(const Layout& layout) const;

  const LayoutQuestion question_;
  const Layout own_;
  plan::Request base_;
  plan::Facts facts_;     // facts with the requested number of devices
  plan::Facts anywhere_;  // facts with any number of devices
  bool has_experts_ = false;
};

}  // namespace stepcast::planner
