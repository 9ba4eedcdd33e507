#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/expected.h"
#include "src/cost/price.h"
#include "src/lowering/parameter_share.h"
#include "src/model/model.h"
#include "src/model/stage.h"
#include "src/parallel/named_schedules.h"
#include "src/parallel/schedule_check.h"
#include "src/plan/framework_style.h"
#include "src/plan/rank_grid.h"
#include "src/plan/request.h"
#include "src/planner/bounds.h"

namespace stepcast::planner {
namespace {

using scenario::Scenario;

// For a micro-batch: the figures of each distinct layer, and each layer's index among them.
struct WorkFigures {
  std::vector<LayerFigures> layers;
  std::vector<int> of_layer;
};

// The inputs of these figures other than the shared inputs.
struct WorkKey {
  std::shared_ptr<const model::Model> model;
  std::shared_ptr<const topology::Cluster> cluster;
  std::shared_ptr<const calibration::Calibration> calibration;
  plan::Framework framework{};
  Version torch{};
  std::int64_t ranks = 1;
  // Parallelism::tensor, context, context_inner, expert, expert_near and expert_tensor: they
  // determine where the ranks of a layer are.
  std::array<std::int64_t, 6> groups{};
  model::WorkOptions options;

  auto Tie() const {
    return std::tie(model, cluster, calibration, framework, torch.major, torch.minor, ranks, groups,
                    options);
  }
  friend bool operator<(const WorkKey& a, const WorkKey& b) { return a.Tie() < b.Tie(); }
};

// A rank's tensors by layer; a tensor counts at its first use.
struct ParameterFigures {
  std::vector<lowering::GroupElements> trained;
  std::vector<Bytes> frozen;
};
using ParameterKey =
    std::tuple<std::shared_ptr<const model::Model>, std::int64_t, std::int64_t, std::int64_t>;

ParameterFigures ParametersOf(const Scenario& scenario) {
  const plan::Parallelism& axes = scenario.plan.parallelism;
  const bool divided = axes.tensor > 1 || axes.expert > 1 || axes.expert_tensor > 1;
  const std::optional<model::Model> local =
      divided ? std::optional(model::Localised(*scenario.model, plan::GridsOf(scenario.plan)))
              : std::nullopt;
  const model::Model& all = local ? *local : *scenario.model;
  ParameterFigures figures;
  std::vector<char> trained(all.tensors.size()), frozen(all.frozen.size());
  for (const model::Layer& layer : all.layers) {
    lowering::GroupElements& elements = figures.trained.emplace_back();
    for (const int tensor : layer.tensors) {
      const auto t = static_cast<std::size_t>(tensor);
      if (std::exchange(trained[t], true)) continue;
      elements[static_cast<std::size_t>(all.tensors[t].group)] += all.tensors[t].elements;
    }
    Bytes& kept = figures.frozen.emplace_back();
    for (const int tensor : layer.frozen) {
      if (!std::exchange(frozen[static_cast<std::size_t>(tensor)], true)) {
        kept += model::FrozenBytes(all, tensor);
      }
    }
  }
  return figures;
}

// Figures of layers, shared by all threads of the process.
class SharedWorks {
 public:
  using Entry = std::shared_ptr<const Result<WorkFigures>>;

  Entry Find(const WorkKey& key) {
    const std::shared_lock lock(mutex_);
    const auto found = works_.find(key);
    return found == works_.end() ? nullptr : found->second;
  }
  // Two threads may add the same entry: both have computed equal values, and the first one is kept.
  void Add(WorkKey key, Entry works) {
    const std::unique_lock lock(mutex_);
    // A profile that is completed for each scenario has a new address each time, so its entries are
    // never found again.
    constexpr std::size_t kMostKept = 65'536;
    if (works_.size() >= kMostKept) works_.clear();
    works_.emplace(std::move(key), std::move(works));
  }

 private:
  std::shared_mutex mutex_;
  std::map<WorkKey, Entry> works_;
};
SharedWorks& Shared() {
  static SharedWorks shared;
  return shared;
}

// One chunk of a pipeline's layers.
struct Chunk {
  std::size_t first = 0, end = 0;  // layers
  ChunkWork work;
};

}  // namespace

class Bounds::Kept {
 public:
  Result<Bound> First(const Scenario& scenario) {
    STEPCAST_TAKE(const auto works, WorksOf(scenario));
    const ParameterFigures& parameters = ParametersOf(scenario);
    CutChunks(scenario, *works);
    Bound bound;
    const plan::Parallelism& axes = scenario.plan.parallelism;
    const std::int64_t count = scenario.plan.training.gradient_accumulation;
    const plan::GradientStore store =
        plan::StyleOf(scenario.plan.data_parallel.framework).gradients;
    // For gradients stored in other ways, two micro-batches do not tell whether gradients are kept.
    // In a pipeline one does not either: before its end only permanent buffers hold gradients.
    const bool keeps =
        store == plan::GradientStore::kMainBuffers ||
        (axes.pipeline == 1 && count > 1 && store == plan::GradientStore::kTensors) ||
        KeepsGatheredGradients(scenario);
    lowering::GroupElements before{};
    Bytes activations_before;
    Time kernels;  // of all stages
    for (std::int64_t stage = 0; stage < axes.pipeline; ++stage) {
      Time own;
      StageParameters has;
      Bytes activations;
      const Waiting waiting = WaitingAt(scenario, stage);
      for (std::int64_t chunk = 0; chunk < axes.virtual_stages; ++chunk) {
        const Chunk& figures = chunks_[ChunkAt(axes, stage, chunk)];
        own += figures.work.forward + figures.work.backward;
        kernels += figures.work.kernels;
        const Bytes others = chunk == waiting.chunk ? waiting.saved : Bytes();
        activations = std::max(activations, figures.work.backward_peak + others);
        for (std::size_t layer = figures.first; layer < figures.end; ++layer) {
          for (std::size_t g = 0; g < has.trained.size(); ++g) {
            has.trained[g] += parameters.trained[layer][g];
          }
          has.frozen += parameters.frozen[layer];
        }
      }
      bound.step_time =
          std::max(bound.step_time, ends_[static_cast<std::size_t>(stage)] + own * count);
      // A stage equal to the one before needs no more memory.
      if (stage > 0 && has.trained == before && activations <= activations_before) continue;
      before = has.trained;
      activations_before = activations;
      bound.memory = std::max(bound.memory, MemoryBeside(scenario, has, activations, keeps));
    }
    // Nodes of other kinds may be faster.
    if (scenario.other_nodes.empty())
      bound.computing = Picoseconds((kernels * count).picoseconds() / axes.pipeline);
    SayWhetherItFits(scenario, plan::GradientRanks(scenario.plan) > 1 ? 1 : 0, bound);
    return bound;
  }

  Result<std::vector<Passes>> PassesOf(const Scenario& scenario) {
    if (!CountsSpans(scenario)) return std::vector<Passes>();
    STEPCAST_TAKE(const auto works, WorksOf(scenario));
    CutChunks(scenario, *works);
    std::vector<Passes> passes;
    for (const Chunk& chunk : chunks_) passes.push_back({chunk.work.forward, chunk.work.backward});
    return passes;
  }

  cost::PriceCache& prices() { return prices_; }

 private:
  Result<std::shared_ptr<const WorkFigures>> WorksOf(const Scenario& scenario) {
    const plan::Parallelism& axes = scenario.plan.parallelism;
    WorkKey key{.model = scenario.model,
                .cluster = scenario.cluster,
                .calibration = scenario.calibration,
                .framework = scenario.plan.data_parallel.framework,
                .torch = scenario.plan.software.torch,
                .ranks = axes.ranks(),
                .groups = {axes.tensor, axes.context, axes.context_inner, axes.expert,
                           axes.expert_near, axes.expert_tensor},
                .options = plan::WorkOptionsOf(scenario.plan)};
    SharedWorks::Entry works = Shared().Find(key);
    if (works == nullptr) {
      works = std::make_shared<const Result<WorkFigures>>(WorkOut(scenario, key.options));
      Shared().Add(std::move(key), works);
    }
    if (!*works) return tl::unexpected(works->error());
    return std::shared_ptr<const WorkFigures>(works, &**works);
  }

  Result<WorkFigures> WorkOut(const Scenario& scenario, const model::WorkOptions& options) {
    const auto works = model::BuildWork(*scenario.model, options);
    STEPCAST_TAKE(auto layers, LayerFiguresOf(scenario, works, prices_));
    return WorkFigures{std::move(layers), model::WorkOfLayers(*scenario.model, options)};
  }

  const ParameterFigures& ParametersOf(const Scenario& scenario) {
    const plan::Parallelism& axes = scenario.plan.parallelism;
    const ParameterKey key(scenario.model, axes.tensor, axes.expert, axes.expert_tensor);
    auto found = parameters_.find(key);
    if (found == parameters_.end()) {
      found = parameters_.emplace(key, planner::ParametersOf(scenario)).first;
    }
    return found->second;
  }

  // The index among all chunks of a stage's chunk: chunks go round the stages from first to last.
  // If two legs meet in the last stage, the second leg goes back to the first stage.
  static std::size_t ChunkAt(const plan::Parallelism& axes, std::int64_t stage,
                             std::int64_t chunk) {
    const parallel::NamedSchedule* const named = parallel::FindSchedule(axes.schedule);
    const bool back = axes.pipeline > 1 && named != nullptr && named->chunks == 2 && chunk == 1;
    return static_cast<std::size_t>(back ? 2 * axes.pipeline - 1 - stage
                                         : chunk * axes.pipeline + stage);
  }

  // Collectives that passes wait for count only if passes run one after the other.
  static bool CountsSpans(const Scenario& scenario) {
    const plan::Parallelism& axes = scenario.plan.parallelism;
    return !axes.splits_backward && !scenario.plan.mixture.overlap_communication &&
           axes.listed == nullptr;
  }

  void CutChunks(const Scenario& scenario, const WorkFigures& works) {
    const plan::Parallelism& axes = scenario.plan.parallelism;
    const PassTimes counted = CountsSpans(scenario) ? PassTimes::kSpans : PassTimes::kKernels;
    const auto all = static_cast<std::size_t>(axes.pipeline * axes.virtual_stages);
    chunks_.assign(all, {});
    const std::vector<int> begins = model::ChunkLayers(
        *scenario.model, axes.pipeline > 1 ? axes.stage_layers : std::vector<std::int64_t>());
    for (std::size_t c = 0; c < all; ++c) {
      Chunk& chunk = chunks_[c];
      chunk.first = static_cast<std::size_t>(begins[c]);
      chunk.end = static_cast<std::size_t>(begins[c + 1]);
      const std::size_t layers = chunk.end - chunk.first;
      chunk.work =
          WorkOfChunk(works.layers, std::span(scenario.model->layers).subspan(chunk.first, layers),
                      std::span(works.of_layer).subspan(chunk.first, layers), counted,
                      scenario.plan.training.activation_offload);
    }
    // Time before a stage's first pass and after its last one. With backward in two parts, a stage
    // computes weights' gradients until the next step's first pass.
    ends_.assign(static_cast<std::size_t>(axes.pipeline), Time());
    if (axes.splits_backward) return;
    for (std::size_t stage = 1; stage < ends_.size(); ++stage) {
      const ChunkWork& before = chunks_[stage - 1].work;
      ends_[stage] = ends_[stage - 1] + before.forward + before.backward;
    }
  }

  // Bytes saved for passes that wait for their backward while the backward of one of the stage's
  // chunks runs, and that chunk's index.
  struct Waiting {
    std::int64_t chunk = 0;
    Bytes saved;
  };

  // Returns nothing for schedules whose number of waiting passes is unknown.
  Waiting WaitingAt(const Scenario& scenario, std::int64_t stage) {
    const plan::Parallelism& axes = scenario.plan.parallelism;
    if (axes.pipeline == 1) return {};
    const parallel::NamedSchedule* const named = parallel::FindSchedule(axes.schedule);
    if (named == nullptr || named->two_copies) return {};
    if (named->splits_backward) return WaitingInParts(scenario, *named, stage);
    // The last chunk has the first backward; at that time most micro-batches wait.
    const std::int64_t count = scenario.plan.training.gradient_accumulation;
    const std::int64_t last = axes.virtual_stages - 1;
    const auto saved = [&](std::int64_t chunk) {
      return chunks_[ChunkAt(axes, stage, chunk)].work.saved;
    };
    if (axes.schedule == "1f1b") {
      return {last, (std::min(count, axes.pipeline - stage) - 1) * saved(0)};
    }
    if (axes.schedule == "gpipe" || axes.schedule == "breadth_first") {
      Bytes all;
      for (std::int64_t chunk = 0; chunk <= last; ++chunk) all += count * saved(chunk);
      return {last, all - saved(last)};
    }
    if (axes.schedule != plan::kInterleaved || last == 0) return {};
    Bytes least = saved(0);
    for (std::int64_t chunk = 1; chunk <= last; ++chunk) least = std::min(least, saved(chunk));
    // megatron/core/pipeline_parallel/schedules.py: warm-up passes of a stage.
    const std::int64_t group =
        std::max<std::int64_t>(axes.microbatch_group_size_per_vp_stage, axes.pipeline);
    const std::int64_t warm_up = (axes.pipeline - stage - 1) * 2 + last * group;
    const std::int64_t ahead = std::min(warm_up, count * axes.virtual_stages - 1);
    return {last, std::max<std::int64_t>(ahead, 0) * least};
  }

  // For a schedule with backward in two parts. The schedule is built for a few micro-batches; with
  // more of them at least as many passes wait (named_schedules_test).
  Waiting WaitingInParts(const Scenario& scenario, const parallel::NamedSchedule& named,
                         std::int64_t stage) {
    const plan::Parallelism& axes = scenario.plan.parallelism;
    const std::int64_t count = scenario.plan.training.gradient_accumulation;
    const parallel::ScheduleShape shape{
        .stages = static_cast<int>(axes.pipeline),
        .micro_batches = static_cast<int>(std::min(count, 4 * axes.pipeline)),
        .virtual_stages = static_cast<int>(axes.virtual_stages)};
    const auto [found, added] = waiting_.try_emplace(
        std::tuple(axes.schedule, shape.stages, shape.micro_batches, shape.virtual_stages));
    if (added) found->second = parallel::MostWaiting(named.build(shape));
    const parallel::WaitingPasses& most = found->second[static_cast<std::size_t>(stage)];
    Waiting waiting;
    for (std::int64_t chunk = 0; chunk < axes.virtual_stages; ++chunk) {
      const std::size_t at = ChunkAt(axes, stage, chunk);
      waiting.saved += most.forwards[at] * chunks_[at].work.saved;
      if (static_cast<std::size_t>(most.chunk) == at) waiting.chunk = chunk;
    }
    return waiting;
  }

  std::map<ParameterKey, ParameterFigures> parameters_;
  // Results of MostWaiting by schedule, stages, micro-batches and virtual stages.
  std::map<std::tuple<std::string, int, int, int>, std::vector<parallel::WaitingPasses>> waiting_;
  cost::PriceCache prices_;
  // Figures of the present plan.
  std::vector<Chunk> chunks_;
  std::vector<Time> ends_;  // [stage]
};

Bounds::Bounds() : kept_(std::make_unique<Kept>()) {}
Bounds::~Bounds() = default;
Bounds::Bounds(Bounds&&) noexcept = default;
Bounds& Bounds::operator=(Bounds&&) noexcept = default;

Result<Bound> Bounds::First(const Scenario& scenario) { return kept_->First(scenario); }

Result<std::vector<Bounds::Passes>> Bounds::PassesOf(const Scenario& scenario) {
  return kept_->PassesOf(scenario);
}

cost::PriceCache& Bounds::prices() { return kept_->prices(); }

}  // namespace stepcast::planner
