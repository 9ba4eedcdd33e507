#include "src/planner/bounds.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/expected.h"
#include "src/cost/price.h"
#include "src/cost/prices.h"
#include "src/forecast/memory_summary.h"
#include "src/forecast/shorter_step.h"
#include "src/lowering/host_offload.h"
#include "src/lowering/lowering.h"
#include "src/lowering/parameter_share.h"
#include "src/lowering/pipeline_stage.h"
#include "src/model/model.h"
#include "src/parallel/schedule_check.h"
#include "src/plan/framework_style.h"
#include "src/plan/pipeline.h"
#include "src/plan/rank_grid.h"
#include "src/program/program.h"

namespace stepcast::planner {
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

// 128 bits, as 32 hexadecimal digits, of everything that a program's times and memory depend on:
// streams, operations with their demands and uses, issue costs, events, buffers, and all orders.
// Names, labels and kernel identities do not count. Equal for equal contents; different contents
// practically never collide.
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

}  // namespace

using parallel::Task;

Time PipelineStepTime(const parallel::PipelineSchedule& schedule,
                      std::span<const ChunkWork> chunks) {
  std::vector<parallel::PassDurations> passes;
  for (const ChunkWork& chunk : chunks) {
    passes.push_back({.forward = chunk.forward.picoseconds(),
                      .backward_input = chunk.backward_input.picoseconds(),
                      .backward_weight = chunk.backward_weight.picoseconds(),
                      .backward = chunk.backward.picoseconds()});
  }
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
          peak = std::max(peak, saved + chunk.backward_peak);
        }
      }
    }
    STEPCAST_CHECK(saved == Bytes(), "at the end of a step, no operation may be unfinished");
  }
  return most;
}

void SayWhetherItFits(const scenario::Scenario& scenario, int communicators, Bound& bound) {
  const Bytes capacity = scenario.cluster->device_memory();
  const Bytes outside =
      forecast::OutsideAllocator(scenario, static_cast<std::size_t>(communicators));
  bound.needed = bound.memory + outside;
  bound.over = bound.needed - capacity;
  bound.fit_probability = forecast::FitProbabilityOf(scenario, bound.memory, outside);
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

namespace {

using scenario::Scenario;

// The model's part of one micro-batch, by stage and chunk of the pipeline.
struct MicroBatch {
  struct Stage {
    Bytes activations;  // most that are alive at once, temporaries of backward included
    StageParameters parameters;
  };
  std::vector<Stage> stages;
  std::vector<ChunkWork> chunks;  // in the order of the layers
};

Result<MicroBatch> WorkOut(const Scenario& scenario, const parallel::PipelineSchedule& schedule,
                           const std::vector<model::LayerWork>& works, cost::PriceCache& prices) {
  STEPCAST_TAKE(const auto figures, LayerFiguresOf(scenario, works, prices));
  const model::WorkOptions options = plan::WorkOptionsOf(scenario.plan);
  MicroBatch result;
  result.chunks.resize(static_cast<std::size_t>(parallel::Chunks(schedule)));
  for (int stage = 0; stage < scenario.plan.parallelism.pipeline; ++stage) {
    const lowering::PipelineStage part(scenario, schedule, stage);
    const std::vector<int> of_layers = part.WorkOfLayers(options);
    MicroBatch::Stage& needs = result.stages.emplace_back();
    needs.parameters = {lowering::ElementsOf(part.model()), model::FrozenBytes(part.model())};
    for (const lowering::PipelineStage::Chunk& chunk : part.chunks()) {
      const auto first = static_cast<std::size_t>(chunk.first_layer);
      const std::size_t layers = static_cast<std::size_t>(chunk.end_layer) - first;
      ChunkWork& work = result.chunks[static_cast<std::size_t>(chunk.number)] =
          WorkOfChunk(figures, std::span(part.model().layers).subspan(first, layers),
                      std::span(of_layers).subspan(first, layers), PassTimes::kKernels,
                      scenario.plan.training.activation_offload);
      needs.activations = std::max(needs.activations, work.backward_peak);
    }
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
    return micro_batch.stages[stage].parameters == micro_batch.stages[other].parameters &&
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

// Lower bound of a stage's memory.
Bytes MemoryOf(const Scenario& scenario, const MicroBatch::Stage& stage, Bytes in_flight) {
  const plan::GradientStore store = plan::StyleOf(scenario.plan.data_parallel.framework).gradients;
  const bool main = store == plan::GradientStore::kMainBuffers;
  // While one micro-batch is in flight, an earlier one has left its gradients. Before the first
  // backward has ended, only permanent buffers hold gradients. For gradients stored in other ways,
  // two micro-batches do not tell whether gradients are kept.
  const bool left = main || (scenario.plan.training.gradient_accumulation > 1 &&
                             store == plan::GradientStore::kTensors);
  return std::max(MemoryBeside(scenario, stage.parameters, stage.activations, left),
                  MemoryBeside(scenario, stage.parameters, in_flight,
                               main || KeepsGatheredGradients(scenario)));
}

}  // namespace

Result<Bounds::OfItsProgram> Bounds::OfPipeline(const Scenario& scenario, bool digest) {
  const parallel::PipelineSchedule schedule = plan::ScheduleOf(scenario.plan);
  const std::vector<model::LayerWork> works =
      model::BuildWork(*scenario.model, plan::WorkOptionsOf(scenario.plan));
  STEPCAST_TAKE(const auto micro_batch, WorkOut(scenario, schedule, works, prices()));
  STEPCAST_TAKE(const auto passes, PassesOf(scenario));
  std::vector<ChunkWork> chunks = micro_batch.chunks;
  for (std::size_t c = 0; c < passes.size(); ++c) {
    chunks[c].forward = std::max(chunks[c].forward, passes[c].forward);
    chunks[c].backward = std::max(chunks[c].backward, passes[c].backward);
  }
  OfItsProgram result;
  const auto raise = [&](Time step_time, Bytes memory, std::size_t communicators) {
    result.bound.step_time = std::max(result.bound.step_time, step_time);
    result.bound.memory = std::max(result.bound.memory, memory);
    SayWhetherItFits(scenario, static_cast<int>(communicators), result.bound);
  };
  const Time step_time = PipelineStepTime(schedule, chunks);
  const std::vector<Bytes> activations = ActivationsInFlight(schedule, chunks);
  Bytes memory;
  std::vector<std::size_t> speak;  // the stages that speak for others
  for (std::size_t stage = 0; stage < activations.size(); ++stage) {
    memory = std::max(memory, MemoryOf(scenario, micro_batch.stages[stage], activations[stage]));
    if (SpeaksForOthers(micro_batch, schedule, stage)) speak.push_back(stage);
  }
  raise(step_time, memory, plan::GradientRanks(scenario.plan) > 1 ? 1 : 0);
  // With nodes of several kinds, a stage's program depends on the kind that runs it.
  if (!result.bound.fits || !scenario.other_nodes.empty()) return result;
  // Programs are examined with as many micro-batches as fill and drain the pipeline, and a few
  // more.
  const std::int64_t fewer = MicroBatchesLookedAt(scenario.plan);
  std::optional<Scenario> shorter;
  if (fewer < scenario.plan.training.gradient_accumulation) {
    shorter = forecast::Shortened(scenario, {.micro_batches = fewer});
  }
  const Scenario& looked_at = shorter ? *shorter : scenario;
  const parallel::PipelineSchedule its_schedule = plan::ScheduleOf(looked_at.plan);
  std::vector<program::Program> programs;  // of the stages that speak for others
  // A forecast reports the memory of one rank, which may be one with the fewest communicators.
  std::size_t communicators = SIZE_MAX;
  Bytes peak;
  for (const std::size_t stage : speak) {
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
    const bool begins = speak[i] == StageOfFirstChunk(schedule);
    if (!(digest && analytic) && !begins) continue;
    STEPCAST_TAKE(const auto prices, this->prices().Price(programs[i], looked_at, works));
    if (begins) {
      raise(step_time + TimeBetweenSteps(programs[i], prices, analytic), Bytes(), communicators);
    }
    if (digest && analytic) result.digest += DigestOf(programs[i], {}, prices);
  }
  return result;
}

Result<Bounds::OfItsProgram> Bounds::LookAtProgram(const Scenario& scenario, bool digest) {
  // A single program says nothing about the stages that it waits for.
  if (scenario.plan.parallelism.pipeline > 1) return OfPipeline(scenario, digest);
  const auto [program, repeated] = LowerShort(scenario);
  STEPCAST_TAKE(const auto prices, cost::Price(program, scenario));
  const bool analytic = scenario.network == scenario::Fidelity::kAnalytic;
  const bool barrier = scenario.plan.training.step_barrier;
  OfItsProgram result;
  Bound& bound = result.bound;
  bound.step_time = std::max(UncontendedStepTime(program, prices, barrier, analytic, repeated),
                             ContendedComputeTime(program, prices, analytic, repeated));
  bound.memory = PeakInHostOrder(program, repeated);
  SayWhetherItFits(scenario, static_cast<int>(program.communicators.size()), bound);
  if (digest && analytic) result.digest = DigestOf(program, repeated, prices);
  return result;
}

}  // namespace stepcast::planner
