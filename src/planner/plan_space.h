#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/planner/layouts.h"
#include "src/planner/search_table.h"
#include "src/planner/sweep_grid.h"
#include "src/scenario/scenario.h"

// The plans of a search: for each number of nodes, framework, ZeRO stage and layout, the cross
// product of the settings that have an effect. docs/planning.md lists the values that are tried.
namespace stepcast::planner {

struct SpaceOptions {
  std::vector<plan::Framework> frameworks;  // empty: the scenario's framework
  bool nodes = false;                       // also include plans on fewer nodes and on a part of
                                            // one node
  // The kinds of parallelism that may vary. `vary` and `fix` override these kinds.
  std::vector<std::string_view> kinds{std::begin(kParallelKinds), std::end(kParallelKinds)};
  std::vector<SweepAxis> vary;   // axes that replace the values of a key, or add a key
  std::vector<std::string> fix;  // keys that keep their values from the scenario
  // Whether plan 0 is the scenario without overrides.
  bool own = false;
  WrittenValueOf value_of;  // returns values as written in the scenario
  // Returns the scenario's keys whose values a framework rejects at a ZeRO stage, although the
  // scenario's own framework accepts them. Plans with that framework and stage use the defaults.
  std::function<std::vector<std::string>(plan::Framework, int stage)> refused_by;
};

// A setting of the scenario that some plans do not change.
struct HeldSetting {
  std::string key;
  // If the setting applies only to some values of a varying setting: the varying setting `of`, and
  // its values `at`.
  std::string of{};
  std::vector<std::string> at{};
};

// The layout settings that the scenario contains.
struct LayoutsGiven {
  std::vector<const LayoutKey*> keys;  // keys that the scenario sets
  bool data = false;                   // the scenario sets parallelism.data
  bool stage_layers = false;           // the scenario sets stage_layers, for the stages of `own`
  Layout own;
  bool mixture = false;  // the model is a mixture of experts
};

// The choices that several parts of the space share.
struct PlanChoices {
  // Settings that all plans of a part share. `first` specifies the batch and the number of GPUs,
  // and removes unsupported types. `then` is applied after the layout, and sets framework and ZeRO
  // stage.
  std::vector<std::pair<std::string, std::string>> first, then;
  std::vector<SweepAxis> axes;
  // The number of outer axes. Outer axes change a rank's kernels or states. All other axes are
  // inner axes: data-parallel settings and the size of micro-batch groups.
  std::size_t outer = 0;
  std::vector<std::string> absent;  // keys that are omitted if they have their default
  // Settings of the scenario that apply only to some values of an axis; plans with other values
  // omit these settings.
  std::vector<Belonging> belongings;
  // The data-parallel degree that uses all GPUs. Plans with a lower degree set cluster.devices.
  // Zero if the degree does not vary, or if the part sets the number of GPUs.
  std::int64_t data = 0;
};

// The part of the space that contains the plans of one layout.
struct PlanPart {
  plan::Framework framework = plan::Framework::kReference;
  int stage = 0;
  std::int64_t size = 0;  // index in the list of numbers of GPUs
  Layout layout;
  std::shared_ptr<const PlanChoices> choices;
  std::int64_t first = 0, plans = 1;  // plan indices [first, first + plans)
  std::int64_t family = 1;            // number of plans that differ only in inner axes
  int group = 0;                      // index in PlanSpace::groups
  bool own = false;                   // contains the scenario's own plan (SpaceOptions::own)
};

// A group of plans: one framework and one set of kinds of parallelism.
struct PlanGroup {
  plan::Framework framework = plan::Framework::kReference;
  bool tensor = false, pipeline = false;
  friend bool operator==(const PlanGroup&, const PlanGroup&) = default;
};

class PlanSpace {
 public:
  static constexpr std::int64_t kMostFamilies = 2'000'000;

  // Builds the space around a scenario. All plans have the scenario's global batch, unless
  // training.gradient_accumulation varies. Errors:
  //   planner.fix: a key of `fix` is not an axis
  //   planner.vary: a key occurs twice, cannot vary, or is not supported by any framework
  //   planner.framework: a framework occurs twice
  //   planner.space: the space has no families, or more than kMostFamilies
  static Result<PlanSpace> Around(const scenario::Scenario& scenario, const SpaceOptions& options);

  std::int64_t size() const { return size_; }
  // Returns the index of the scenario's own plan, or -1 if the space does not include this plan.
  std::int64_t own() const { return parts_.front().own ? 0 : -1; }
  const std::vector<PlanPart>& parts() const { return parts_; }
  const PlanPart& PartOf(std::int64_t plan) const;
  // Returns the first plan of each family. A family is a range of plans that differ only in inner
  // settings.
  const std::vector<std::int64_t>& families() const { return families_; }
  // Returns the groups that have at least one plan.
  const std::vector<PlanGroup>& groups() const { return groups_; }
  int GroupOf(std::int64_t plan) const { return PartOf(plan).group; }
  // Returns one sentence for each requested setting, ZeRO stage or data type that only some
  // frameworks of the space support.
  const std::vector<std::string>& notes() const { return notes_; }
  // Returns the scenario's settings that some plans do not change, each key once, in the order of
  // the settings tables.
  const std::vector<HeldSetting>& held() const { return held_; }
  // Returns a plan's overrides of the scenario, in the order in which they are applied. The value
  // `null` selects the key's default.
  std::vector<std::pair<std::string, std::string>> Settings(std::int64_t plan) const;
  // Returns the overrides of a plan's family, in which inner settings have their defaults.
  std::vector<std::pair<std::string, std::string>> FamilySettings(std::int64_t plan) const;
  // Returns whether a plan with a lower index has the value `value` for `key`, and otherwise equals
  // this plan.
  bool HasBefore(std::int64_t plan, const std::string& key, const std::string& value) const;
  // Returns the plan's kind as text. Plans of one kind have the same framework and stage, and
  // differ only in other data-parallel settings.
  std::string KindOf(std::int64_t plan) const;
  // A plan that differs from another plan by a neighboring value of one axis.
  struct Neighbour {
    std::string key, value;
    std::int64_t plan = 0;
  };
  std::vector<Neighbour> NeighboursOf(std::int64_t plan) const;

 private:
  std::vector<std::pair<std::string, std::string>> SettingsOf(std::int64_t plan,
                                                              bool of_family) const;
  // Appends the settings of the part's layout, and removes the scenario's settings of other
  // layouts.
  void AppendLayout(const PlanPart& part,
                    std::vector<std::pair<std::string, std::string>>& settings) const;
  // Appends the neighbors with other layouts, which belong to other parts.
  void AppendOtherLayouts(std::int64_t plan, std::vector<Neighbour>& neighbours) const;
  // Returns the index of the part's plan with these settings and the first values of all other
  // settings. No value if the part has no plan with these settings.
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
