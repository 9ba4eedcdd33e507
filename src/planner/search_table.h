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

// The scenario's own settings. A search changes only the settings that vary.

// Returns the value of a key as written in the scenario. No value if the scenario does not contain
// the key.
using WrittenValueOf = std::function<std::optional<std::string>(const std::string& key)>;

// Returns the scenario's keys that define how the job runs, in table order. Omits keys that define
// the job itself (plan::Setting::of_task). Unless `idle` is set, also omits keys that have no
// effect on the model.
std::vector<std::string> GivenSettings(const scenario::Scenario& scenario,
                                       const WrittenValueOf& value_of, bool idle = false);

// A setting in the scenario that applies only to some values of a varying setting, such as
// blocks_per_checkpoint, which applies only to full recomputation.
struct Belonging {
  std::string key;                   // "training.blocks_per_checkpoint"
  std::string of;                    // "training.activation_checkpointing"
  std::vector<std::string> without;  // values of `of` with which the setting is removed: "none",
                                     // ...
};

// Returns the scenario's training settings that do not vary and apply only to some values of an
// axis.
std::vector<Belonging> BelongingsTo(const std::vector<SweepAxis>& axes,
                                    const scenario::Scenario& scenario,
                                    const WrittenValueOf& value_of);

// The search space as a table of varying settings, with their values and the plans to which they
// apply. The table defines the space (plan_space_builder.h), and the line of the answer that lists
// the tried values. The table in docs/planning.md describes each row.

// The input of SearchRow::values: the plans of one framework at one ZeRO stage.
struct SearchPoint {
  const scenario::Scenario& scenario;
  const plan::Facts& facts;  // facts of the scenario
  plan::Framework framework = plan::Framework::kReference;
  int stage = 0;
  std::int64_t devices = 1;
  const Layout& layout;  // the plans' layout, as far as earlier rows have set it
  // Rows of layouts do not use the following members.
  std::int64_t data_per_node = 1;             // data-parallel ranks in one node
  std::vector<std::int64_t> micro_batches{};  // sizes that the layout supports
  bool overlaps = false;                      // LayoutRules::Overlaps
  WrittenValueOf written{};                   // values written in the scenario

  const plan::Parallelism& own() const { return scenario.plan.parallelism; }
};

enum class SearchLevel : std::uint8_t {
  kLayout,         // how ranks divide the model, sequences and experts (LayoutKeys)
  kKernels,        // what ranks compute or store
  kCommunication,  // settings that affect neither a micro-batch's kernels nor the states
};

struct SearchRow {
  const char* key;  // "parallelism.tensor"
  SearchLevel level;
  // The frameworks and stages whose plans vary the setting. A key may have a row for each
  // framework.
  plan::SettingUses uses;
  // Returns the values of a setting, in order of preference. The order decides between plans that
  // tie. Empty if the setting has no effect for the framework and stage of `point`.
  std::vector<std::string> (*values)(const SearchPoint& point);
};
// Returns the rows, in the order in which settings are chosen. Within a level, the last row varies
// fastest.
std::span<const SearchRow> SearchTable();

// Returns the key's row for the framework and stage, or nullptr if the setting does not vary.
const SearchRow* FindSearchRow(std::string_view key, plan::Framework framework, int stage);

// Returns the micro-batch sizes to try: the divisors of a rank's part of the global batch. If the
// model is a layer list, or if ranks cannot divide the global batch equally, returns only the
// scenario's micro-batch size.
std::vector<std::int64_t> MicroBatchesOf(const scenario::Scenario& scenario, std::int64_t data);

}  // namespace stepcast::planner
