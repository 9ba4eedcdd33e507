#include "src/planner/bounds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "src/cost/price.h"
#include "src/cost/prices.h"
#include "src/forecast/memory_summary.h"
#include "src/lowering/host_offload.h"
#include "src/lowering/lowering.h"
#include "src/lowering/pipeline_stage.h"
#include "src/model/model.h"
#include "src/planner/program_bounds.h"
#include "src/planner/program_digest.h"
#include "src/planner/short_program.h"

namespace stepcast::planner {
namespace {

using plan::Framework;
using scenario::Scenario;

// The model's part of one micro-batch on one rank.
struct MicroBatch {
  Time kernels;  // all of the stage with most to do, each alone, one after the other
  struct Stage {
    Bytes activations;  // most that are alive at once, temporaries of backward included
    std::int64_t parameters = 0;
  };
  std::vector<Stage> stages;  // of the pipeline
};

// What MicroBatch depends on; shared inputs stand for themselves while the key holds them.
struct WorkKey {
  std::shared_ptr<const model::Model> model;
  std::shared_ptr<const topology::Cluster> cluster;
  std::shared_ptr<const calibration::Calibration> calibration;
  model::WorkOptions options;
  std::array<std::int64_t, 4> axes{};
  bool textbook = false;
  std::vector<std::int64_t> stage_layers{};

  auto Tie() const {
    return std::tie(model, cluster, calibration, options, axes, textbook, stage_layers);
  }
  friend bool operator<(const WorkKey& a, const WorkKey& b) { return a.Tie() < b.Tie(); }
};

WorkKey KeyOf(const Scenario& scenario) {
  const plan::Parallelism& axes = scenario.plan.parallelism;
  return {scenario.model,
          scenario.cluster,
          scenario.calibration,
          plan::WorkOptionsOf(scenario.plan),
          {axes.data, axes.context, axes.pipeline, axes.virtual_stages},
          plan::TraitsOf(scenario.plan.data_parallel.framework).textbook,
          axes.stage_layers};
}

Result<MicroBatch> WorkOut(const Scenario& scenario) {
  const model::Model& model = *scenario.model;
  const model::WorkOptions options = plan::WorkOptionsOf(scenario.plan);
  const auto works = model::BuildWork(model, options);
  program::Program kernels;
  std::vector<std::size_t> first;  // of each work's kernels
  for (const model::LayerWork& work : works) {
    first.push_back(kernels.kernels.size());
    for (const auto& op : work.forward) kernels.kernels.push_back(op.kernel);
    for (const auto& op : work.recompute) kernels.kernels.push_back(op.kernel);
    for (const auto& op : work.backward) kernels.kernels.push_back(op.kernel);
  }
  first.push_back(kernels.kernels.size());
  const auto prices = cost::Price(kernels, scenario);
  if (!prices) return tl::unexpected(prices.error());
  const auto sum = [](const std::vector<model::Activation>& activations) {
    Bytes bytes;
    for (const model::Activation& activation : activations) bytes += activation.bytes;
    return bytes;
  };
  std::vector<Time> times(works.size());
  std::vector<Bytes> saved(works.size());
  for (std::size_t w = 0; w < works.size(); ++w) {
    for (std::size_t k = first[w]; k < first[w + 1]; ++k) times[w] += prices->kernels[k].alone();
    saved[w] = sum(works[w].saved);
  }
  // Stages wait for each other: no step is shorter than the work of the one with most to do. Of a
  // micro-batch by itself: backward of a layer runs while what it and those before it saved is
  // there; what blocks saved may be on the host, in part even then.
  const bool offloads = scenario.plan.training.activation_offload;
  MicroBatch result;
  for (int stage = 0; stage < scenario.plan.parallelism.pipeline; ++stage) {
    const lowering::PipelineStage part(scenario, stage);
    const std::vector<int> of_layers = part.WorkOfLayers(options);
    MicroBatch::Stage& needs = result.stages.emplace_back(
        MicroBatch::Stage{.activations = {}, .parameters = part.model().parameter_count()});
    Time own;
    Bytes alive, again;  // kept; recomputed of the layer's checkpoint so far
    for (std::size_t layer = 0; layer < of_layers.size(); ++layer) {
      const auto w = static_cast<std::size_t>(of_layers[layer]);
      own += times[w];
      again = (works[w].continues_checkpoint ? again : Bytes()) + sum(works[w].recomputed);
      if (offloads && part.model().layers[layer].kind == model::LayerKind::kBlock) continue;
      alive += saved[w];
      // In two parts, the first runs beside all that is saved.
      const Bytes transient = options.splits_backward ? std::min(works[w].backward_transient,
                                                                 works[w].backward_input.transient)
                                                      : works[w].backward_transient;
      needs.activations = std::max(needs.activations, alive + again + transient);
    }
    result.kernels = std::max(result.kernels, own);
  }
  return result;
}

Bytes Spread(std::int64_t bytes, std::int64_t ranks) { return Bytes((bytes + ranks - 1) / ranks); }

// Parameters and optimizer states: what is there from the first step to the last.
Bytes States(const Scenario& scenario, std::int64_t parameters) {
  const plan::DataParallel& plan = scenario.plan.data_parallel;
  const plan::Training& training = scenario.plan.training;
  const std::int64_t shards = plan.shard_group_size;
  const bool fsdp = plan::IsFsdp(plan.framework);
  const bool on_host = plan.deepspeed.offload_param != plan::OffloadDevice::kNone;
  const bool updated_on_host = plan.deepspeed.offload_optimizer != plan::OffloadDevice::kNone;
  Bytes states;
  if (!on_host) {
    states += Spread(parameters * SizeOf(training.parameter_dtype),
                     plan.zero_stage == 3 || fsdp ? shards : 1);
  }
  if (!updated_on_host) {
    states += Spread(parameters * plan::OptimizerBytesPerParameter(training),
                     plan.zero_stage >= 1 || fsdp ? shards : 1);
  }
  return states;
}

// Full gradients that stay until the update, by the stages and frameworks that keep them.
Bytes FullGradients(const Scenario& scenario, std::int64_t parameters) {
  const plan::DataParallel& plan = scenario.plan.data_parallel;
  const plan::Training& training = scenario.plan.training;
  if (plan.zero_stage > 1 || plan::IsFsdp(plan.framework)) return {};
  if (plan.framework == Framework::kDeepSpeed && plan.zero_stage == 1) return {};
  const DataType type = plan::TraitsOf(plan.framework).textbook
                            ? plan::WrittenGradientType(training)
                            : training.gradient_dtype;
  return BytesOf(parameters, type);
}

// Parameters that FSDP's stage 2 leaves gathered between forward and backward.
Bytes GatheredParameters(const Scenario& scenario, std::int64_t parameters) {
  const plan::DataParallel& plan = scenario.plan.data_parallel;
  if (!plan::IsFsdp(plan.framework) || plan.zero_stage != 2) return {};
  return BytesOf(parameters, plan::ComputeType(scenario.plan.training.precision));
}

// Whether so much at the peak, with `communicators`, can fit.
void SayWhetherItFits(const Scenario& scenario, int communicators, Bound& bound) {
  bound.needed =
      bound.memory + forecast::OutsideAllocator(scenario, static_cast<std::size_t>(communicators));
  bound.over = bound.needed - scenario.cluster->device_memory();
  bound.fits = bound.over <= Bytes(0);
  const plan::DeepSpeed& deepspeed = scenario.plan.data_parallel.deepspeed;
  if (!deepspeed.offloads()) return;
  const lowering::HostBytes host = lowering::HostBytesOfNode(scenario);
  const topology::Host& node = *scenario.cluster->node_type()->host;
  const Bytes lacking = std::max(host.memory - node.memory, host.drives - node.nvme);
  if (lacking <= Bytes(0)) return;
  bound.fits_host = false;
  bound.over = std::max(bound.over, lacking);
  bound.fits = false;
}

}  // namespace

struct Bounds::Kept {
  // By what is quick to compare, then by the training itself.
  std::map<WorkKey, std::vector<std::pair<plan::Training, Result<MicroBatch>>>> works;
};

Bounds::Bounds() : kept_(std::make_unique<Kept>()) {}
Bounds::~Bounds() = default;
Bounds::Bounds(Bounds&&) noexcept = default;
Bounds& Bounds::operator=(Bounds&&) noexcept = default;

Result<Bound> Bounds::OfKernels(const Scenario& scenario) {
  // A profile that is completed for each scenario has a new address each time: nothing of it is
  // found again.
  constexpr std::size_t kMostKept = 4096;
  if (kept_->works.size() >= kMostKept) kept_->works.clear();
  plan::Training training = scenario.plan.training;
  training.gradient_accumulation = 1;  // of these a micro-batch knows nothing
  training.global_batch_size = 0;
  auto& kept = kept_->works[KeyOf(scenario)];
  auto found = std::find_if(kept.begin(), kept.end(),
                            [&](const auto& entry) { return entry.first == training; });
  if (found == kept.end()) found = kept.emplace(kept.end(), training, WorkOut(scenario));
  if (!found->second) return tl::unexpected(found->second.error());
  const MicroBatch& micro_batch = *found->second;
  const std::int64_t count = scenario.plan.training.gradient_accumulation;
  Bound bound;
  bound.step_time = micro_batch.kernels * count;
  // DeepSpeed's stage 0 and Megatron accumulate in other ways; two micro-batches tell nothing of
  // them.
  const Framework framework = scenario.plan.data_parallel.framework;
  const bool accumulates =
      count > 1 && (framework == Framework::kDdp || framework == Framework::kReference);
  for (const MicroBatch::Stage& stage : micro_batch.stages) {
    const Bytes gradients = FullGradients(scenario, stage.parameters);
    const Bytes active = stage.activations + GatheredParameters(scenario, stage.parameters);
    bound.memory = std::max(bound.memory,
                            States(scenario, stage.parameters) +
                                (accumulates ? gradients + active : std::max(gradients, active)));
  }
  SayWhetherItFits(scenario, scenario.plan.parallelism.data > 1 ? 1 : 0, bound);
  return bound;
}

Result<Bounds::OfItsProgram> Bounds::LookAtProgram(const Scenario& scenario, bool digest) {
  auto kernels = OfKernels(scenario);
  if (!kernels) return tl::unexpected(std::move(kernels.error()));
  // A program by itself says nothing of the stages that it waits for.
  if (scenario.plan.parallelism.pipeline > 1) {
    return OfItsProgram{.bound = *std::move(kernels), .digest = {}};
  }
  const auto [program, repeated] = LowerShort(scenario);
  const auto prices = cost::Price(program, scenario);
  if (!prices) return tl::unexpected(prices.error());
  const bool analytic = scenario.network == scenario::Fidelity::kAnalytic;
  const bool barrier = scenario.plan.training.step_barrier;
  OfItsProgram result;
  Bound& bound = result.bound;
  bound.step_time = std::max({kernels->step_time,
                              UncontendedStepTime(program, *prices, barrier, analytic, repeated),
                              ContendedComputeTime(program, *prices, analytic, repeated)});
  bound.memory = std::max(kernels->memory, PeakInHostOrder(program, repeated));
  SayWhetherItFits(scenario, static_cast<int>(program.communicators.size()), bound);
  if (digest && analytic) result.digest = DigestOf(program, repeated, *prices);
  return result;
}

}  // namespace stepcast::planner
