// Invariants of all legal plans, tested on random ones. STEPCAST_SCENARIOS is their number (default
// 500), and STEPCAST_SEED the first seed. Failures report the seed. Half of the plans have several
// axes besides data.

#include "tests/property/any_plan.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/bytes.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/forecast/forecast.h"
#include "src/lowering/lowering.h"
#include "src/program/program.h"
#include "src/program/validator.h"
#include "src/report/answers.h"
#include "src/scenario/load.h"
#include "src/scenario/plan_file.h"
#include "src/scenario/resolved_scenario.h"

namespace stepcast {
namespace {

using scenario::Scenario;

constexpr unsigned kMostSeconds = 20;
constexpr std::int64_t kMostMemory = std::int64_t{2} << 30;

// How often each invariant was tested, so that none is never tested.
struct Tried {
  int plans = 0, several_axes = 0, refused = 0, more_batches = 0, flows = 0, twins = 0;
  int written = 0;
};

std::vector<std::string> Violations(const Scenario& scenario) {
  std::vector<std::string> faults;
  for (const program::Program& own : lowering::Lower(scenario)) {
    for (const program::Violation& violation : program::Validate(own)) {
      faults.push_back(violation.message);
    }
  }
  return faults;
}

Time SumOf(const forecast::TimeBreakdown& time) {
  Time sum = time.exposed_communication + time.imbalance + time.pipeline_bubble + time.idle +
             time.allocator_flushes + time.learned;
  for (const Time part : time.phase) sum += part;
  return sum;
}

Bytes SumOf(const forecast::BytesByCategory& bytes) {
  Bytes sum;
  for (const Bytes part : bytes) sum += part;
  return sum;
}

class Laws {
 public:
  explicit Laws(Tried& tried) : tried_(tried) {}

  // The broken invariants, a sentence each.
  std::vector<std::string> BrokenBy(const PlanText& plan, std::uint64_t seed) {
    faults_.clear();
    const auto scenario = scenario::LoadText(plan.scenario, "plan.yaml", plan.settings, cache_);
    if (!scenario) {
      ++tried_.refused;
      CheckDiagnostics(scenario.error());
      return std::move(faults_);
    }
    for (std::string& message : Violations(*scenario)) faults_.push_back(std::move(message));
    if (!faults_.empty()) return std::move(faults_);
    const auto run = forecast::Simulate(*scenario);
    if (!run) {  // a profile without such kernels
      CheckDiagnostics(run.error());
      return std::move(faults_);
    }
    ++tried_.plans;
    tried_.several_axes += plan.axes > 1 ? 1 : 0;
    CheckSums(run->forecast);
    CheckBounds(*run);
    CheckSameAgain(*scenario, *run);
    CheckWrittenPlan(*scenario, run->forecast);
    CheckMoreBatches(plan, *scenario, run->forecast.step_time);
    constexpr std::uint64_t kEvery = 3;
    if (seed % kEvery == 0) CheckFlows(plan, run->forecast.step_time);
    if (seed % kEvery == 1) CheckTwins(plan);
    return std::move(faults_);
  }

 private:
  template <typename... Arguments>
  void Expect(bool holds, fmt::format_string<Arguments...> sentence, Arguments&&... arguments) {
    if (!holds) faults_.push_back(fmt::format(sentence, std::forward<Arguments>(arguments)...));
  }

  void CheckDiagnostics(const Diagnostics& diagnostics) {
    Expect(!diagnostics.empty(), "a plan is refused without a reason");
    for (const Diagnostic& diagnostic : diagnostics) {
      Expect(!diagnostic.code.empty() && !diagnostic.message.empty(),
             "a refusal without code or message: {}", Format({diagnostic}));
    }
  }

  void CheckSums(const forecast::Forecast& forecast) {
    const auto check_time = [&](const forecast::TimeBreakdown& time) {
      Expect(SumOf(time) == forecast.step_time, "parts of {} ps are a step of {} ps",
             SumOf(time).picoseconds(), forecast.step_time.picoseconds());
    };
    const auto check_memory = [&](const forecast::MemoryForecast& memory) {
      Expect(SumOf(memory.at_peak) == memory.peak, "categories of {} B are a peak of {} B",
             SumOf(memory.at_peak).count(), memory.peak.count());
      Expect(memory.reserved >= memory.peak, "reserved {} B are less than allocated {} B",
             memory.reserved.count(), memory.peak.count());
    };
    check_time(forecast.time);
    check_memory(forecast.memory);
    for (const forecast::ClassForecast& own : forecast.classes) {
      check_time(own.time);
      check_memory(own.memory);
    }
  }

  // A step takes at least the time of its products at the peak, and that of any communicator's
  // traffic at the rate of its links, since a communicator runs one collective at a time.
  void CheckBounds(const forecast::Run& run) {
    const Time step = run.forecast.step_time - run.forecast.time.learned;
    Expect(step >= run.forecast.time_at_peak, "a step of {} ps, {} ps at the devices' peak",
           step.picoseconds(), run.forecast.time_at_peak.picoseconds());
    for (const forecast::ClassRun& own : run.classes) {
      std::vector<Time> moved(own.program.communicators.size());
      for (const program::Instruction& instruction : own.program.step) {
        if (instruction.opcode != program::Opcode::kCollective) continue;
        const program::Collective& collective = own.program.collectives[instruction.operand];
        moved[collective.communicator] +=
            own.prices.collectives[instruction.operand].bandwidth_bound;
      }
      for (const Time bound : moved) {
        Expect(step >= bound, "a step of {} ps, {} ps of bytes over links", step.picoseconds(),
               bound.picoseconds());
      }
    }
  }

  // The same results without a cache, and the figures of a sweep's row, which simulates less of the
  // step.
  void CheckSameAgain(const Scenario& scenario, const forecast::Run& run) {
    const auto again = forecast::FiguresOf(scenario);
    Expect(again && report::SimulateJson(scenario, run.forecast, 0) ==
                        report::SimulateJson(scenario, *again, 0),
           "a second forecast is another");
    const auto row = forecaster_.Evaluate(scenario, forecast::Detail::kRange);
    if (!row) {
      faults_.emplace_back("a sweep has no row of it");
      return;
    }
    Expect(row->step_time == run.forecast.step_time, "a sweep's row says {} ps of a step of {} ps",
           row->step_time.picoseconds(), run.forecast.step_time.picoseconds());
    const forecast::MemoryForecast &own = row->memory, &whole = run.forecast.memory;
    Expect(
        own.peak == whole.peak && own.reserved == whole.reserved,
        "a sweep's row says {} B allocated and {} B reserved at the peak of a step with {} B and "
        "{} B",
        own.peak.count(), own.reserved.count(), whole.peak.count(), whole.reserved.count());
  }

  // A written plan is read back with the same results. Warnings may differ, since they are about
  // the keys as written.
  void CheckWrittenPlan(const Scenario& scenario, const forecast::Forecast& forecast) {
    const auto read = scenario::LoadText(scenario::ToJson(scenario::PlanOf(scenario.resolved)),
                                         "plan.json", {}, cache_);
    if (!read) {
      faults_.push_back("its plan.json is refused: " + Format(read.error()));
      return;
    }
    ++tried_.written;
    const auto again = forecast::FiguresOf(*read);
    if (!again) {
      faults_.push_back("its plan.json has no forecast: " + Format(again.error()));
      return;
    }
    const auto answer = [](Scenario of, const forecast::Forecast& figures) {
      of.warnings.clear();
      of.torch_assumed = of.nccl_assumed = of.attention_assumed = false;
      return report::SimulateJson(of, figures, 0);
    };
    const std::string before = answer(scenario, forecast), after = answer(*read, *again);
    Expect(before == after, "its plan.json is another plan:\n{}", FirstDifference(before, after));
  }

  // The first line that differs, in both texts.
  static std::string FirstDifference(const std::string& before, const std::string& after) {
    std::istringstream left(before), right(after);
    std::string was, is;
    do {
      std::getline(left, was);
      std::getline(right, is);
    } while (was == is && left && right);
    return fmt::format("  {}\n  {}", was, is);
  }

  // Twice as many micro-batches are no less work.
  void CheckMoreBatches(const PlanText& plan, const Scenario& scenario, Time step_time) {
    std::vector<std::string> settings = plan.settings;
    settings.push_back(fmt::format("training.gradient_accumulation={}",
                                   2 * scenario.plan.training.gradient_accumulation));
    const auto more = scenario::LoadText(plan.scenario, "plan.yaml", settings, cache_);
    if (!more) return;  // a schedule that requires another number
    const auto row = forecaster_.Evaluate(*more);
    if (!row) return;
    ++tried_.more_batches;
    Expect(row->step_time >= step_time, "twice the micro-batches take {} ps instead of {} ps",
           row->step_time.picoseconds(), step_time.picoseconds());
  }

  void CheckFlows(const PlanText& plan, Time analytic) {
    std::vector<std::string> settings = plan.settings;
    settings.emplace_back("cluster.network=flow");
    const auto flow = scenario::LoadText(plan.scenario, "plan.yaml", settings, cache_);
    if (!flow) return;
    const auto row = forecaster_.Evaluate(*flow);
    if (!row) return;
    ++tried_.flows;
    const double ratio = row->step_time / analytic;
    Expect(ratio >= kLeastOfFlow && ratio <= kMostOfFlow,
           "as flows {} ps, analytic {} ps: {:.3f} times", row->step_time.picoseconds(),
           analytic.picoseconds(), ratio);
  }

  // One GPU and two give consistent results, with a host.
  void CheckTwins(const PlanText& plan) {
    for (const int gpus : {1, 2}) {
      std::vector<std::string> settings = plan.settings;
      settings.push_back(fmt::format(
          "cluster={{topology: {{name: one node, node: {{gpu: h100-sxm, devices: {{gpu: {}, "
          "pcie_switch: 1, cpu: "
          "1}}, host: {{memory: 1 TiB, memory_bandwidth: 400 GB/s}}, links: [{{kind: pcie, from: "
          "gpu, to: pcie_switch, latency: 150 ns, bandwidth: 32 GB/s}}, {{kind: pcie, from: "
          "pcie_switch, to: cpu, latency: 150 ns, bandwidth: 32 GB/s}}]}}}}}}",
          gpus));
      settings.emplace_back("parallelism={}");
      const auto twin = scenario::LoadText(plan.scenario, "plan.yaml", settings, cache_);
      if (!twin) continue;
      ++tried_.twins;
      for (const std::string& message : Violations(*twin)) {
        faults_.push_back(fmt::format("on {} GPUs: {}", gpus, message));
      }
    }
  }

  // Analytic prices account for shared links by formulas, and flows by simulation. They differ if
  // groups on a link overlap only in part.
  static constexpr double kLeastOfFlow = 0.5, kMostOfFlow = 2;

  Tried& tried_;
  scenario::InputCache cache_;
  forecast::Forecaster forecaster_;
  std::vector<std::string> faults_;
};

std::int64_t MostMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  constexpr std::int64_t kKiB = 1024;
  return usage.ru_maxrss * kKiB;
}

TEST(AnyPlan, ObeysTheLaws) {
  const auto wanted = static_cast<int>(NumberFrom("STEPCAST_SCENARIOS", 500));
  Tried tried;
  Laws laws(tried);
  int broken = 0;
  for (std::uint64_t seed = NumberFrom("STEPCAST_SEED", 1); tried.plans < wanted; ++seed) {
    PlanText plan = PlanOf(seed);
    // Alternates, since the rules refuse more plans with several axes.
    if ((2 * tried.several_axes <= tried.plans) != (plan.axes > 1)) continue;
    plan.scenario = fmt::format("# seed {}\n{}", seed, plan.scenario);
    SayWhenItEnds(plan);
    alarm(kMostSeconds);
    const std::vector<std::string> faults = laws.BrokenBy(plan, seed);
    alarm(0);
    for (const std::string& fault : faults) ADD_FAILURE() << fault << "\n" << Said(plan);
    constexpr int kMostBroken = 20;
    if (!faults.empty() && ++broken == kMostBroken) break;
    ASSERT_LE(MostMemory(), kMostMemory) << Said(plan);
  }
  if (broken > 0) return;
  RecordProperty("plans", tried.plans);
  std::printf(
      "%d plans, %d with several axes; %d refused; more micro-batches %d, flows %d, on one or two "
      "GPUs %d, read from their plan.json %d\n",
      tried.plans, tried.several_axes, tried.refused, tried.more_batches, tried.flows, tried.twins,
      tried.written);
  EXPECT_GE(2 * tried.several_axes, tried.plans - 1);
  EXPECT_GE(3 * tried.more_batches, tried.plans);
  EXPECT_GE(8 * tried.flows, tried.plans);
  EXPECT_GE(8 * tried.twins, tried.plans);
}

}  // namespace
}  // namespace stepcast
