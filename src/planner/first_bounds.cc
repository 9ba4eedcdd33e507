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
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

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

using model::Operation;
using scenario::Scenario;

// Time and memory of one layer's work.
struct LayerFigures {
  // `kernels`: the sum of its kernels' uncontended times. `span`: at least that, with the
  // collectives that kernels wait for. `trailing`: time from the last kernel until the next layer's
  // inputs are complete.
  struct Pass {
    Time kernels, span, trailing;
  };
  Pass forward, backward;  // recomputation included
  Bytes saved, recomputed, transient;
  bool continues_checkpoint = false;
};

// For a micro-batch: the figures of each distinct layer, and each layer's index among them.
struct WorkFigures {
  std::vector<LayerFigures> layers;
  std::vector<int> of_layer;
};

// The inputs of these figures besides the shared ones.
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
  std::vector<model::LayerKind> kinds;
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
    figures.kinds.push_back(layer.kind);
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

// Prices of kernels and of collectives inside layers, in the order of the works' passes.
class PassPricer {
 public:
  PassPricer(const Scenario& scenario, const std::vector<model::LayerWork>& works,
             cost::PriceCache& cache)
      : scenario_(scenario), works_(works), cache_(cache) {}

  Result<std::vector<LayerFigures>> Run() {
    for (const model::LayerWork& work : works_) {
      for (const auto* list : {&work.forward, &work.recompute, &work.backward}) Collect(*list);
    }
    auto prices = cache_.Price(program_, scenario_, works_);
    if (!prices) return tl::unexpected(std::move(prices.error()));
    prices_ = &*prices;
    std::vector<LayerFigures> figures;
    for (const model::LayerWork& work : works_) {
      LayerFigures& layer = figures.emplace_back();
      layer.forward = Walk({&work.forward});
      layer.backward = Walk({&work.recompute, &work.backward});
      layer.saved = work.BytesOf(model::Lifetime::kSaved);
      layer.recomputed = work.BytesOf(model::Lifetime::kRecomputed);
      layer.transient = scenario_.plan.parallelism.splits_backward
                            ? std::min(work.backward_transient, work.backward_input.transient)
                            : work.backward_transient;
      layer.continues_checkpoint = work.continues_checkpoint;
    }
    return figures;
  }

 private:
  // Collectives are priced. Messages between two ranks wait for both of them and are left out.
  bool IsPriced(const model::GroupOperation& operation) const {
    return scenario_.network == scenario::Fidelity::kAnalytic &&
           operation.collective != CollectiveKind::kSendRecv;
  }

  void Collect(const std::vector<Operation>& operations) {
    for (const Operation& operation : operations) {
      if (!operation.group) {
        program_.kernels.push_back(operation.kernel);
      } else if (IsPriced(*operation.group)) {
        program_.collectives.push_back({.kind = operation.group->collective,
                                        .communicator = GroupOf(operation.group->axes),
                                        .bytes = operation.group->bytes,
                                        .data_type = operation.group->type,
                                        .multiprocessors = operation.group->multiprocessors,
                                        .loads = operation.group->loads});
      }
    }
  }

  // The communicator of these axes, and the index of its stream among streams of collectives.
  program::Index GroupOf(parallel::AxisSet axes) {
    const auto known = std::find(axes_.begin(), axes_.end(), axes);
    const auto index = static_cast<program::Index>(known - axes_.begin());
    if (known != axes_.end()) return index;
    axes_.push_back(axes);
    const std::string name = parallel::NameOf(axes);
    const parallel::GroupLayout layout = plan::GridsOf(scenario_.plan).Layout(axes);
    program_.groups.push_back(
        {.name = name, .ranks = layout.Ranks(program_.rank), .layout = layout});
    program_.communicators.push_back({.name = name, .group = index});
    return index;
  }

  // An operation starts when its stream is free and its inputs are complete, which is no later than
  // with other work in its way. Collectives have one stream per set of axes. The kernels of a lane
  // share the device with all others, so their total time is at least their sum.
  LayerFigures::Pass Walk(std::initializer_list<const std::vector<Operation>*> lists) {
    LayerFigures::Pass pass;
    std::array<Time, 256> lanes{};
    std::vector<Time> streams(axes_.size());  // of collectives
    Time all_kernels, left;
    for (const std::vector<Operation>* list : lists) {
      std::vector<Time> ends(list->size());
      for (std::size_t i = 0; i < list->size(); ++i) {
        const Operation& operation = (*list)[i];
        Time begin;
        for (const int other : operation.waits) {
          begin = std::max(begin, ends[static_cast<std::size_t>(other)]);
        }
        if (operation.group) {
          // It begins when the kernels before it have ended.
          ends[i] = std::max(begin, lanes[0]);
          if (IsPriced(*operation.group)) {
            Time& stream = streams[GroupOf(operation.group->axes)];
            stream =
                std::max(stream, ends[i]) + prices_->collectives[next_collective_++].demand.alone();
            ends[i] = stream;
          }
          continue;
        }
        const cost::Demand& demand = prices_->kernels[next_kernel_++];
        Time& lane = lanes[operation.lane];
        lane = std::max(lane, begin) + demand.alone();
        ends[i] = lane;
        if (operation.lane == 0) pass.kernels += demand.alone();
        const double compute = demand.share[static_cast<std::size_t>(cost::Resource::kCompute)];
        if (compute >= 1) all_kernels += demand.work;
      }
      // Values left to the next kernel are complete when the collectives that made them have ended.
      for (const model::ValueUse& value : model::LeftToTheNextKernel(*list)) {
        for (std::size_t i = 0; i < list->size(); ++i) {
          const auto& group = (*list)[i].group;
          if (!group || !IsPriced(*group)) continue;
          if (group->target.value == value.value) left = std::max(left, ends[i]);
        }
      }
    }
    pass.span = std::max({pass.kernels, lanes[0], all_kernels});
    pass.trailing = std::max(left, pass.span) - pass.span;
    return pass;
  }

  const Scenario& scenario_;
  const std::vector<model::LayerWork>& works_;
  cost::PriceCache& cache_;
  program::Program program_;
  std::vector<parallel::AxisSet> axes_;  // by communicator
  const cost::Prices* prices_ = nullptr;
  std::size_t next_kernel_ = 0, next_collective_ = 0;
};

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
struct ChunkFigures {
  std::size_t first = 0, end = 0;  // layers
  Time forward, backward;
  Bytes saved;
  Bytes backward_peak;  // most that is alive while its backward runs
};

}  // namespace

class FirstBounds::Kept {
 public:
  Result<Bound> Of(const Scenario& scenario) {
    const auto works = WorksOf(scenario);
    if (!works) return tl::unexpected(works.error());
    const ParameterFigures& parameters = ParametersOf(scenario);
    CutChunks(scenario, **works, parameters);
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
    for (std::int64_t stage = 0; stage < axes.pipeline; ++stage) {
      Time own;
      StageParameters has;
      Bytes activations;
      const Waiting waiting = WaitingAt(scenario, stage);
      for (std::int64_t chunk = 0; chunk < axes.virtual_stages; ++chunk) {
        const ChunkFigures& figures = chunks_[ChunkAt(axes, stage, chunk)];
        own += figures.forward + figures.backward;
        const Bytes others = chunk == waiting.chunk ? waiting.saved : Bytes();
        activations = std::max(activations, figures.backward_peak + others);
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
    SayWhetherItFits(scenario, plan::GradientRanks(scenario.plan) > 1 ? 1 : 0, bound);
    return bound;
  }

  Result<std::vector<Passes>> PassesOf(const Scenario& scenario) {
    if (!CountsSpans(scenario)) return std::vector<Passes>();
    const auto works = WorksOf(scenario);
    if (!works) return tl::unexpected(works.error());
    CutChunks(scenario, **works, ParametersOf(scenario));
    std::vector<Passes> passes;
    for (const ChunkFigures& chunk : chunks_) passes.push_back({chunk.forward, chunk.backward});
    return passes;
  }

 private:
  Result<std::shared_ptr<const WorkFigures>> WorksOf(const Scenario& scenario) {
    const plan::Parallelism& axes = scenario.plan.parallelism;
    WorkKey key{.model = scenario.model,
                .cluster = scenario.cluster,
                .calibration = scenario.calibration,
                .framework = scenario.plan.data_parallel.framework,
                .torch = scenario.plan.software.torch,
                .ranks = axes.data * axes.tensor * axes.pipeline * axes.context,
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
    auto layers = PassPricer(scenario, works, prices_).Run();
    if (!layers) return tl::unexpected(std::move(layers.error()));
    return WorkFigures{*std::move(layers), model::WorkOfLayers(*scenario.model, options)};
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

  void CutChunks(const Scenario& scenario, const WorkFigures& works,
                 const ParameterFigures& parameters) {
    const plan::Parallelism& axes = scenario.plan.parallelism;
    const bool spans = CountsSpans(scenario);
    const bool offloads = scenario.plan.training.activation_offload;
    const auto all = static_cast<std::size_t>(axes.pipeline * axes.virtual_stages);
    chunks_.assign(all, {});
    const std::vector<int> begins = model::ChunkLayers(
        *scenario.model, axes.pipeline > 1 ? axes.stage_layers : std::vector<std::int64_t>());
    for (std::size_t c = 0; c < all; ++c) {
      ChunkFigures& chunk = chunks_[c];
      chunk.first = static_cast<std::size_t>(begins[c]);
      chunk.end = static_cast<std::size_t>(begins[c + 1]);
      Bytes again;  // recomputed of the layer's checkpoint so far
      for (std::size_t l = chunk.first; l < chunk.end; ++l) {
        const LayerFigures& layer = works.layers[static_cast<std::size_t>(works.of_layer[l])];
        chunk.forward += spans ? layer.forward.span : layer.forward.kernels;
        chunk.backward += spans ? layer.backward.span : layer.backward.kernels;
        // Values left by the last layer of a pass are waited for elsewhere.
        if (spans && l + 1 < chunk.end) chunk.forward += layer.forward.trailing;
        if (spans && l > chunk.first) chunk.backward += layer.backward.trailing;
        again = (layer.continues_checkpoint ? again : Bytes()) + layer.recomputed;
        if (offloads && parameters.kinds[l] == model::LayerKind::kBlock) continue;
        chunk.saved += layer.saved;
        chunk.backward_peak = std::max(chunk.backward_peak, chunk.saved + again + layer.transient);
      }
    }
    // Time before a stage's first pass and after its last one. With backward in two parts, a stage
    // computes weights' gradients until the next step's first pass.
    ends_.assign(static_cast<std::size_t>(axes.pipeline), Time());
    if (axes.splits_backward) return;
    for (std::size_t stage = 1; stage < ends_.size(); ++stage) {
      const ChunkFigures& before = chunks_[stage - 1];
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
    // The first backward is that of the last chunk; at that time most micro-batches wait.
    const std::int64_t count = scenario.plan.training.gradient_accumulation;
    const std::int64_t last = axes.virtual_stages - 1;
    const auto saved = [&](std::int64_t chunk) {
      return chunks_[ChunkAt(axes, stage, chunk)].saved;
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
      waiting.saved += most.forwards[at] * chunks_[at].saved;
      if (static_cast<std::size_t>(most.chunk) == at) waiting.chunk = chunk;
    }
    return waiting;
  }

  std::map<ParameterKey, ParameterFigures> parameters_;
  // Results of MostWaiting by schedule, stages, micro-batches and virtual stages.
  std::map<std::tuple<std::string, int, int, int>, std::vector<parallel::WaitingPasses>> waiting_;
  cost::PriceCache prices_;
  // Figures of the present plan.
  std::vector<ChunkFigures> chunks_;
  std::vector<Time> ends_;  // [stage]
};

FirstBounds::FirstBounds() : kept_(std::make_unique<Kept>()) {}
FirstBounds::~FirstBounds() = default;
FirstBounds::FirstBounds(FirstBounds&&) noexcept = default;
FirstBounds& FirstBounds::operator=(FirstBounds&&) noexcept = default;

Result<Bound> FirstBounds::Of(const Scenario& scenario) { return kept_->Of(scenario); }

Result<std::vector<FirstBounds::Passes>> FirstBounds::PassesOf(const Scenario& scenario) {
  return kept_->PassesOf(scenario);
}

}  // namespace stepcast::planner
