#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/cli/backends.h"
#include "src/cli/distributed_session.h"
#include "src/cli/hardware_commands.h"
#include "src/cli/rank_yield.h"
#include "src/lowering/execution_limits.h"
#include "src/lowering/lowering.h"
#include "src/messaging/launch.h"
#include "src/plan/rank_grid.h"
#include "src/program/description.h"
#include "src/program/validator.h"
#include "src/runtime/executor.h"
#include "src/runtime/job.h"
#include "src/runtime/watch.h"
#include "src/scenario/job_devices.h"
#include "src/scenario/load.h"
#include "src/validate/training_check.h"

namespace stepcast::cli {
namespace {

using messaging::Launcher;
using runtime::Attempt;
using runtime::Failure;
using runtime::Job;
using runtime::Watch;
using validate::RankRun;

// Everything known before the run.
struct Setting {
  scenario::Scenario scenario;
  std::unique_ptr<runtime::Backend> backend;
};

runtime::WatchOptions WatchOptionsOf(const HardwareOptions& options) {
  runtime::WatchOptions watch;
  if (const auto timeout = ReadTimeout(options.timeout)) watch.timeout = *timeout;
  return watch;
}

void Append(Diagnostics& all, Diagnostics some) { all.insert(all.end(), some.begin(), some.end()); }

Result<Setting> Prepare(const HardwareOptions& options, const messaging::Launch& launch,
                        MadeBackend backend) {
  Diagnostics faults = options.faults;
  if (const auto timeout = ReadTimeout(options.timeout); !timeout) {
    Append(faults, timeout.error());
  }
  Setting setting;
  if (!backend) Append(faults, backend.error());
  const bool on_host = backend && options.backend == "host";
  if (on_host && options.graph) {
    faults.push_back({"command.no-graph",
                      {"--graph", 0, 0},
                      "the host backend cannot capture and replay a step (--graph)",
                      "omit --graph, or use --backend cuda"});
  }
  if (on_host && options.caching_pool) {
    faults.push_back({"command.no-caching-pool",
                      {"--caching-pool", 0, 0},
                      "the host backend has no pool of device memory",
                      "omit --caching-pool, or use --backend cuda"});
  }
  std::vector<std::string> set = options.set;
  if (options.barrier) set.emplace_back("training.step_barrier=true");
  scenario::InputCache cache;
  auto scenario = scenario::Load(options.scenario, set, cache);
  if (!scenario) Append(faults, scenario.error());
  const auto refuse = [&faults](const char* code, const scenario::Scenario& scenario,
                                std::string message, std::string hint) {
    faults.push_back({code, scenario.cluster_location, std::move(message), std::move(hint)});
  };
  if (scenario) {
    constexpr const char* kNotExecutable = "launch.not-executable";
    for (const lowering::ExecutionLimit* limit : lowering::LimitsOf(scenario->plan)) {
      refuse(kNotExecutable, *scenario,
             fmt::format("stepcast can forecast this setting but cannot execute it: {}",
                         limit->message),
             limit->hint);
    }
    const auto* architecture = std::get_if<model::Architecture>(&scenario->model->source);
    if (architecture != nullptr &&
        std::any_of(architecture->kinds.begin(), architecture->kinds.end(),
                    [](const model::Architecture& kind) {
                      return model::IsRecurrent(kind.mixer) || model::IsRecurrent(kind.beside);
                    })) {
      refuse(kNotExecutable, *scenario,
             "stepcast can forecast recurrent layers but cannot execute them, because the backends "
             "have no kernels for recurrent layers",
             "use a model with attention in every layer");
    }
    // A message's first four bytes carry the values for the check.
    const auto* list = std::get_if<model::LayerList>(&scenario->model->source);
    if (options.check && list != nullptr && scenario->plan.parallelism.pipeline > 1 &&
        std::any_of(list->layers.begin(), list->layers.end(),
                    [](const model::ListedLayer& layer) { return layer.output < Bytes(4); })) {
      refuse(kNotExecutable, *scenario,
             "--check compares the data that stages send to each other, but the output of a layer "
             "is smaller than 4 B",
             "set the key 'output' of all layers to at least 4 B, or omit --check");
    }
  }
  if (!faults.empty()) return tl::unexpected(std::move(faults));
  setting.backend = std::move(*backend);
  setting.scenario = std::move(*scenario);

  const int devices = setting.scenario.cluster->devices();
  const bool launched = launch.launcher != Launcher::kNone;
  const int most = setting.backend->MaxLocalRanks();
  if (launched && launch.ranks != devices) {
    refuse("launch.wrong-number", setting.scenario,
           fmt::format("the plan needs {} devices, but {} {} started", devices, launch.ranks,
                       launch.ranks == 1 ? "rank was" : "ranks were"),
           fmt::format("start {} ranks, or change the cluster with --set", devices));
  } else if (!launched && devices > most) {
    refuse(
        "launch.wrong-number", setting.scenario,
        fmt::format("the plan needs {} devices, but the process has only {}", devices, most),
        "start one process for each device with mpirun or srun, or change the cluster with --set");
  }
  if (!faults.empty()) return tl::unexpected(std::move(faults));
  return setting;
}

// The scenario of the rank's kind of node.
scenario::Scenario KindOf(const Setting& setting, int rank) {
  return scenario::OfKind(setting.scenario, scenario::KindOfRank(setting.scenario, rank));
}

// The programs of all ranks: one for each kind of node and label.
struct Programs {
  std::vector<program::Program> classes;
  std::vector<std::size_t> of_rank;  // which entry each rank has
};

Programs ProgramsOf(const Setting& setting) {
  Programs programs;
  const scenario::Scenario& scenario = setting.scenario;
  const plan::RankLabels labels(scenario.plan);
  for (int kind = 0; kind < scenario::KindCount(scenario); ++kind) {
    for (program::Program& own : lowering::Lower(scenario::OfKind(scenario, kind))) {
      programs.classes.push_back(std::move(own));
    }
  }
  for (int rank = 0; rank < scenario.cluster->devices(); ++rank) {
    programs.of_rank.push_back(static_cast<std::size_t>(scenario::KindOfRank(scenario, rank)) *
                                   labels.distinct().size() +
                               labels.Of(rank));
  }
  return programs;
}

// The work of one rank, from its program to the gathered results (at rank 0).
Attempt<std::vector<RankYield>> RunRank(const HardwareOptions& options, const Setting& setting,
                                        const program::Program& program,
                                        const Programs& all_programs, Job& job, Watch& watch) {
  const runtime::Place& place = job.place();
  const bool barrier = setting.scenario.plan.training.step_barrier;
  runtime::DeviceOptions device_options;
  device_options.memory_limit = KindOf(setting, place.rank).cluster->device_memory();
  device_options.pool = !options.caching_pool;
  if (options.check) device_options.gradients = runtime::GradientRule::kSmallIntegers;
  std::string bytes;
  {
    auto device = setting.backend->MakeDevice(program, job, device_options);
    if (!device) return tl::unexpected(device.error());
    // Reports the failure before the device is destroyed, since its destructor waits for running
    // work, which may wait for partners.
    const auto fail = [&](const Failure& failure) { watch.Fail(place.rank, failure); };
    const runtime::ExecuteOptions execute_options{
        .warmup_steps = options.warmup,
        .measured_steps = validate::StepsToMeasure(options.steps, barrier),
        .barrier = barrier,
        .graph = options.graph};
    watch.SetStage(place.rank, runtime::Stage::kRunning);
    const auto measurement =
        runtime::Execute(program, **device, job, execute_options, watch.progress(place.rank));
    if (!measurement) fail(measurement.error());
    watch.SetStage(place.rank, runtime::Stage::kReporting);
    std::string weights;
    if (options.check) {
      auto read = validate::ReadWeights(program, **device);
      if (!read) fail(read.error());
      weights = std::move(*read);
    }
    bytes = ToBytes(place, *measurement, weights);
  }
  auto all = job.Gather(std::move(bytes));
  if (!all) return tl::unexpected(all.error());
  std::vector<RankYield> yields;
  for (std::size_t rank = 0; rank < all->size(); ++rank) {
    const std::size_t own = all_programs.of_rank[rank];
    auto yield = ToYield(
        (*all)[rank],
        {.rank = static_cast<int>(rank),
         .ranks = place.ranks,
         .instructions = all_programs.classes[own].step.size(),
         .steps = static_cast<std::size_t>(validate::StepsToMeasure(options.steps, barrier))});
    if (!yield) return tl::unexpected(yield.error());
    yield->run.program = own;
    yields.push_back(std::move(*yield));
  }
  return yields;
}

std::vector<RankYield> RunRankOrFail(const HardwareOptions& options, const Setting& setting,
                                     const program::Program& program, const Programs& all_programs,
                                     Job& job, Watch& watch) {
  return OrFail<std::vector<RankYield>>(watch, job.place().rank, [&] {
    return RunRank(options, setting, program, all_programs, job, watch);
  });
}

// Lengthens kernels of given time on a slow device. Real kernels are not changed.
void SlowDown(const std::vector<scenario::SlowDevice>& slow_devices, int rank,
              program::Program& program) {
  for (const scenario::SlowDevice& slow : slow_devices) {
    if (slow.rank != rank) continue;
    for (Kernel& kernel : program.kernels) {
      if (kernel.kind != KernelKind::kGiven || kernel.on_host) continue;
      kernel.given =
          Picoseconds(std::llround(static_cast<double>(kernel.given.picoseconds()) / slow.speed));
    }
  }
}

program::Program LowerFor(const Setting& setting, int rank) {
  program::Program program =
      lowering::LowerRank(KindOf(setting, rank), {.rank = rank, .data_flow = true});
  SlowDown(setting.scenario.slow_devices, rank, program);
  STEPCAST_CHECK(program::Validate(program).empty(),
                 "a step program must have neither data races nor memory leaks");
  return program;
}

// Text that all ranks must agree on, or they would wait for each other in vain: rank 0's program,
// since the ranks' own programs differ, and how often it runs.
std::string Fingerprint(const HardwareOptions& options, const program::Program& of_rank_0) {
  return fmt::format("{:x} {} {} {} {} {}", std::hash<std::string>()(program::Dump(of_rank_0)),
                     options.backend, options.steps, options.warmup, options.check, options.graph);
}

// An error if the plan did not train like plain data parallelism; otherwise a sentence about the
// comparison.
tl::expected<std::string, std::string> Check(const HardwareOptions& options, const Setting& setting,
                                             const std::vector<RankYield>& yields) {
  std::vector<std::string> weights;
  for (const RankYield& yield : yields) weights.push_back(yield.weights);
  const int steps =
      options.warmup +
      validate::StepsToMeasure(options.steps, setting.scenario.plan.training.step_barrier);
  const auto check =
      validate::CheckTraining(setting.scenario, weights, steps, runtime::DeviceOptions().seed);
  if (!check) return tl::unexpected(check.error().message);
  if (!check->missing.empty()) return tl::unexpected(check->missing);
  const std::string how =
      check->bound == 0 ? "bit by bit" : fmt::format("to within {:.2g}", check->bound);
  if (!check->right()) {
    return tl::unexpected(fmt::format(
        "{} of {} values differ from the values of plain data parallelism (comparison {}): {}",
        check->wrong, check->compared, how, check->example));
  }
  return fmt::format(
      "{} values on {} ranks after {} steps equal the values of plain data parallelism ({})",
      check->compared, yields.size(), steps, how);
}

Outcome Report(const HardwareOptions& options, const HardwareReport& report, const Setting& setting,
               std::vector<program::Program> programs, std::vector<RankYield> yields) {
  std::string checked;
  if (options.check) {
    const auto check = Check(options, setting, yields);
    if (!check) return Failed("check: " + check.error());
    checked = fmt::format("check: {}\n", *check);
  }
  std::vector<RankRun> runs;
  for (RankYield& yield : yields) runs.push_back(std::move(yield.run));
  const validate::Execution execution =
      validate::Summarise(setting.scenario, std::move(programs), std::move(runs),
                          setting.scenario.plan.training.step_barrier, setting.backend->name(),
                          setting.backend->Describe());
  Outcome outcome = report.write(setting.scenario, execution);
  outcome.messages += checked;
  return outcome;
}

Outcome RunThreads(const HardwareOptions& options, const HardwareReport& report,
                   const Setting& setting, const runtime::WatchOptions& watch_options) {
  if (auto end = report.prepare(setting.scenario)) return std::move(*end);
  const int ranks = setting.scenario.cluster->devices();
  Programs named = ProgramsOf(setting);
  std::vector<program::Program> programs;
  std::vector<const program::Program*> of_ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    programs.push_back(LowerFor(setting, rank));
    of_ranks.push_back(&named.classes[named.of_rank[static_cast<std::size_t>(rank)]]);
  }
  auto jobs = runtime::MakeThreadJobs(ranks);
  std::vector<runtime::Place> places;
  for (const auto& job : jobs) places.push_back(job->place());
  const auto watch = Watch::OverThreads(places, watch_options, SayAtTheEnd);
  watch->SetPrograms(std::move(of_ranks));

  std::vector<RankYield> yields;
  RunJobs(jobs, *watch, [&](Job& job) {
    const auto rank = static_cast<std::size_t>(job.place().rank);
    auto all = RunRankOrFail(options, setting, programs[rank], named, job, *watch);
    if (rank == 0) yields = std::move(all);
  });
  Outcome outcome = Report(options, report, setting, named.classes, std::move(yields));
  watch->Finish();
  return outcome;
}

Outcome RunProcesses(const HardwareOptions& options, const HardwareReport& report,
                     const messaging::Launch& launch, MadeBackend backend,
                     DistributedSession& session) {
  auto setting = Prepare(options, launch, std::move(backend));
  std::optional<Outcome> end;
  if (!setting) end = WrongInput(setting.error());
  if (!end && session.rank() == 0) end = report.prepare(setting->scenario);
  if (end = session.Agree(end); end) return std::move(*end);

  const Programs named = ProgramsOf(*setting);
  session.SetPrograms(named.classes, named.of_rank);
  const program::Program program = LowerFor(*setting, session.rank());
  const std::string other = session.FirstThatDiffers(
      Fingerprint(options, session.rank() == 0 ? program : LowerFor(*setting, 0)));
  if (!other.empty()) {
    end = WrongInput("launch.different-plans", options.scenario,
                     fmt::format("{} and rank 0 have different plans or different options", other),
                     "use the same scenario, the same files and the same options on all ranks");
  }
  if (end = session.Agree(end); end) return std::move(*end);
  auto yields = RunRankOrFail(options, *setting, program, named, session.job(), session.watch());
  if (session.rank() != 0) return {};
  return Report(options, report, *setting, named.classes, std::move(yields));
}

}  // namespace

Outcome RunOnHardware(const HardwareOptions& options, const HardwareReport& report) {
  auto launch = messaging::FindLaunch([](const char* name) { return std::getenv(name); });
  if (!launch) return WrongInput(launch.error());
  const runtime::WatchOptions watch_options = WatchOptionsOf(options);
  MadeBackend backend = MakeBackend(options.backend);  // before threads start
  if (launch->launcher == Launcher::kNone) {
    const auto setting = Prepare(options, *launch, std::move(backend));
    if (!setting) return WrongInput(setting.error());
    return RunThreads(options, report, *setting, watch_options);
  }
  return RunInSession(*launch, watch_options, [&](DistributedSession& session) {
    return RunProcesses(options, report, *launch, std::move(backend), session);
  });
}

}  // namespace stepcast::cli
