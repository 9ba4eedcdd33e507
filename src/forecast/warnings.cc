#include "src/forecast/warnings.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/cost/demand.h"
#include "src/cost/price.h"
#include "src/forecast/forecast.h"
#include "src/forecast/shorter_step.h"
#include "src/forecast/simulated_ranks.h"
#include "src/lowering/lowering.h"
#include "src/plan/framework_style.h"
#include "src/plan/plan.h"
#include "src/program/program.h"
#include "src/scenario/job_devices.h"

namespace stepcast::forecast {
namespace {

using scenario::CollectiveAlgorithm;
using scenario::Scenario;

// A setting that differs from its default, and the scenario with the default.
struct Choice {
  std::string said;  // "software.nccl 2.20"
  Scenario otherwise;
};

std::string Text(const Version& version) {
  return fmt::format("{}.{}", version.major, version.minor);
}

std::vector<Choice> ChoicesOf(const Scenario& scenario) {
  std::vector<Choice> choices;
  const auto add = [&](bool differs, std::string said, const auto& take_back) {
    if (!differs) return;
    Choice& choice = choices.emplace_back(Choice{std::move(said), scenario});
    take_back(choice.otherwise);
  };
  const auto by_default =
      scenario.cluster->flat() ? CollectiveAlgorithm::kRing : CollectiveAlgorithm::kAuto;
  add(scenario.algorithm != by_default,
      fmt::format("cluster.collective_algorithm {}", scenario::Name(scenario.algorithm)),
      [&](Scenario& other) { other.algorithm = by_default; });
  add(!scenario.nccl_algo.empty(), fmt::format("communication.nccl_algo {}", scenario.nccl_algo),
      [](Scenario& other) {
        other.nccl_algo.clear();
        other.nccl_overrides.algorithms = {};
      });
  add(!scenario.nccl_proto.empty(), fmt::format("communication.nccl_proto {}", scenario.nccl_proto),
      [](Scenario& other) {
        other.nccl_proto.clear();
        other.nccl_overrides.protocols = {};
      });
  add(scenario.nccl_collnet, "communication.nccl_collnet",
      [](Scenario& other) { other.nccl_collnet = false; });
  const plan::Software& software = scenario.plan.software;
  add(software.nccl != plan::kNewestNccl, fmt::format("software.nccl {}", Text(software.nccl)),
      [](Scenario& other) { other.plan.software.nccl = plan::kNewestNccl; });
  add(software.driver != plan::kNewestDriver,
      fmt::format("software.driver {}", Text(software.driver)),
      [](Scenario& other) { other.plan.software.driver = plan::kNewestDriver; });
  return choices;
}

bool Same(const cost::Demand& a, const cost::Demand& b) {
  return a.latency == b.latency && a.work == b.work && a.share == b.share;
}
bool Same(const cost::CollectivePrice& a, const cost::CollectivePrice& b) {
  return Same(a.demand, b.demand) && std::string_view(a.algorithm) == b.algorithm &&
         std::string_view(a.protocol) == b.protocol && a.channels == b.channels;
}
bool Same(const cost::MessagePrice& a, const cost::MessagePrice& b) {
  return Same(a.demand, b.demand);
}
template <typename T>
bool Same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const T& left, const T& right) { return Same(left, right); });
}

// The step's programs, by kind of node.
using Programs = std::vector<std::vector<program::Program>>;

// Prices of all operations, one program after another. None if the scenario has no price for them.
std::optional<std::vector<cost::Prices>> PricesOf(const Scenario& scenario,
                                                  const Programs& programs) {
  std::vector<cost::Prices> all;
  for (std::size_t kind = 0; kind < programs.size(); ++kind) {
    const Scenario own = scenario::OfKind(scenario, static_cast<int>(kind));
    for (const program::Program& program : programs[kind]) {
      auto prices = cost::Price(program, own);
      if (!prices) return std::nullopt;
      all.push_back(*std::move(prices));
    }
  }
  return all;
}

// Whether a link can be saturated when collectives share the cluster's links as flows.
bool LinksAreShared(const Scenario& step) {
  Scenario flow = step;
  flow.network = scenario::Fidelity::kFlow;
  const auto classes = PricedClassesOf(flow);
  if (!classes) return true;
  constexpr int kSteps = 2;
  const auto ranks = SimulatedRanksOf(flow, *classes, kSteps);
  return !ranks || !ranks->traffic || ranks->traffic->links > 0;
}

void WarnOfNetwork(const Scenario& step, Scenario& scenario) {
  if (scenario.network == scenario::Fidelity::kAnalytic || LinksAreShared(step)) return;
  scenario.warnings.push_back(
      scenario.network == scenario::Fidelity::kFlow
          ? "cluster.network flow has no effect in this scenario, because no link is saturated; "
            "with analytic, the result is the same"
          : "cluster.network message has little or no effect in this scenario, because no link is "
            "saturated; the simulation with analytic is faster");
}

}  // namespace

void WarnOfCommunicationSettings(Scenario& scenario) {
  std::vector<Choice> choices = ChoicesOf(scenario);
  std::erase_if(choices, [&](const Choice& choice) {
    std::string key = choice.said.substr(0, choice.said.find(' '));
    if (key.starts_with("communication.")) key.erase(0, key.find('.') + 1);
    return std::any_of(
        scenario.warnings.begin(), scenario.warnings.end(),
        [&](const std::string& warning) { return warning.find(key) != std::string::npos; });
  });
  if (scenario.plan.training.has_padded_lengths()) return;
  const bool analytic = scenario.network == scenario::Fidelity::kAnalytic;
  if (choices.empty() && analytic) return;
  const auto shorter = ShorterStepOf(scenario.plan);
  const Scenario step = shorter ? Shortened(scenario, *shorter) : scenario;
  WarnOfNetwork(step, scenario);
  if (choices.empty()) return;
  Programs programs;
  for (int kind = 0; kind < scenario::KindCount(step); ++kind) {
    programs.push_back(lowering::Lower(scenario::OfKind(step, kind)));
  }
  const auto own = PricesOf(scenario, programs);
  if (!own) return;
  for (const Choice& choice : choices) {
    const auto others = PricesOf(choice.otherwise, programs);
    if (!others) continue;
    const bool same =
        std::equal(own->begin(), own->end(), others->begin(), others->end(),
                   [](const cost::Prices& a, const cost::Prices& b) {
                     return Same(a.collectives, b.collectives) && Same(a.exchanges, b.exchanges);
                   });
    if (!same) continue;
    scenario.warnings.push_back(
        fmt::format("{} has no effect in this scenario, because the collectives of the step take "
                    "the same time without this setting",
                    choice.said));
  }
}

namespace {

using plan::MasterWeights;

struct OptimizerChoice {
  plan::Training training;
  const char* whose;
};

// The other common choice of users of the same framework.
std::optional<OptimizerChoice> OtherChoice(const plan::Plan& plan) {
  const plan::FrameworkTraits& traits = plan::TraitsOf(plan.data_parallel.framework);
  plan::Training other = plan.training;
  if (SizeOf(other.parameter_dtype) == SizeOf(DataType::kFp32)) return std::nullopt;
  if (other.optimizer == plan::Optimizer::kLamb) return std::nullopt;
  if (traits.of_pytorch) {
    other.master_weights = MasterWeights::kFp32;
    other.optimizer_state_dtype = DataType::kFp32;
    return OptimizerChoice{other, "the choice of Apex's FusedAdam with amp O2"};
  }
  if (other.parameter_dtype != DataType::kBf16) return std::nullopt;
  other.optimizer_state_dtype = DataType::kBf16;
  if (traits.textbook) {
    other.master_weights = MasterWeights::kNone;
    return OptimizerChoice{other, "the choice of PyTorch's optimizers"};
  }
  const bool precision_aware =
      plan::StyleOf(plan.data_parallel.framework).precision_aware_optimizer &&
      plan.data_parallel.zero_stage == 1 && other.optimizer == plan::Optimizer::kAdamW &&
      other.optimizer_implementation == plan::OptimizerImplementation::kFused &&
      !plan.data_parallel.optimizer_cpu_offload;
  if (!precision_aware) return std::nullopt;
  other.master_weights = MasterWeights::kFp16Remainder;
  return OptimizerChoice{other, "the choice of the precision-aware optimizer"};
}

std::string Text(const plan::Training& training) {
  return fmt::format("master_weights: {} and optimizer_state_dtype: {}",
                     plan::Name(training.master_weights), Name(training.optimizer_state_dtype));
}

}  // namespace

void WarnOfOptimizerStates(const MemoryForecast& memory, scenario::Scenario& scenario) {
  if (!scenario.optimizer_states_assumed) return;
  const plan::Training& training = scenario.plan.training;
  const std::optional<OptimizerChoice> other = OtherChoice(scenario.plan);
  if (!other) return;
  const Bytes own = memory.at_peak[static_cast<std::size_t>(program::Category::kOptimizer)];
  __extension__ using Wide = __int128;
  const Bytes others(static_cast<std::int64_t>(static_cast<Wide>(own.count()) *
                                               plan::OptimizerBytesPerParameter(other->training) /
                                               plan::OptimizerBytesPerParameter(training)));
  const bool would_fit = memory.reserved + memory.outside + (others - own) <= memory.capacity &&
                         (!memory.offloads() || memory.fits_host());
  if (own == Bytes() || would_fit == memory.fits) return;
  scenario.warnings.push_back(fmt::format(
      "training.master_weights is not set. With {} (the default of {}), optimizer states need {} "
      "per rank, and the plan {}. With {} ({}), optimizer states would need {}, and the plan {}. "
      "Set training.master_weights to the value that your job uses",
      Text(training), plan::Name(scenario.plan.data_parallel.framework), FormatBytes(own),
      memory.fits ? "fits" : "does not fit", Text(other->training), other->whose,
      FormatBytes(others), would_fit ? "would fit" : "would not fit"));
}

}  // namespace stepcast::forecast
