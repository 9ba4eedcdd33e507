#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/plan/facts.h"
#include "src/plan/framework.h"
#include "src/plan/setting.h"
#include "src/planner/layouts.h"
#include "src/planner/sweep_grid.h"
#include "src/scenario/scenario.h"

namespace stepcast::planner {

// Settings given in the scenario, which a search keeps unless it varies them.

// The value of a key as written in the scenario; nothing: the key is not given.
using WrittenValueOf = std::function<std::optional<std::string>(const std::string& key)>;

// Given keys that say how the job runs, in table order. Keys that define the job
// (plan::Setting::of_task) are excluded.
std::vector<std::string> GivenSettings(const scenario::Scenario& scenario,
                                       const WrittenValueOf& value_of);

// A given setting that applies only to some values of a varying one. For example, the blocks of a
// checkpoint apply to full recomputation.
struct Belonging {
  std::string key;                   // "training.blocks_per_checkpoint"
  std::string of;                    // "training.activation_checkpointing"
  std::vector<std::string> without;  // values of `of` at which the setting is removed: "none", ...
};

// The given settings of training that are not axes, that apply to some values of an axis, and that
// have no meaning at its other values.
std::vector<Belonging> BelongingsTo(const std::vector<SweepAxis>& axes,
                                    const scenario::Scenario& scenario,
                                    const WrittenValueOf& value_of);

// The search space as one table: each varying setting, its values, and where they apply. The space
// (plan_space_builder.h), the answer's line about tried values, and the table of docs/planning.md
// follow from the rows.

// The plans of one framework at one ZeRO stage, for which values are requested.
struct SearchPoint {
  const scenario::Scenario& scenario;
  const plan::Facts& facts;  // of the scenario
  plan::Framework framework = plan::Framework::kReference;
  int stage = 0;
  std::int64_t devices = 1;
  const Layout& own;     // the scenario's layout
  const Layout& layout;  // the plans' layout, as far as earlier rows have chosen it
  // The members below are for rows other than layouts.
  std::int64_t data_per_node = 1;             // data-parallel ranks in one node
  std::vector<std::int64_t> micro_batches{};  // sizes that the layout supports
  bool overlaps = false;                      // LayoutRules::Overlaps
  WrittenValueOf written{};                   // values written in the scenario
};

enum class SearchLevel : std::uint8_t {
  kLayout,         // how ranks divide model, sequences and experts (LayoutKeys)
  kKernels,        // what ranks compute or keep
  kCommunication,  // settings that do not affect the kernels of a micro-batch or the states
};

struct SearchRow {
  const char* key;  // "parallelism.tensor"
  SearchLevel level;
  // Frameworks and stages that try values. A key may have several rows, for different frameworks.
  plan::SettingUses uses;
  // In the order in which they win ties. Empty: the setting has no effect there.
  std::vector<std::string> (*values)(const SearchPoint& point);
  const char* tried;  // for documents, in Markdown: the values
  const char* where;  // for documents: where they apply, besides `uses`
};
// In order of choice; within a level, the last varies fastest.
std::span<const SearchRow> SearchTable();

// The row for the framework and stage; nullptr: the setting is not varied.
const SearchRow* FindSearchRow(std::string_view key, plan::Framework framework, int stage);

// Divisors of a rank's part of the global batch. The scenario's own value if there is no global
// batch, and for a layer list, whose times and activations are given for one micro-batch.
std::vector<std::int64_t> MicroBatchesOf(const scenario::Scenario& scenario, std::int64_t data);

// "fsdp2, reference (stages 1 to 3)": frameworks and stages of a row; or "all".
std::string FrameworksText(const plan::SettingUses& uses);

}  // namespace stepcast::planner
