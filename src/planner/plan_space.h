#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/planner/given_settings.h"
#include "src/planner/sweep_grid.h"
#include "src/scenario/scenario.h"

// Which plans there are to choose from: for each number of nodes, degrees of the axes that vary,
// framework and ZeRO stage the cross product of the settings that do something there.
// docs/planning.md lists the values that are tried.
namespace stepcast::planner {

struct SpaceOptions {
  std::vector<plan::Framework> frameworks;  // empty: the scenario's
  bool nodes = false;                       // fewer nodes too, and parts of one
  std::vector<SweepAxis> vary;              // replace the values of a key, or add one
  std::vector<std::string> fix;             // keys that stay as the scenario has them
  HasKey has_key;                           // of the scenario
};

// A setting that the scenario gives and that some plans of the space keep as it is there: other
// values of it are not searched.
struct HeldSetting {
  std::string key;
  // Where it belongs to values of a setting that varies: that one, and those values.
  std::string of{};
  std::vector<std::string> at{};
};

// One axis of a part, and what is said of it beside other plans.
struct PlanPart {
  plan::Framework framework = plan::Framework::kReference;
  // What holds for all plans of the part: nodes, framework, stage, how the batch is given, types
  // that the framework does not have.
  std::vector<std::pair<std::string, std::string>> fixed;
  std::vector<SweepAxis> axes;
  std::vector<std::string> absent;  // keys of axes that are absent at their default
  // Settings of the scenario that plans leave out where they have another value of an axis.
  std::vector<Belonging> belongings;
  // The data-parallel degree that uses all GPUs: plans of a lower one leave GPUs idle, and say so
  // (cluster.devices). 0: degrees do not vary, or the part says how many GPUs there are.
  std::int64_t data = 0;
  std::int64_t first = 0, plans = 1;  // numbers [first, first + plans)
};

class PlanSpace {
 public:
  static constexpr std::int64_t kMostPlans = 2'000'000;

  // The space around a scenario. Its global batch holds for all plans, unless
  // training.gradient_accumulation varies. Errors: planner.fix (no such axis), planner.vary (a key
  // twice, one that cannot vary, one or a ZeRO stage that no framework of the space has),
  // planner.framework (one twice), planner.space (more than kMostPlans, or none).
  static Result<PlanSpace> Around(const scenario::Scenario& scenario, const SpaceOptions& options);

  std::int64_t size() const { return size_; }
  const std::vector<PlanPart>& parts() const { return parts_; }
  // What was asked for and holds for some frameworks alone, a sentence each: settings, ZeRO stages
  // and types that others of the space do not have.
  const std::vector<std::string>& notes() const { return notes_; }
  // Each key once, in the order of the tables of settings.
  const std::vector<HeldSetting>& held() const { return held_; }
  // Overrides of the scenario, in the order in which they are to be applied. The value `null` takes
  // a key out, so that its default holds.
  std::vector<std::pair<std::string, std::string>> Settings(std::int64_t plan) const;
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
  const PlanPart& PartOf(std::int64_t plan) const;
  // Neighbours with other degrees, which are plans of other parts.
  void AppendOtherGrids(std::int64_t plan, std::vector<Neighbour>& neighbours) const;
  // The plan of a part that has these settings, and the first value of what they do not name;
  // nothing if it has no such value.
  static std::optional<std::int64_t> NumberIn(
      const PlanPart& part, const std::vector<std::pair<std::string, std::string>>& settings);

  // For each number of nodes and each combination of the degrees, the last varying fastest, as many
  // parts: one for each framework and stage.
  std::vector<PlanPart> parts_;
  std::vector<SweepAxis> degrees_;
  std::int64_t parts_of_grid_ = 1;
  std::vector<std::string> notes_;
  std::vector<HeldSetting> held_;
  std::int64_t size_ = 0;
};

}  // namespace stepcast::planner
