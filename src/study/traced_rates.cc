#include "src/study/traced_rates.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "src/plan/framework.h"

namespace stepcast::study {
namespace {

using calibration::KernelCosts;
using report::LearnedRate;
using validate::Activity;
using validate::RankStep;
using validate::StepEvent;

struct Part {
  const char* name;
  std::vector<Activity> activities;
};
// Optimizers run at the rate of device memory, as elementwise kernels do.
const Part kParts[] = {{"products", {Activity::kProduct}},
                       {"attention", {Activity::kAttention}},
                       {"memory-bound kernels", {Activity::kElementwise, Activity::kOptimizer}}};
constexpr const char* kLaunches = "launches";

Time Scaled(Time time, double factor) {
  return Picoseconds(std::llround(static_cast<double>(time.picoseconds()) * factor));
}

void AddKernels(const RankStep& step, const Part& part, std::int64_t& calls, Time& sum) {
  for (const StepEvent& event : step.events) {
    if (event.step != 0) continue;
    if (std::find(part.activities.begin(), part.activities.end(), event.activity) ==
        part.activities.end()) {
      continue;
    }
    ++calls;
    sum += event.end - event.begin;
  }
}

std::int64_t Launches(const RankStep& step) {
  return std::count_if(step.events.begin(), step.events.end(),
                       [](const StepEvent& event) { return event.step == 0; });
}

// The mean time between two launches in which the host does nothing else. Zero if launches were not
// traced. Longer ones are not launches: the host waits for a place in a stream's queue, or the
// program does other things.
Time LaunchTime(const RankStep& step) {
  constexpr std::int64_t kMostMedians = 10;
  std::vector<Time> launches;
  std::size_t unknown = 0;
  for (const StepEvent& event : step.events) {
    if (event.step != 0) continue;
    if (event.launched) {
      launches.push_back(*event.launched);
    } else {
      ++unknown;
    }
  }
  if (unknown > launches.size()) return Time();
  std::sort(launches.begin(), launches.end());
  std::vector<Time> gaps;
  for (std::size_t i = 1; i < launches.size(); ++i) {
    const Time begin = launches[i - 1], end = launches[i];
    const bool busy = std::any_of(step.host.begin(), step.host.end(), [&](const auto& span) {
      return span.begin < end && span.end > begin;
    });
    if (!busy && end > begin) gaps.push_back(end - begin);
  }
  if (gaps.empty()) return Time();
  std::sort(gaps.begin(), gaps.end());
  const Time most = kMostMedians * gaps[gaps.size() / 2];
  Time sum;
  std::int64_t count = 0;
  for (const Time gap : gaps) {
    if (gap > most) break;
    sum += gap;
    ++count;
  }
  return Picoseconds(sum.picoseconds() / count);
}

double Slower(double& efficiency, double factor) {
  const double wanted = efficiency / factor;
  efficiency = std::min(1.0, wanted);
  return wanted;
}

// Costs that are `products`, `attention`, `memory` and `launches` times as high. Returns the
// highest efficiency that this takes; above 1 it is cut.
double Scale(double products, double attention, double memory, double launches,
             KernelCosts& costs) {
  double most = 0;
  const auto slower = [&most](double& efficiency, double factor) {
    most = std::max(most, Slower(efficiency, factor));
  };
  const auto longer = [](auto& points, double factor) {
    for (auto& [size, time] : points) time = Scaled(time, factor);
  };
  for (auto& gemm : costs.gemm) slower(gemm.max_efficiency, products);
  for (auto& tiling : costs.gemm_tiling) {
    for (auto& tile : tiling.tiles) slower(tile.efficiency, products);
    tiling.start = Scaled(tiling.start, products);
  }
  for (auto* surfaces : {&costs.gemm_surface, &costs.gemm_input_gradient_surface,
                         &costs.gemm_weight_gradient_surface}) {
    for (auto& surface : *surfaces) {
      for (Time& time : surface.times) time = Scaled(time, products);
    }
  }
  slower(costs.attention_forward_efficiency, attention);
  slower(costs.attention_backward_efficiency, attention);
  for (auto& fused : costs.attention) {
    slower(fused.forward, attention);
    slower(fused.backward, attention);
    fused.forward_start = Scaled(fused.forward_start, attention);
  }
  for (auto* surfaces : {&costs.attention_forward_surface, &costs.attention_backward_surface}) {
    for (auto& surface : *surfaces) {
      for (auto& curve : surface) longer(curve.points, attention);
    }
  }
  slower(costs.memory_efficiency, memory);
  costs.start_latency = Scaled(costs.start_latency, memory);
  costs.token_sum_time = Scaled(costs.token_sum_time, memory);
  longer(costs.memory_curve, memory);
  longer(costs.optimizer_curve, memory);
  costs.launch = Scaled(costs.launch, launches);
  costs.collective_launch = Scaled(costs.collective_launch, launches);
  return most;
}

// The collectives of a step on a stream of launches, by axis.
std::map<std::string, std::vector<const StepEvent*>> CollectivesOf(const RankStep& step) {
  std::map<std::string, std::vector<const StepEvent*>> by_axis;
  for (const StepEvent& event : step.events) {
    if (event.step != 0 || event.activity != Activity::kCollective) continue;
    by_axis[event.name].push_back(&event);
  }
  for (auto& [axis, events] : by_axis) {
    std::stable_sort(events.begin(), events.end(), [](const StepEvent* a, const StepEvent* b) {
      return a->launched.value_or(a->begin) < b->launched.value_or(b->begin);
    });
  }
  return by_axis;
}

// The forecast's collectives of the described step, in the same order.
std::map<std::string, std::vector<const program::Collective*>> CollectivesOf(
    const forecast::Run& run, const forecast::ClassRun& own) {
  std::vector<std::pair<Time, program::Index>> issued;
  for (const program::OperationRecord& record : own.timeline.operations) {
    if (record.step != run.first_step) continue;
    if (own.program.step[record.instruction].opcode != program::Opcode::kCollective) continue;
    issued.emplace_back(record.issued, record.instruction);
  }
  std::sort(issued.begin(), issued.end());
  std::map<std::string, std::vector<const program::Collective*>> by_axis;
  for (const auto& [time, instruction] : issued) {
    const program::Collective& collective =
        own.program.collectives[own.program.step[instruction].operand];
    const program::Index group = own.program.communicators[collective.communicator].group;
    by_axis[own.program.groups[group].name].push_back(&collective);
  }
  return by_axis;
}

int NodesOf(const std::vector<int>& ranks, const topology::Cluster& cluster) {
  std::set<int> nodes;
  for (const int rank : ranks) nodes.insert(cluster.flat() ? rank : rank / cluster.gpus_per_node());
  return static_cast<int>(nodes.size());
}

class Tables {
 public:
  // Matches the collectives of a rank by their place on each axis.
  void Add(const RankStep& step, const forecast::Run& run, const topology::Cluster& cluster,
           std::vector<std::string>& notes) {
    const forecast::ClassRun& own = run.class_of(step.rank);
    const auto expected = CollectivesOf(run, own);
    for (const auto& [axis, events] : CollectivesOf(step)) {
      const auto found = expected.find(axis);
      const std::size_t count = found == expected.end() ? 0 : found->second.size();
      if (count != events.size()) {
        notes.push_back(
            fmt::format("the times of collectives on {} are not learned, because the trace of rank "
                        "{} has {}, but the forecast has {}. Compare the settings of data_parallel",
                        axis, step.rank, events.size(), count));
        continue;
      }
      for (std::size_t i = 0; i < count; ++i) {
        const program::Collective& collective = *found->second[i];
        const auto& group =
            own.program.groups[own.program.communicators[collective.communicator].group];
        const StepEvent& event = *events[i];
        times_[{collective.kind, static_cast<int>(group.ranks.size()),
                NodesOf(group.ranks, cluster)}][collective.bytes]
            .push_back(event.transfer.value_or(event.end - event.begin));
      }
    }
  }

  // Replaces tables of the same groups. A larger size takes no less time.
  void PutInto(std::vector<calibration::CollectiveTable>& tables,
               std::vector<report::LearnedTable>& learned) const {
    for (const auto& [group, sizes] : times_) {
      const auto [kind, ranks, nodes] = group;
      if (ranks < 2) continue;
      calibration::CollectiveTable table{
          .location = {}, .collective = kind, .ranks = ranks, .nodes = nodes, .points = {}};
      Time longest;
      for (const auto& [bytes, times] : sizes) {
        std::vector<Time> sorted = times;
        const auto median = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
        std::nth_element(sorted.begin(), median, sorted.end());
        longest = std::max(longest, *median);
        if (bytes > Bytes() && longest > Time()) table.points.emplace_back(bytes, longest);
      }
      if (table.points.empty()) continue;
      learned.push_back({kind, ranks, nodes, table.points.size()});
      const auto same = std::find_if(tables.begin(), tables.end(), [&](const auto& other) {
        return other.collective == kind && other.ranks == ranks && other.nodes == nodes;
      });
      if (same == tables.end()) {
        tables.push_back(std::move(table));
      } else {
        *same = std::move(table);
      }
    }
  }

 private:
  std::map<std::tuple<CollectiveKind, int, int>, std::map<Bytes, std::vector<Time>>> times_;
};

std::string Described(const report::LearnedRates& learned) {
  std::string text = fmt::format(
      "{}, step {} of {} rank{}; the measured time of kernels divided by the forecast time:",
      learned.source, learned.number, learned.ranks, learned.ranks == 1 ? "" : "s");
  for (const LearnedRate& rate : learned.rates) {
    text += fmt::format(" {} {:.3f}", rate.part, rate.factor());
  }
  return text;
}

}  // namespace

TracedRates LearnRates(const scenario::Scenario& scenario, const forecast::Run& run,
                       const std::string& source, TracedSteps traced) {
  TracedRates result;
  report::LearnedRates& learned = result.report;
  std::vector<RankStep>& measured = traced.ranks;
  learned.source = source;
  learned.number = traced.number;
  learned.notes = std::move(traced.notes);
  learned.ranks = measured.size();
  learned.forecast = run.forecast.step_time;
  validate::MarkTransfers(measured);

  Tables tables;
  LearnedRate launches{.part = kLaunches};
  std::vector<LearnedRate> rates;
  for (const Part& part : kParts) rates.push_back({.part = part.name});
  for (const RankStep& step : measured) {
    learned.traced = std::max(learned.traced, step.duration());
    const RankStep expected = validate::EventsOf(run, run.class_of(step.rank));
    for (std::size_t i = 0; i < rates.size(); ++i) {
      AddKernels(step, kParts[i], rates[i].traced_calls, rates[i].traced);
      AddKernels(expected, kParts[i], rates[i].forecast_calls, rates[i].forecast);
    }
    launches.traced += LaunchTime(step);
    launches.forecast += LaunchTime(expected);
    launches.traced_calls += Launches(step);
    launches.forecast_calls += Launches(expected);
    tables.Add(step, run, *scenario.cluster, learned.notes);
  }
  const auto ranks = static_cast<std::int64_t>(measured.size());
  launches.traced = Picoseconds(launches.traced.picoseconds() / ranks);
  launches.forecast = Picoseconds(launches.forecast.picoseconds() / ranks);
  rates.push_back(launches);
  std::map<std::string_view, double> factors;
  for (const LearnedRate& rate : rates) {
    factors[rate.part] = 1;
    if (rate.forecast == Time() && rate.traced == Time()) continue;
    if (rate.forecast == Time() || rate.traced == Time()) {
      learned.notes.push_back(
          fmt::format("rates of {} are not learned, because these operations are missing in the {}",
                      rate.part, rate.traced == Time() ? "trace" : "forecast"));
      continue;
    }
    factors[rate.part] = rate.factor();
    learned.rates.push_back(rate);
  }

  const calibration::Calibration& profile = *scenario.calibration;
  result.sections.name = profile.name;
  result.sections.gpus = profile.gpus;
  if (profile.kernels) {
    KernelCosts costs = profile.KernelsOf(scenario.plan.software.torch);
    const double most = Scale(factors[kParts[0].name], factors[kParts[1].name],
                              factors[kParts[2].name], factors[kLaunches], costs);
    if (most > 1) {
      learned.notes.push_back(fmt::format(
          "kernels in the trace reach {:.2f} times the peak rate of the GPU, so their efficiency "
          "is set to 1. Check that the trace and the scenario have the same GPU and precision",
          most));
    }
    result.sections.kernels = std::move(costs);
  }
  const Dispatch& dispatch = run.critical_class().prices.dispatch;
  if (dispatch != Dispatch()) {
    result.sections.dispatch = profile.dispatch;
    result.sections.dispatch[plan::Name(plan::LayersOf(scenario.plan))] = {
        .module = Scaled(dispatch.module, factors[kLaunches]),
        .autograd = Scaled(dispatch.autograd, factors[kLaunches])};
  }
  result.sections.collectives = profile.collectives;
  tables.PutInto(result.sections.collectives, learned.tables);
  result.sections.provenance = profile.provenance;
  result.sections.provenance.emplace_back("learned from", Described(learned));
  return result;
}

}  // namespace stepcast::study
