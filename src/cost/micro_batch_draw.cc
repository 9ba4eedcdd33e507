#include "src/cost/micro_batch_draw.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/check.h"
#include "src/base/kernel.h"
#include "src/model/model.h"
#include "src/model/stage.h"
#include "src/plan/pipeline.h"
#include "src/plan/plan.h"

namespace stepcast::cost {
namespace {

std::optional<Demand> DemandOf(const Kernel& kernel, const KernelSetting& setting,
                               KernelMemo& memo) {
  const std::uint32_t known = memo.Find(kernel);
  if (known != KernelMemo::kNone) return memo.DemandOf(known);
  const auto demand = PriceKernel(kernel, setting);
  if (!demand) return std::nullopt;
  memo.Add(kernel, *demand);
  return *demand;
}

}  // namespace

MicroBatchDraw DrawOf(const scenario::Scenario& scenario, std::span<const model::LayerWork> works,
                      const KernelSetting& setting, KernelMemo& full_clock) {
  STEPCAST_CHECK(setting.limit_watts == 0, "the limit follows from kernels at full clock");
  std::vector<std::int64_t> layers(works.size());
  const std::vector<int> begins =
      model::ChunkLayers(*scenario.model, scenario.plan.parallelism.stage_layers);
  for (const int work : model::WorkOfLayers(*scenario.model, plan::WorkOptionsOf(scenario.plan),
                                            begins, plan::StagesOfChunks(scenario.plan))) {
    ++layers[static_cast<std::size_t>(work)];
  }
  MicroBatchDraw draw;
  for (std::size_t w = 0; w < works.size(); ++w) {
    const auto times = static_cast<double>(layers[w]);
    for (const auto* pass : {&works[w].forward, &works[w].recompute, &works[w].backward}) {
      for (const model::Operation& operation : *pass) {
        const Kernel& kernel = operation.kernel;
        if (operation.group || kernel.kind == KernelKind::kGiven) continue;
        const std::optional<Demand> demand = DemandOf(kernel, setting, full_clock);
        if (!demand) continue;
        if (!IsArithmetic(kernel.kind)) {
          draw.other += times * demand->alone().seconds();
          continue;
        }
        const double best = BestProductRate(kernel, setting);
        const double work = demand->work.seconds();
        draw.other += times * demand->latency.seconds();
        draw.arithmetic += times * work;
        if (best > 0) {
          draw.at_best += times * std::min(work, static_cast<double>(kernel.flops) / best);
        }
      }
    }
  }
  return draw;
}

}  // namespace stepcast::cost
