#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/planner/layouts.h"
#include "src/planner/search_table.h"
#include "src/planner/sweep_grid.h"
#include "src/scenario/scenario.h"

// Which plans there are to choose from: for each number of nodes, framework, ZeRO stage and layout
// the cross product of the settings that do something there. docs/planning.md lists the values that
// are tried.
namespace stepcast::planner {

struct SpaceOptions {
  std::vector<plan::Framework> frameworks;  // empty: the scenario's
  bool nodes = false;                       // fewer nodes too, and parts of one
  // What may be divided beside the batch, unless `vary` or `fix` say more of it.
  std::vector<ParallelKind> kinds{std::begin(kParallelKinds), std::end(kParallelKinds)};
  std::vector<SweepAxis> vary;   // replace the values of a key, or add one
  std::vector<std::string> fix;  // keys that stay as the scenario has them
  // Plan 0 is the scenario's own: no setting is overridden.
  bool own = false;
  WrittenValueOf value_of;  // what the scenario says
};

// A setting that the scenario gives and that some plans of the space keep as it is there: other
// values of it are not searched.
struct HeldSetting {
  std::string key;
  // Where it belongs to values of a setting that varies: that one, and those values.
  std::string of{};
  std::vector<std::string> at{};
};

// What the scenario says of layouts.
struct LayoutsGiven {
  std::vector<const LayoutKey*> keys;  // that it has
  bool data = false;                   // parallelism.data
  bool stage_layers = false;           // and parallelism.stage_layers, which are of `own`
  Layout own;
  bool mixture = false;  // the model is one
};

// What the plans of several parts have in common.
struct PlanChoices {
  // What holds for all of them: first how the batch is given, types that the framework does not
  // have and how many GPUs there are, and behind the layout framework and stage.
  std::vector<std::pair<std::string, std::string>> first, then;
  std::vector<SweepAxis> axes;
  // So many of the axes, the first ones, change what ranks compute or keep; the others are settings
  // of data parallelism and groups of micro-batches, of which the kernels of a micro-batch and the
  // states know nothing.
  std::size_t outer = 0;
  std::vector<std::string> absent;  // keys of axes that are absent at their default
  // Settings of the scenario that plans leave out where they have another value of an axis.
  std::vector<Belonging> belongings;
  // The data-parallel degree that uses all GPUs: plans of a lower one leave GPUs idle, and say so
  // (cluster.devices). 0: degrees do not vary, or the part says how many GPUs there are.
  std::int64_t data = 0;
};

// Plans of one layout.
struct PlanPart {
  plan::Framework framework = plan::Framework::kReference;
  int stage = 0;
  std::int64_t size = 0;  // which of the numbers of GPUs
  Layout layout;
  std::shared_ptr<const PlanChoices> choices;
  std::int64_t first = 0, plans = 1;  // numbers [first, first + plans)
  std::int64_t family = 1;            // plans that differ in inner axes alone
  int group = 0;                      // of PlanSpace::groups
  bool own = false;                   // SpaceOptions::own
};

// A kind of plans, by which answers are compared: the framework, and what is divided beside the
// batch.
struct PlanGroup {
  plan::Framework framework = plan::Framework::kReference;
  bool tensor = false, pipeline = false;
  friend bool operator==(const PlanGroup&, const PlanGroup&) = default;
};

class PlanSpace {
 public:
  static constexpr std::int64_t kMostFamilies = 2'000'000;

  // The space around a scenario. Its global batch holds for all plans, unless
  // training.gradient_accumulation varies. Errors: planner.fix (no such axis), planner.vary (a key
  // twice, one that cannot vary, one or a ZeRO stage that no framework of the space has),
  // planner.framework (one twice), planner.space (more than kMostFamilies, or none).
  static Result<PlanSpace> Around(const scenario::Scenario& scenario, const SpaceOptions& options);

  std::int64_t size() const { return size_; }
  // SpaceOptions::own; -1: it is none of them.
  std::int64_t own() const { return parts_.front().own ? 0 : -1; }
  const std::vector<PlanPart>& parts() const { return parts_; }
  const PlanPart& PartOf(std::int64_t plan) const;
  // The first plan of each family: plans up to that of the next one differ in inner settings of
  // data parallelism alone.
  const std::vector<std::int64_t>& families() const { return families_; }
  // Those that some plan is of.
  const std::vector<PlanGroup>& groups() const { return groups_; }
  int GroupOf(std::int64_t plan) const { return PartOf(plan).group; }
  // What was asked for and holds for some frameworks alone, a sentence each: settings, ZeRO stages
  // and types that others of the space do not have.
  const std::vector<std::string>& notes() const { return notes_; }
  // Each key once, in the order of the tables of settings.
  const std::vector<HeldSetting>& held() const { return held_; }
  // Overrides of the scenario, in the order in which they are to be applied. The value `null` takes
  // a key out, so that its default holds.
  std::vector<std::pair<std::string, std::string>> Settings(std::int64_t plan) const;
  // The same of a plan's family: inner settings are at their defaults.
  std::vector<std::pair<std::string, std::string>> FamilySettings(std::int64_t plan) const;
  // Whether a plan with a lower number differs in this key alone, which has this value there.
  bool HasBefore(std::int64_t plan, const std::string& key, const std::string& value) const;
  // Equal for plans that differ in settings of data parallelism alone, but framework and stage.
  std::string KindOf(std::int64_t plan) const;
  // Plans that differ from this one in one step along one axis: the axis, the neighbour.
  struct Neighbour {
    std::string key, value;
    std::int64_t plan = 0;
  };
  std::vector<Neighbour> NeighboursOf(std::int64_t plan) const;

 private:
  std::vector<std::pair<std::string, std::string>> SettingsOf(std::int64_t plan,
                                                              bool of_family) const;
  // Of the part's layout, and what the scenario says of layouts that is not this one's.
  void AppendLayout(const PlanPart& part,
                    std::vector<std::pair<std::string, std::string>>& settings) const;
  // Neighbours with other layouts, which are plans of other parts.
  void AppendOtherLayouts(std::int64_t plan, std::vector<Neighbour>& neighbours) const;
  // The plan of a part that has these settings, and the first value of what they do not name;
  // nothing if it has no such value.
  static std::optional<std::int64_t> NumberIn(
      const PlanPart& part, const std::vector<std::pair<std::string, std::string>>& settings);

  std::vector<PlanPart> parts_;
  std::vector<std::int64_t> families_;
  std::vector<PlanGroup> groups_;
  LayoutsGiven given_;
  std::vector<std::string> notes_;
  std::vector<HeldSetting> held_;
  std::int64_t size_ = 0;
};

}  // namespace stepcast::planner
