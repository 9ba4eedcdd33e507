#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/forecast/memory_plan.h"
#include "src/forecast/memory_timeline.h"
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
  simulate::Schedule schedule;  // of the instructions; its prices are those of the row before
  bool has_schedule = false;
  bool timed = false;                      // ReleasesAreTimed
  std::optional<DelayedReleases> delayed;  // if so
  bool kernels_delay = false;              // releases wait for kernels, not collectives alone
  std::optional<MemoryPlan> memory;        // made where it is needed
  bool sized_by_ranks = true;              // lowering::SizesDependOnRanks
  // Of the row before, where nothing of it depends on numbers of ranks.
  struct Peak {
    int steps = 0;
    Bytes capacity;
    MemoryPeak peak;
  };
  std::optional<Peak> peak;
};

// Programs by what lowering makes their instructions of: the model and the plan without its numbers
// of ranks; and by the profile. Rows that differ in those alone go through the same instructions
// over tables of other sizes (lowering::Resize). Both are compared in full, the instructions, too.
// Where they are not the same the program is lowered as a whole.
class PreparedPrograms {
 public:
  // The scenario's, until the next call.
  PreparedProgram& Of(const scenario::Scenario& scenario);

 private:
  struct Known {
    std::shared_ptr<const model::Model> model;
    std::shared_ptr<const calibration::Calibration> calibration;  // of what it costs to issue
    plan::Plan shape;  // the plan, numbers of ranks left out
    bool resizes = true;
    std::uint64_t last_used = 0;
    PreparedProgram prepared;
  };
  // Beyond so many instructions those that were not used for longest are forgotten; with all that
  // belongs to them one takes some 200 bytes.
  static constexpr std::size_t kMostInstructions = 400'000;

  Known& Find(const scenario::Scenario& scenario, bool& found);
  void Forget();

  std::vector<std::unique_ptr<Known>> known_;
  std::uint64_t uses_ = 0;
};

}  // namespace stepcast::forecast
