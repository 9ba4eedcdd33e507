#include "src/planner/bounds.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/cost/price.h"
#include "src/cost/prices.h"
#include "src/forecast/shorter_step.h"
#include "src/lowering/lowering.h"
#include "src/lowering/parameter_share.h"
#include "src/lowering/pipeline_stage.h"
#include "src/model/model.h"
#include "src/plan/framework_style.h"
#include "src/plan/pipeline.h"
#include "src/plan/rank_grid.h"
#include "src/program/program.h"

namespace stepcast::planner {
// 128 bits, as 32 hexadecimal digits, of everything that a program's times and memory depend on:
// streams, operations with their demands and uses, issue costs, events, buffers, and all orders.
// Names, labels and kernel identities do not count. Equal for equal contents; different contents
// practically never collide.
std::string DigestOf(const program::Program& program, const Repeated& repeated,
                     const cost::Prices& prices);

namespace {

using program::Instruction;

// Two chains of 64 bits with different odd factors. Each step is a bijection of the chain for a
// given number, and of the number for a given chain (multiplication by an odd number, and a
// rotation and shift that mix high bits into low ones). Contents that differ in one number differ
// in both chains.
class Mixer {
 public:
  void Add(std::uint64_t number) {
    one_ = std::rotl((one_ ^ number) * 0x9e3779b97f4a7c15, 29);
    one_ ^= one_ >> 32;
    other_ = std::rotl((other_ + number) * 0xc2b2ae3d27d4eb4f, 31);
    other_ ^= other_ >> 29;
  }
  void Add(std::int64_t number) { Add(static_cast<std::uint64_t>(number)); }
  void Add(std::uint32_t a, std::uint32_t b) { Add(std::uint64_t{a} << 32 | b); }
  void Add(Time time) { Add(time.picoseconds()); }
  void Add(Bytes bytes) { Add(bytes.count()); }
  void Add(double number) { Add(std::bit_cast<std::uint64_t>(number)); }
  void Add(const cost::Demand& demand) {
    Add(demand.latency);
    Add(demand.work);
    for (const double share : demand.share) Add(share);
    Add(static_cast<double>(demand.occupancy));
  }
  std::string Text() const { return fmt::format("{:016x}{:016x}", one_, other_); }

 private:
  std::uint64_t one_ = 0x243f6a8885a308d3, other_ = 0x13198a2e03707344;
};

void AddInstructions(const program::Program& program, const std::vector<Instruction>& instructions,
                     Mixer& mixer) {
  mixer.Add(std::uint64_t{instructions.size()});
  for (const Instruction& instruction : instructions) {
    mixer.Add(std::uint32_t{instruction.stream} << 16 |
                  static_cast<std::uint32_t>(instruction.opcode) << 8 |
                  static_cast<std::uint32_t>(instruction.phase),
              instruction.operand);
    mixer.Add(std::uint64_t{instruction.use_count});
    for (program::Index i = 0; i < instruction.use_count; ++i) {
      const program::BufferUse& use = program.uses[instruction.first_use + i];
      mixer.Add(use.buffer, use.write ? 1 : 0);
    }
  }
}

}  // namespace

std::string DigestOf(const program::Program& program, const Repeated& repeated,
                     const cost::Prices& prices) {
  Mixer mixer;
  for (const std::uint64_t number :
       {std::uint64_t{program.streams.size()}, std::uint64_t{program.events.size()},
        std::uint64_t{program.communicators.size()}, std::uint64_t{program.buffers.size()},
        std::uint64_t{program.kernels.size()}, std::uint64_t{program.collectives.size()},
        std::uint64_t{program.exchanges.size()}, std::uint64_t{program.copies.size()},
        std::uint64_t{program.host_tasks.size()}, std::uint64_t{repeated.first},
        std::uint64_t{repeated.last}, static_cast<std::uint64_t>(repeated.more)}) {
    mixer.Add(number);
  }
  for (const program::Buffer& buffer : program.buffers) {
    mixer.Add(buffer.size);
    mixer.Add(static_cast<std::uint64_t>(buffer.category));
  }
  for (std::size_t i = 0; i < program.kernels.size(); ++i) {
    mixer.Add(prices.kernels[i]);
    mixer.Add(prices.IssueOf(program.kernels[i]));
  }
  for (std::size_t i = 0; i < program.collectives.size(); ++i) {
    mixer.Add(prices.collectives[i].demand);
    mixer.Add(std::uint64_t{program.collectives[i].communicator});
  }
  for (std::size_t i = 0; i < program.exchanges.size(); ++i) {
    const program::Exchange& exchange = program.exchanges[i];
    mixer.Add(exchange.communicator, static_cast<std::uint32_t>(exchange.peers));
    for (std::size_t m = 0; m < exchange.messages.size(); ++m) {
      mixer.Add(static_cast<std::uint32_t>(exchange.messages[m].direction),
                static_cast<std::uint32_t>(exchange.messages[m].peer));
      mixer.Add(prices.exchanges[i][m].demand);
    }
  }
  for (const program::Communicator& communicator : program.communicators) {
    for (const int rank : program.groups[communicator.group].ranks) mixer.Add(std::int64_t{rank});
  }
  for (std::size_t i = 0; i < program.copies.size(); ++i) {
    mixer.Add(prices.copies[i]);
    mixer.Add(static_cast<std::uint64_t>(program.copies[i].direction));
  }
  for (const program::HostTask& task : program.host_tasks) mixer.Add(task.duration);
  mixer.Add(prices.issue_copy);
  mixer.Add(prices.issue_collective);
  AddInstructions(program, program.prologue, mixer);
  AddInstructions(program, program.step, mixer);
  return mixer.Text();
}

using parallel::Task;

Time PipelineStepTime(const parallel::PipelineSchedule& schedule,
                      std::span<const ChunkWork> chunks) {
  std::vector<parallel::PassDurations> passes;
  for (const ChunkWork& chunk : chunks) passes.push_back(chunk.passes);
  const parallel::ScheduleTiming timing = parallel::Time(schedule, passes);
  Time bound;
  for (std::size_t s = 0; s < schedule.stages.size(); ++s) {
    const std::vector<int>& own = schedule.stages[s].chunks;
    if (std::find(own.begin(), own.end(), 0) == own.end() || timing.spans[s].empty()) continue;
    bound = std::max(bound, Picoseconds(timing.spans[s].back().end));
  }
  return bound;
}

std::vector<Bytes> ActivationsInFlight(const parallel::PipelineSchedule& schedule,
                                       std::span<const ChunkWork> chunks) {
  std::vector<Bytes> most;
  for (const parallel::PipelineSchedule::Stage& stage : schedule.stages) {
    Bytes& peak = most.emplace_back();
    Bytes saved;
    for (const parallel::ScheduleEntry& entry : stage.entries) {
      std::vector<parallel::Action> actions = parallel::ActionsOf(entry);
      // If the passes of a pair take turns, the forward uses the memory that the backward frees.
      std::reverse(actions.begin(), actions.end());
      for (const parallel::Action& action : actions) {
        const ChunkWork& chunk = chunks[static_cast<std::size_t>(action.chunk)];
        if (action.task == Task::kForward) {
          saved += chunk.saved;
          peak = std::max(peak, saved);
        } else if (action.task != Task::kBackwardWeight) {
          // The second part of a backward keeps some of the saved tensors; this is neglected.
          saved -= chunk.saved;
          peak = std::max(peak, saved + chunk.backward);
        }
      }
    }
    STEPCAST_CHECK(saved == Bytes(), "a step ends with nothing in flight");
  }
  return most;
}

namespace {

using scenario::Scenario;

// The model's part of one micro-batch on one rank.
struct MicroBatch {
  Time kernels;  // all of the stage with most to do, each alone, one after the other
  struct Stage {
    Bytes activations;  // most that are alive at once, temporaries of backward included
    lowering::GroupElements parameters{};  // that are trained
    Bytes frozen;
  };
  std::vector<Stage> stages;      // of the pipeline
  std::vector<ChunkWork> chunks;  // likewise, in the order of the layers
};

// Everything that MicroBatch depends on; it must not use anything else of a scenario. Shared inputs
// are compared by identity while the key holds them.
struct PricedWorkKey {
  std::shared_ptr<const model::Model> model;
  std::shared_ptr<const topology::Cluster> cluster;
  std::shared_ptr<const calibration::Calibration> calibration;
  model::WorkOptions options;

  auto Tie() const { return std::tie(model, cluster, calibration, options); }
  friend bool operator<(const PricedWorkKey& a, const PricedWorkKey& b) {
    return a.Tie() < b.Tie();
  }
};

// The part of the key that has no order.
struct WorkSettings {
  plan::Training training;
  plan::Parallelism parallelism;
  plan::Software software;
  plan::Framework framework{};
  friend bool operator==(const WorkSettings&, const WorkSettings&) = default;
};

PricedWorkKey KeyOf(const Scenario& scenario) {
  return {scenario.model, scenario.cluster, scenario.calibration,
          plan::WorkOptionsOf(scenario.plan)};
}

WorkSettings SettingsOf(const Scenario& scenario) {
  WorkSettings settings{scenario.plan.training, scenario.plan.parallelism, scenario.plan.software,
                        scenario.plan.data_parallel.framework};
  settings.training.gradient_accumulation = 1;  // of these a micro-batch knows nothing
  settings.training.global_batch_size = 0;
  return settings;
}

// The passes of a layer: forward; backward with recomputation; and the two parts of a split
// backward, for inputs and for weights.
constexpr std::size_t kPasses = 4;
using PassTimes = std::array<Time, kPasses>;

// For each work, the uncontended time of its kernels in each pass, one after the other.
Result<std::vector<PassTimes>> TimesOf(const Scenario& scenario,
                                       const std::vector<model::LayerWork>& works) {
  const auto passes_of = [](const model::LayerWork& work) {
    return std::array<std::array<const std::vector<model::Operation>*, 2>, kPasses>{
        {{&work.forward, nullptr},
         {&work.recompute, &work.backward},
         {&work.backward_input.operations, nullptr},
         {&work.backward_weight.operations, nullptr}}};
  };
  // Collectives inside layers, and kernels of a second lane, run beside those of the first lane.
  const auto for_each_kernel = [&](const auto& pass, const auto& visit) {
    for (const std::vector<model::Operation>* operations : pass) {
      if (operations == nullptr) continue;
      for (const model::Operation& operation : *operations) {
        if (!operation.group && operation.lane == 0) visit(operation.kernel);
      }
    }
  };
  program::Program kernels;
  for (const model::LayerWork& work : works) {
    for (const auto& pass : passes_of(work)) {
      for_each_kernel(pass, [&](const Kernel& kernel) { kernels.kernels.push_back(kernel); });
    }
  }
  const auto prices = cost::Price(kernels, scenario, works);
  if (!prices) return tl::unexpected(prices.error());
  std::vector<PassTimes> times(works.size());
  std::size_t next = 0;
  for (std::size_t w = 0; w < works.size(); ++w) {
    const auto passes = passes_of(works[w]);
    for (std::size_t pass = 0; pass < kPasses; ++pass) {
      for_each_kernel(passes[pass],
                      [&](const Kernel&) { times[w][pass] += prices->kernels[next++].alone(); });
    }
  }
  return times;
}

Result<MicroBatch> WorkOut(const Scenario& scenario) {
  const model::WorkOptions options = plan::WorkOptionsOf(scenario.plan);
  const auto works = model::BuildWork(*scenario.model, options);
  const auto times = TimesOf(scenario, works);
  if (!times) return tl::unexpected(times.error());
  std::vector<Bytes> saved;
  for (const model::LayerWork& work : works) {
    saved.push_back(work.BytesOf(model::Lifetime::kSaved));
  }
  // Stages wait for each other, so no step is shorter than the work of the busiest stage. For one
  // micro-batch: the backward of a layer runs while the tensors saved by it and by the layers
  // before it exist. Those saved by blocks may be on the host, at least in part.
  const bool offloads = scenario.plan.training.activation_offload;
  MicroBatch result;
  const std::int64_t stages = scenario.plan.parallelism.pipeline;
  result.chunks.resize(static_cast<std::size_t>(stages * scenario.plan.parallelism.virtual_stages));
  const parallel::PipelineSchedule schedule = plan::ScheduleOf(scenario.plan);
  for (int stage = 0; stage < stages; ++stage) {
    const lowering::PipelineStage part(scenario, schedule, stage);
    const std::vector<int> of_layers = part.WorkOfLayers(options);
    MicroBatch::Stage& needs = result.stages.emplace_back(
        MicroBatch::Stage{.activations = {},
                          .parameters = lowering::ElementsOf(part.model()),
                          .frozen = model::FrozenBytes(part.model())});
    Time own;
    for (const lowering::PipelineStage::Chunk& chunk : part.chunks()) {
      ChunkWork& does = result.chunks[static_cast<std::size_t>(chunk.number)];
      PassTimes time{};
      Bytes again;  // recomputed of the layer's checkpoint so far
      for (int l = chunk.first_layer; l < chunk.end_layer; ++l) {
        const auto layer = static_cast<std::size_t>(l);
        const auto w = static_cast<std::size_t>(of_layers[layer]);
        for (std::size_t pass = 0; pass < kPasses; ++pass) time[pass] += (*times)[w][pass];
        again = (works[w].continues_checkpoint ? again : Bytes()) +
                works[w].BytesOf(model::Lifetime::kRecomputed);
        if (offloads && part.model().layers[layer].kind == model::LayerKind::kBlock) continue;
        does.saved += saved[w];
        // With backward in two parts, the first part runs beside all that is saved.
        const Bytes transient =
            options.splits_backward
                ? std::min(works[w].backward_transient, works[w].backward_input.transient)
                : works[w].backward_transient;
        does.backward = std::max(does.backward, does.saved + again + transient);
      }
      does.passes = {.forward = time[0].picoseconds(),
                     .backward_input = time[2].picoseconds(),
                     .backward_weight = time[3].picoseconds(),
                     .backward = time[1].picoseconds()};
      own += time[0] + time[1];
      needs.activations = std::max(needs.activations, does.backward);
    }
    result.kernels = std::max(result.kernels, own);
  }
  return result;
}

int FirstRankOf(const plan::Plan& plan, std::size_t stage) {
  const plan::RankLabels labels(plan);
  const auto& distinct = labels.distinct();
  const auto label = std::find_if(
      distinct.begin(), distinct.end(),
      [&](const plan::RankLabel& one) { return static_cast<std::size_t>(one.stage) == stage; });
  return labels.FirstRank(static_cast<std::size_t>(label - distinct.begin()));
}

// The number of micro-batches in the program used for a stage's bound: three groups, each as large
// as the schedule's groups or the pipeline's length, plus the plan's micro-batches beyond whole
// groups.
std::int64_t MicroBatchesLookedAt(const plan::Plan& plan) {
  const plan::Parallelism& axes = plan.parallelism;
  constexpr std::int64_t kGroups = 3;
  const auto group = std::max<std::int64_t>(axes.pipeline, axes.microbatch_group_size_per_vp_stage);
  return kGroups * group + plan.training.gradient_accumulation % group;
}

// Whether a stage represents others: the first and last stage do, and the earliest of the other
// stages with the same layers. Settings of data parallelism affect stages with the same layers
// alike, so two plans that differ only in such settings behave alike if the programs of these
// stages do.
bool SpeaksForOthers(const MicroBatch& micro_batch, const parallel::PipelineSchedule& schedule,
                     std::size_t stage) {
  if (stage == 0 || stage + 1 == schedule.stages.size()) return true;
  const auto alike = [&](std::size_t other) {
    const MicroBatch::Stage &one = micro_batch.stages[stage], &two = micro_batch.stages[other];
    return one.parameters == two.parameters && one.frozen == two.frozen &&
           std::equal(schedule.stages[stage].chunks.begin(), schedule.stages[stage].chunks.end(),
                      schedule.stages[other].chunks.begin(), schedule.stages[other].chunks.end(),
                      [&](int a, int b) {
                        return micro_batch.chunks[static_cast<std::size_t>(a)] ==
                               micro_batch.chunks[static_cast<std::size_t>(b)];
                      });
  };
  for (std::size_t other = 1; other < stage; ++other) {
    if (alike(other)) return false;
  }
  return true;
}

std::size_t StageOfFirstChunk(const parallel::PipelineSchedule& schedule) {
  const auto stage =
      std::find_if(schedule.stages.begin(), schedule.stages.end(),
                   [](const parallel::PipelineSchedule::Stage& one) {
                     return std::find(one.chunks.begin(), one.chunks.end(), 0) != one.chunks.end();
                   });
  return static_cast<std::size_t>(stage - schedule.stages.begin());
}

}  // namespace

struct Bounds::Kept {
  FirstBounds first;
  cost::PriceCache prices;
  std::optional<Scenario> shorter;  // of the present plan
  // Ordered by keys that compare quickly, then by the settings themselves.
  std::map<PricedWorkKey, std::vector<std::pair<WorkSettings, Result<MicroBatch>>>> works;
  // Valid until the next call.
  Result<const MicroBatch*> WorkOf(const Scenario& scenario);
  struct OfSchedule {
    Time step_time{};
    Bytes memory{};
    std::vector<std::size_t> speak{};  // the stages that speak for others
  };
  Result<OfSchedule> LookAtSchedule(const Scenario& scenario,
                                    const parallel::PipelineSchedule& schedule);
};

Bounds::Bounds() : kept_(std::make_unique<Kept>()) {}
Bounds::~Bounds() = default;
Bounds::Bounds(Bounds&&) noexcept = default;
Bounds& Bounds::operator=(Bounds&&) noexcept = default;

Result<const MicroBatch*> Bounds::Kept::WorkOf(const Scenario& scenario) {
  // A profile that is completed for each scenario has a new address each time, so its entries are
  // never found again.
  constexpr std::size_t kMostKept = 4096;
  if (works.size() >= kMostKept) works.clear();
  const WorkSettings settings = SettingsOf(scenario);
  auto& kept = works[KeyOf(scenario)];
  auto found = std::find_if(kept.begin(), kept.end(),
                            [&](const auto& entry) { return entry.first == settings; });
  if (found == kept.end()) found = kept.emplace(kept.end(), settings, WorkOut(scenario));
  if (!found->second) return tl::unexpected(found->second.error());
  return &*found->second;
}

Result<Bound> Bounds::OfKernels(const Scenario& scenario) {
  const auto found = kept_->WorkOf(scenario);
  if (!found) return tl::unexpected(found.error());
  const MicroBatch& micro_batch = **found;
  const std::int64_t count = scenario.plan.training.gradient_accumulation;
  Bound bound;
  bound.step_time = micro_batch.kernels * count;
  // For gradients stored in other ways, two micro-batches do not tell whether gradients are kept.
  const plan::GradientStore store = plan::StyleOf(scenario.plan.data_parallel.framework).gradients;
  const bool keeps = store == plan::GradientStore::kMainBuffers ||
                     (count > 1 && store == plan::GradientStore::kTensors);
  for (const MicroBatch::Stage& stage : micro_batch.stages) {
    bound.memory = std::max(bound.memory, MemoryBeside(scenario, {stage.parameters, stage.frozen},
                                                       stage.activations, keeps));
  }
  SayWhetherItFits(scenario, plan::GradientRanks(scenario.plan) > 1 ? 1 : 0, bound);
  return bound;
}

Result<Bounds::Kept::OfSchedule> Bounds::Kept::LookAtSchedule(
    const Scenario& scenario, const parallel::PipelineSchedule& schedule) {
  const auto found = WorkOf(scenario);
  if (!found) return tl::unexpected(found.error());
  const MicroBatch& micro_batch = **found;
  const auto passes = first.PassesOf(scenario);
  if (!passes) return tl::unexpected(passes.error());
  std::vector<ChunkWork> chunks = micro_batch.chunks;
  for (std::size_t c = 0; c < passes->size(); ++c) {
    parallel::PassDurations& own = chunks[c].passes;
    own.forward = std::max(own.forward, (*passes)[c].forward.picoseconds());
    own.backward = std::max(own.backward.value_or(0), (*passes)[c].backward.picoseconds());
  }
  OfSchedule result{.step_time = PipelineStepTime(schedule, chunks)};
  const std::vector<Bytes> activations = ActivationsInFlight(schedule, chunks);
  // Before the first backward has ended, only permanent buffers hold gradients.
  const bool keeps = plan::StyleOf(scenario.plan.data_parallel.framework).gradients ==
                         plan::GradientStore::kMainBuffers ||
                     KeepsGatheredGradients(scenario);
  for (std::size_t stage = 0; stage < activations.size(); ++stage) {
    const MicroBatch::Stage& has = micro_batch.stages[stage];
    const Bytes needs =
        MemoryBeside(scenario, {has.parameters, has.frozen}, activations[stage], keeps);
    result.memory = std::max(result.memory, needs);
    if (SpeaksForOthers(micro_batch, schedule, stage)) result.speak.push_back(stage);
  }
  return result;
}

Result<Bounds::OfItsProgram> Bounds::OfPipeline(const Scenario& scenario, Bound bound,
                                                bool digest) {
  const parallel::PipelineSchedule schedule = plan::ScheduleOf(scenario.plan);
  const auto found = kept_->LookAtSchedule(scenario, schedule);
  if (!found) return tl::unexpected(found.error());
  OfItsProgram result{.bound = bound, .digest = {}};
  const auto raise = [&](Time step_time, Bytes memory, std::size_t communicators) {
    result.bound.step_time = std::max(result.bound.step_time, step_time);
    result.bound.memory = std::max(result.bound.memory, memory);
    SayWhetherItFits(scenario, static_cast<int>(communicators), result.bound);
  };
  raise(found->step_time, found->memory, plan::GradientRanks(scenario.plan) > 1 ? 1 : 0);
  // With nodes of several kinds, a stage's program depends on the kind that runs it.
  if (!result.bound.fits || !scenario.other_nodes.empty()) return result;
  // Programs are examined with as many micro-batches as fill and drain the pipeline, and a few
  // more.
  const std::int64_t fewer = MicroBatchesLookedAt(scenario.plan);
  const Scenario& looked_at =
      fewer < scenario.plan.training.gradient_accumulation
          ? kept_->shorter.emplace(forecast::Shortened(scenario, {.micro_batches = fewer}))
          : scenario;
  const parallel::PipelineSchedule its_schedule = plan::ScheduleOf(looked_at.plan);
  const std::vector<model::LayerWork> works =
      model::BuildWork(*scenario.model, plan::WorkOptionsOf(scenario.plan));
  std::vector<program::Program> programs;  // of the stages that speak for others
  // A forecast reports the memory of one rank, which may be one with the fewest communicators.
  std::size_t communicators = SIZE_MAX;
  Bytes peak;
  for (const std::size_t stage : found->speak) {
    const int rank = FirstRankOf(scenario.plan, stage);
    const program::Program& own = programs.emplace_back(
        lowering::LowerRank(looked_at, {.rank = rank, .works = &works, .schedule = &its_schedule}));
    peak = std::max(peak, PeakInHostOrder(own));
    communicators = std::min(communicators, own.communicators.size());
  }
  raise(Time(), peak, communicators);
  if (!result.bound.fits) return result;
  const bool analytic = scenario.network == scenario::Fidelity::kAnalytic;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    // The stage that begins a step must have ended the step before.
    const bool begins = found->speak[i] == StageOfFirstChunk(schedule);
    if (!(digest && analytic) && !begins) continue;
    const auto prices = kept_->prices.Price(programs[i], looked_at, works);
    if (!prices) return tl::unexpected(prices.error());
    if (begins) {
      raise(found->step_time + TimeBetweenSteps(programs[i], *prices, analytic), Bytes(),
            communicators);
    }
    if (digest && analytic) result.digest += DigestOf(programs[i], {}, *prices);
  }
  return result;
}

Result<Bounds::OfItsProgram> Bounds::LookAtProgram(const Scenario& scenario, bool digest) {
  auto kernels = OfKernels(scenario);
  if (!kernels) return tl::unexpected(std::move(kernels.error()));
  // A single program says nothing about the stages that it waits for.
  if (scenario.plan.parallelism.pipeline > 1) return OfPipeline(scenario, *kernels, digest);
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
