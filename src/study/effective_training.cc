#include "src/study/effective_training.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "src/forecast/long_run.h"

namespace stepcast::study {
namespace {

constexpr double kLongRun = 100 * forecast::kDay;

struct Known {
  std::mutex mutex;
  std::map<std::int64_t, forecast::UsedTime> by_gpus;
};

}  // namespace

std::function<forecast::UsedTime(std::int64_t gpus)> EffectiveTraining(
    const scenario::Scenario& scenario) {
  const forecast::SavedState state = forecast::SavedStateOf(scenario);
  const std::int64_t gpus_per_node = scenario.cluster->gpus_per_node();
  return [state, gpus_per_node, known = std::make_shared<Known>()](std::int64_t gpus) {
    const std::lock_guard lock(known->mutex);
    const auto [found, added] = known->by_gpus.try_emplace(gpus);
    if (!added) return found->second;
    const auto nodes_of = [gpus_per_node](std::int64_t count) {
      return (count + gpus_per_node - 1) / gpus_per_node;
    };
    forecast::LongRun run;
    run.work = kLongRun;
    run.state = state.bytes;
    run.saving_gpus = std::min(state.gpus, gpus);
    run.pool.nodes = nodes_of(gpus);
    const forecast::RunInputs inputs =
        forecast::PublishedInputs(gpus_per_node, nodes_of(run.saving_gpus), false);
    const forecast::TimeShares shares = RunTimeOf(run, inputs).shares;
    return found->second = {.work = shares.work, .busy = shares.busy()};
  };
}

}  // namespace stepcast::study
