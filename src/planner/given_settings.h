#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/planner/sweep_grid.h"
#include "src/scenario/scenario.h"

// What a scenario itself says of how it is trained, which a search keeps where it does not vary it.
namespace stepcast::planner {

// The value of a key, as the scenario has it; nothing: it does not have the key.
using WrittenValueOf = std::function<std::optional<std::string>(const std::string& key)>;

// Keys that the scenario has and that say how it is trained (plan::Setting::of_task: what is
// trained is no choice), in the order of the tables.
std::vector<std::string> GivenSettings(const scenario::Scenario& scenario, const WrittenValueOf& value_of);

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
                                    const scenario::Scenario& scenario, const WrittenValueOf& value_of);

}  // namespace stepcast::planner
