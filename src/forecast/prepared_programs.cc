#include "src/forecast/prepared_programs.h"

#include <algorithm>
#include <utility>

#include "src/lowering/lowering.h"

namespace stepcast::forecast {
namespace {

// What of a plan can make a difference between instructions: numbers of ranks only by there being
// one or several, and whether groups of ranks hold a copy of the states each.
plan::Plan ShapeOf(const plan::Plan& plan) {
  plan::Plan shape = plan;
  const std::int64_t data = plan.parallelism.data;
  const std::int64_t shard = plan.data_parallel.shard_group_size;
  shape.parallelism.data = std::min<std::int64_t>(data, 2);
  shape.data_parallel.shard_group_size = shard == data ? 0 : std::min<std::int64_t>(shard, 2);
  shape.training.global_batch_size = 0;
  return shape;
}

bool Same(const plan::Plan& a, const plan::Plan& b) {
  return a.training == b.training && a.parallelism == b.parallelism &&
         a.data_parallel == b.data_parallel && a.software == b.software;
}

// A micro-batch's work does not depend on how many there are.
bool SameWork(plan::Training a, const plan::Training& b) {
  a.gradient_accumulation = b.gradient_accumulation;
  return a == b;
}

std::size_t InstructionsOf(const program::Program& program) {
  return program.prologue.size() + program.step.size();
}

}  // namespace

PreparedProgram& PreparedPrograms::Of(const scenario::Scenario& scenario) {
  bool found = false;
  Known& known = Find(scenario, found);
  known.last_used = ++uses_;
  PreparedProgram& prepared = known.prepared;
  if (found && known.resizes) {
    if (lowering::Resize(scenario, *prepared.works, prepared.program)) return prepared;
    known.resizes = false;
  }
  prepared.program = lowering::Lower(scenario, {.works = prepared.works.get()});
  prepared.has_schedule = false;
  prepared.timed = ReleasesAreTimed(prepared.program);
  prepared.delayed.reset();
  prepared.kernels_delay = false;
  if (prepared.timed) {
    prepared.delayed.emplace(prepared.program);
    const std::vector<program::Instruction>& step = prepared.program.step;
    for (program::Index i = 0; i < step.size(); ++i) {
      if (step[i].opcode != program::Opcode::kKernel) continue;
      if (prepared.delayed->NumberOf(i) != program::kNone) prepared.kernels_delay = true;
    }
  }
  prepared.sized_by_ranks = lowering::SizesDependOnRanks(scenario.plan);
  prepared.peak.reset();
  prepared.memory.reset();
  if (!found) Forget();
  return prepared;
}

PreparedPrograms::Known& PreparedPrograms::Find(const scenario::Scenario& scenario, bool& found) {
  const plan::Plan shape = ShapeOf(scenario.plan);
  std::shared_ptr<const std::vector<model::LayerWork>> works;
  for (const auto& known : known_) {
    if (known->model != scenario.model) continue;
    if (known->calibration == scenario.calibration && Same(known->shape, shape)) {
      found = true;
      return *known;
    }
    if (SameWork(known->shape.training, shape.training)) works = known->prepared.works;
  }
  if (works == nullptr) {
    works = std::make_shared<const std::vector<model::LayerWork>>(
        model::BuildWork(*scenario.model, plan::WorkOptionsOf(scenario.plan.training)));
  }
  Known& made = *known_.emplace_back(std::make_unique<Known>());
  made.model = scenario.model;
  made.calibration = scenario.calibration;
  made.shape = shape;
  made.prepared.works = std::move(works);
  return made;
}

// The one that was used last stays.
void PreparedPrograms::Forget() {
  std::size_t instructions = 0;
  for (const auto& known : known_) instructions += InstructionsOf(known->prepared.program);
  while (instructions > kMostInstructions && known_.size() > 1) {
    const auto oldest =
        std::min_element(known_.begin(), known_.end(),
                         [](const auto& a, const auto& b) { return a->last_used < b->last_used; });
    instructions -= InstructionsOf((*oldest)->prepared.program);
    known_.erase(oldest);
  }
}

}  // namespace stepcast::forecast
