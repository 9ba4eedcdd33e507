#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/plan/facts.h"
#include "src/plan/framework.h"
#include "src/plan/legality.h"
#include "src/plan/request.h"
#include "src/plan/settings.h"
#include "src/scenario/scenario.h"

// Finds legal layouts: the divisions of the model, the sequences and the batch among a job's ranks.
// A layout is legal if plan::Check accepts it with some micro-batch size.
namespace stepcast::planner {

// The degrees of parallelism, other than data parallelism, that a search varies.
inline constexpr std::string_view kParallelKinds[] = {"tensor", "pipeline", "context", "expert"};

// The settings of LayoutKeys and the data-parallel degree. All other members have their defaults.
using Layout = plan::Parallelism;

// A setting of `parallelism` that is part of a layout.
struct LayoutKey {
  explicit LayoutKey(std::string_view key);

  std::string key;  // "parallelism.sequence_parallel"
  const plan::ParallelismSetting* setting;
  std::string_view kind;  // element of kParallelKinds: "tensor"

  // Returns the value as written in a scenario.
  std::string Text(const Layout& layout) const;
  // Sets a value; the text "null" means the default. Returns false if the value is invalid.
  bool Take(Layout& layout, std::string_view text) const;
  // Returns whether the setting has an effect in the layout.
  bool IsUsed(const Layout& layout) const;
};
// Returns the settings of layouts, in the order in which they are chosen (SearchTable).
const std::vector<LayoutKey>& LayoutKeys();
const LayoutKey* FindLayoutKey(std::string_view key);  // null: `key` is not a setting of layouts

// The smallest number of a sequence's tokens on one rank, unless the user requests fewer tokens.
inline constexpr std::int64_t kLeastContextTokens = 1024;

// Returns the scenario's own layout.
Layout LayoutOf(const plan::Plan& plan);
// Returns whether both layouts divide the model's blocks into the same stages.
bool HaveSameStages(const Layout& a, const Layout& b);

// The framework, ZeRO stage and number of devices for which layouts are requested.
struct LayoutQuestion {
  const scenario::Scenario& scenario;
  const plan::Facts& facts;  // facts of the scenario
  plan::Framework framework{};
  int stage = 0;
  std::int64_t devices = 1;
  // Whether each plan uses all devices. False: `parallelism.data` varies separately.
  bool fills = true;
  std::span<const std::string_view> kinds{};  // kinds of parallelism whose degree may exceed 1
  // Whether another setting determines stage_layers.
  bool stage_layers_vary = false;
  bool own_stage_layers = false;  // the scenario sets stage_layers for its number of stages
  bool compiles = false;          // plans set training.compile
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
  // Returns the elements of `sizes` that are legal micro-batch sizes, in sequences, of some plan
  // with the layout.
  std::vector<std::int64_t> MicroBatches(const Layout& layout,
                                         const std::vector<std::int64_t>& sizes) const;
  // Returns whether the framework can overlap layers' collectives with GEMMs in this layout.
  bool Overlaps(const Layout& layout) const;

 private:
  plan::Request RequestOf(const Layout& layout) const;
  std::vector<plan::Violation> Broken(const plan::Request& request, bool on_devices) const;
  bool Allowed(std::string_view kind) const;
  // Returns whether the framework's interleaved stages support groups of any number of
  // micro-batches.
  bool GroupsMicroBatches() const;
  void SetFrameworksDefault(const LayoutKey& row, Layout& layout) const;
  std::vector<Layout> With(const Layout& layout, std::string_view kind) const;
  std::vector<Layout> WithoutMistakes(std::string_view kind) const;
  std::vector<Layout> Experts(const Layout& layout) const;

  const LayoutQuestion question_;
  const plan::Parallelism& own_;  // the scenario's
  plan::Request base_;
  plan::Facts facts_;     // facts with the requested number of devices
  plan::Facts anywhere_;  // facts with any number of devices
  bool has_experts_ = false;
};

}  // namespace stepcast::planner
