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

// The plans to choose from: for each number of nodes, framework, ZeRO stage and layout, the cross
// product of the settings that have an effect there. docs/planning.md lists the values that are
// tried.
namespace stepcast::planner {

struct SpaceOptions {
  std::vector<plan::Framework> frameworks;  // empty: the scenario's framework
  bool nodes = false;                       // also fewer nodes, and parts of one
  // The kinds of parallelism that may vary, unless `vary` or `fix` say otherwise.
  std::vector<ParallelKind> kinds{std::begin(kParallelKinds), std::end(kParallelKinds)};
  std::vector<SweepAxis> vary;   // replace the values of a key, or add a key
  std::vector<std::string> fix;  // keys that keep the scenario's value
  // Plan 0 is the scenario itself, without overrides.
  bool own = false;
  WrittenValueOf value_of;  // values written in the scenario
  // Written keys whose values a framework refuses at a stage, although the scenario's framework
  // takes them. Their defaults stand in its plans.
  std::function<std::vector<std::string>(plan::Framework, int stage)> refused_by;
};

// A setting given in the scenario that some plans keep; other values of it are not searched.
struct HeldSetting {
  std::string key;
  // If it only applies to some values of a varying setting: that setting, and those values.
  std::string of{};
  std::vector<std::string> at{};
};

// Layout settings given in the scenario.
struct LayoutsGiven {
  std::vector<const LayoutKey*> keys;  // given keys
  bool data = false;                   // parallelism.data is given
  bool stage_layers = false;           // parallelism.stage_layers is given, for the stages of `own`
  Layout own;
  bool mixture = false;  // the model is a mixture
};

// The common choices of several parts.
struct PlanChoices {
  // Settings of all of these plans. `first`: how the batch is given, types that the framework does
  // not support, the number of GPUs. `then`, after the layout: framework and stage.
  std::vector<std::pair<std::string, std::string>> first, then;
  std::vector<SweepAxis> axes;
  // The first `outer` axes change what ranks compute or keep. The others are settings of data
  // parallelism and micro-batch groups, which do not affect the kernels of a micro-batch or the
  // states.
  std::size_t outer = 0;
  std::vector<std::string> absent;  // keys of axes that are omitted at their default
  // Settings of the scenario that plans drop if an axis has another value.
  std::vector<Belonging> belongings;
  // The data-parallel degree that uses all GPUs. Plans with a lower one leave GPUs idle and set
  // cluster.devices. 0: degrees do not vary, or the part sets the number of GPUs.
  std::int64_t data = 0;
};

// Plans of one layout.
struct PlanPart {
  plan::Framework framework = plan::Framework::kReference;
  int stage = 0;
  std::int64_t size = 0;  // index among the numbers of GPUs
  Layout layout;
  std::shared_ptr<const PlanChoices> choices;
  std::int64_t first = 0, plans = 1;  // plan numbers [first, first + plans)
  std::int64_t family = 1;            // number of plans that differ only in inner axes
  int group = 0;                      // index in PlanSpace::groups
  bool own = false;                   // SpaceOptions::own
};

// A kind of plans for comparison of answers: the framework, and the kinds of parallelism.
struct PlanGroup {
  plan::Framework framework = plan::Framework::kReference;
  bool tensor = false, pipeline = false;
  friend bool operator==(const PlanGroup&, const PlanGroup&) = default;
};

class PlanSpace {
 public:
  static constexpr std::int64_t kMostFamilies = 2'000'000;

  // The space around a scenario. All plans have its global batch, unless
  // training.gradient_accumulation varies. Errors: planner.fix (no such axis), planner.vary (a key
  // given twice, one that cannot vary, one or a ZeRO stage that no framework of the space
  // supports), planner.framework (given twice), planner.space (more than kMostFamilies, or none).
  static Result<PlanSpace> Around(const scenario::Scenario& scenario, const SpaceOptions& options);

  std::int64_t size() const { return size_; }
  // The number of the plan SpaceOptions::own; -1 if it is not included.
  std::int64_t own() const { return parts_.front().own ? 0 : -1; }
  const std::vector<PlanPart>& parts() const { return parts_; }
  const PlanPart& PartOf(std::int64_t plan) const;
  // The first plan of each family. Plans up to the next family's first differ only in inner
  // settings of data parallelism.
  const std::vector<std::int64_t>& families() const { return families_; }
  // The groups that have at least one plan.
  const std::vector<PlanGroup>& groups() const { return groups_; }
  int GroupOf(std::int64_t plan) const { return PartOf(plan).group; }
  // Requested settings, ZeRO stages and types that apply only to some frameworks of the space, one
  // sentence each.
  const std::vector<std::string>& notes() const { return notes_; }
  // Distinct keys, in the order of the settings tables.
  const std::vector<HeldSetting>& held() const { return held_; }
  // Overrides of the scenario, in order of application. The value `null` removes a key, so that its
  // default applies.
  std::vector<std::pair<std::string, std::string>> Settings(std::int64_t plan) const;
  // The same for a plan's family: inner settings have their defaults.
  std::vector<std::pair<std::string, std::string>> FamilySettings(std::int64_t plan) const;
  // Whether a plan with a lower number differs only in this key, which has this value there.
  bool HasBefore(std::int64_t plan, const std::string& key, const std::string& value) const;
  // Equal for plans that differ only in settings of data parallelism other than framework and
  // stage.
  std::string KindOf(std::int64_t plan) const;
  // Plans that differ by one step along one axis.
  struct Neighbour {
    std::string key, value;
    std::int64_t plan = 0;
  };
  std::vector<Neighbour> NeighboursOf(std::int64_t plan) const;

 private:
  std::vector<std::pair<std::string, std::string>> SettingsOf(std::int64_t plan,
                                                              bool of_family) const;
  // Appends the part's layout, and removals of the scenario's layout settings that it does not
  // have.
  void AppendLayout(const PlanPart& part,
                    std::vector<std::pair<std::string, std::string>>& settings) const;
  // Neighbors with other layouts, which belong to other parts.
  void AppendOtherLayouts(std::int64_t plan, std::vector<Neighbour>& neighbours) const;
  // The plan of a part with these settings, and the first value of unnamed ones; nothing if it
  // lacks a value.
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
