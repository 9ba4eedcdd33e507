#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "src/cost/price.h"
#include "src/forecast/memory_plan.h"
#include "src/forecast/memory_timeline.h"
#include "src/forecast/step_counts.h"
#include "src/model/model.h"
#include "src/plan/plan.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"
#include "src/simulate/schedule.h"

// What the rows of a sweep have in common, kept from one to the next.
namespace stepcast::forecast {

// A lowered program, and what follows from its instructions alone.
struct PreparedProgram {
  program::Program program;
  std::shared_ptr<const std::vector<model::LayerWork>> works;  // model::BuildWork of the scenario
  StepCounts counts;
  cost::KeptPrices prices;
  simulate::Schedule schedule;
  bool timed = false;                      // ReleasesAreTimed
  std::optional<DelayedReleases> delayed;  // if so
  bool kernels_delay = false;              // releases wait for kernels, not collectives alone
  std::optional<MemoryPlan> memory;        // made where it is needed
};

// Lowers each row's program in the memory of the one before. The works of models are kept: that of
// a micro-batch is the same for many plans.
class PreparedPrograms {
 public:
  // The scenario's, until the next call.
  PreparedProgram& Of(const scenario::Scenario& scenario);

 private:
  using Works = std::shared_ptr<const std::vector<model::LayerWork>>;
  struct KnownWorks {
    std::shared_ptr<const model::Model> model;
    plan::Training training;  // what does not concern a micro-batch does not count
    Works works;
  };
  static constexpr std::size_t kMostWorks = 16;

  Works WorksOf(const scenario::Scenario& scenario);

  PreparedProgram prepared_;
  std::vector<KnownWorks> works_;
};

}  // namespace stepcast::forecast
