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

// What a scenario itself says of how it is trained, which a search keeps where it does not vary it.

// The value of a key, as the scenario has it; nothing: it does not have the key.
using WrittenValueOf = std::function<std::optional<std::string>(const std::string& key)>;

// Keys that the scenario has and that say how it is trained (plan::Setting::of_task: what is
// trained is no choice), in the order of the tables.
std::vector<std::string> GivenSettings(const scenario::Scenario& scenario,
                                       const WrittenValueOf& value_of);

// A given setting that belongs to some values of another one, which varies: the blocks of a
// checkpoint belong to full recomputation.
struct Belonging {
  std::string key;                   // "training.blocks_per_checkpoint"
  std::string of;                    // "training.activation_checkpointing"
  std::vector<std::string> without;  // values of `of` at which the setting goes: "none", ...
};

// Of the settings of training that the scenario has and that are not among the axes, those that
// belong to values of an axis and that other values of it leave without a meaning.
std::vector<Belonging> BelongingsTo(const std::vector<SweepAxis>& axes,
                                    const scenario::Scenario& scenario,
                                    const WrittenValueOf& value_of);

// The search space as one table: each setting that a search varies, the values that it tries, and
// where. The space (plan_space_builder.h), the line of the answer that says what was tried, and the
// table of docs/planning.md follow from the rows.

// Where values are wanted: the plans of one framework at one ZeRO stage.
struct SearchPoint {
  const scenario::Scenario& scenario;
  const plan::Facts& facts;  // of the scenario
  plan::Framework framework = plan::Framework::kReference;
  int stage = 0;
  std::int64_t devices = 1;
  const Layout& own;     // the scenario's
  const Layout& layout;  // of the plans, as far as rows above have chosen it
  // The members below are for rows that are not of layouts.
  std::int64_t data_per_node = 1;             // data-parallel ranks in one node
  std::vector<std::int64_t> micro_batches{};  // sizes that the layout can have
  bool overlaps = false;                      // LayoutRules::Overlaps
  WrittenValueOf written{};                   // what the scenario says
};

enum class SearchLevel : std::uint8_t {
  kLayout,         // how ranks share out model, sequences and experts (LayoutKeys)
  kKernels,        // what ranks compute or keep
  kCommunication,  // nothing that the kernels of a micro-batch or the states depend on
};

struct SearchRow {
  const char* key;  // "parallelism.tensor"
  SearchLevel level;
  // Frameworks and stages that try values. Several rows may have one key, of different frameworks.
  plan::SettingUses uses;
  // In the order in which they win ties. Empty: the setting does nothing there.
  std::vector<std::string> (*values)(const SearchPoint& point);
  const char* tried;  // for documents, in Markdown: the values
  const char* where;  // likewise: where, beside `uses`
};
// In the order in which settings are chosen; within a level, the last varies fastest.
std::span<const SearchRow> SearchTable();

// The row that says what the framework tries at the stage; nullptr: the setting is not varied.
const SearchRow* FindSearchRow(std::string_view key, plan::Framework framework, int stage);

// Divisors of a rank's part of the global batch; the scenario's own where it has none, and for a
// layer list, whose times and activations are given for one micro-batch, whatever its size.
std::vector<std::int64_t> MicroBatchesOf(const scenario::Scenario& scenario, std::int64_t data);

// "fsdp2, reference (stages 1 to 3)": frameworks and stages of a row; "all".
std::string FrameworksText(const plan::SettingUses& uses);

}  // namespace stepcast::planner
