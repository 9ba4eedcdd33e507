#include "src/lowering/lowering.h"

#include <cstddef>
#include <vector>

#include "src/base/check.h"
#include "src/lowering/framework_steps.h"
#include "src/lowering/lower_options.h"
#include "src/plan/pipeline.h"
#include "src/plan/rank_grid.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {

std::vector<program::Program> Lower(const scenario::Scenario& scenario,
                                    const std::vector<model::LayerWork>* works,
                                    const std::function<void(program::Program&)>& lowered) {
  const plan::RankLabels labels(scenario.plan);
  const parallel::PipelineSchedule schedule = plan::ScheduleOf(scenario.plan);
  std::vector<program::Program> programs;
  for (std::size_t label = 0; label < labels.distinct().size(); ++label) {
    programs.push_back(LowerRank(
        scenario, {.rank = labels.FirstRank(label), .works = works, .schedule = &schedule}));
    if (lowered) lowered(programs.back());
  }
  return programs;
}

program::Program LowerRank(const scenario::Scenario& scenario, const LowerOptions& options) {
  STEPCAST_CHECK(options.rank >= 0 && options.rank < scenario.plan.parallelism.ranks(),
                 "the rank must be one of the plan's ranks");
  switch (scenario.plan.data_parallel.framework) {
    case plan::Framework::kReference:
      return LowerReference(scenario, options);
    case plan::Framework::kDdp:
      return LowerDdp(scenario, options);
    case plan::Framework::kFsdp2:
      return LowerFsdp2(scenario, options);
    case plan::Framework::kMegatron:
      return LowerMegatron(scenario, options);
    case plan::Framework::kFsdp1:
      return LowerFsdp1(scenario, options);
    case plan::Framework::kNanotron:
      return LowerNanotron(scenario, options);
    case plan::Framework::kDeepSpeed:
      return scenario.plan.data_parallel.zero_stage == 3 ? LowerDeepSpeedStage3(scenario, options)
                                                         : LowerDeepSpeed(scenario, options);
  }
  STEPCAST_CHECK(false, "a legal plan must use a framework that stepcast can lower");
  return {};
}

std::vector<program::ProcessGroup> GroupsOf(const program::Program& program, int rank) {
  std::vector<program::ProcessGroup> groups = program.groups;
  for (program::ProcessGroup& group : groups) group.ranks = group.layout.Ranks(rank);
  return groups;
}

}  // namespace stepcast::lowering
