#include "src/forecast/padded_lengths.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "src/base/check.h"
#include "src/forecast/shorter_step.h"
#include "src/lowering/lowering.h"
#include "src/plan/rank_grid.h"
#include "src/program/description.h"
#include "src/program/program.h"

namespace stepcast::forecast {
namespace {

constexpr std::size_t kSteps = 512;

// A distribution over kSteps + 1 equidistant points.
using Distribution = std::vector<double>;

// Adds a probability at a place between two points, split so that its mean is unchanged.
void Add(double place, double probability, Distribution& distribution) {
  const auto below = std::min(static_cast<std::size_t>(place), kSteps);
  const double part = place - static_cast<double>(below);
  distribution[below] += probability * (1 - part);
  if (part > 0) distribution[below + 1] += probability * part;
}

// The mean of values of which `of_a` have the mean of `a` and the rest that of `b`.
Distribution MeanOf(const Distribution& a, std::int64_t of_a, const Distribution& b,
                    std::int64_t of_b) {
  Distribution mean(kSteps + 1, 0);
  const double weight = static_cast<double>(of_a) / static_cast<double>(of_a + of_b);
  for (std::size_t i = 0; i <= kSteps; ++i) {
    if (a[i] == 0) continue;
    for (std::size_t j = 0; j <= kSteps; ++j) {
      if (b[j] == 0) continue;
      const double place =
          static_cast<double>(j) + weight * (static_cast<double>(i) - static_cast<double>(j));
      Add(std::clamp(place, 0.0, static_cast<double>(kSteps)), a[i] * b[j], mean);
    }
  }
  return mean;
}

Distribution MeanOfDraws(Distribution draw, std::int64_t draws) {
  Distribution mean;
  std::int64_t of_mean = 0;
  for (std::int64_t doubled = 1;; doubled *= 2) {
    if ((draws & doubled) != 0) {
      mean = of_mean == 0 ? draw : MeanOf(mean, of_mean, draw, doubled);
      of_mean += doubled;
    }
    if (of_mean == draws) return mean;
    draw = MeanOf(draw, doubled, draw, doubled);
  }
}

}  // namespace

std::vector<double> OfLargest(std::span<const double> probabilities, double draws) {
  std::vector<double> largest;
  double cumulated = 0, below = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    cumulated = i + 1 == probabilities.size() ? 1 : std::min(1.0, cumulated + probabilities[i]);
    const double up_to = std::pow(cumulated, draws);
    largest.push_back(up_to - below);
    below = up_to;
  }
  return largest;
}

double MeanOfLargest(std::span<const double> values, std::span<const double> probabilities,
                     std::int64_t draws, std::int64_t ranks) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const double range = *most - *least;
  if (range == 0) return *least;
  Distribution draw(kSteps + 1, 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    Add((values[i] - *least) / range * static_cast<double>(kSteps), probabilities[i], draw);
  }
  const std::vector<double> largest =
      OfLargest(MeanOfDraws(std::move(draw), draws), static_cast<double>(ranks));
  double place = 0;
  for (std::size_t i = 0; i <= kSteps; ++i) place += largest[i] * static_cast<double>(i);
  return *least + range * place / static_cast<double>(kSteps);
}

namespace {

scenario::Scenario OfLength(const scenario::Scenario& scenario, std::int64_t tokens) {
  scenario::Scenario alike = scenario;
  alike.plan.training.lengths.reset();
  alike.plan.training.sequence_length = tokens;
  return alike;
}

std::vector<double> ProbabilitiesOf(const model::SampleLengths& lengths) {
  double all = 0;
  for (const model::SampleLength& length : lengths) all += length.weight;
  std::vector<double> probabilities;
  for (const model::SampleLength& length : lengths) probabilities.push_back(length.weight / all);
  return probabilities;
}

// The weighted mean of `of` over the forecasts; exact if all values are equal.
template <typename Of>
double Mean(const std::vector<Forecast>& forecasts, const std::vector<double>& weights, Of of) {
  const auto first = static_cast<double>(of(forecasts.front()));
  double sum = 0;
  for (std::size_t i = 0; i < forecasts.size(); ++i) {
    sum += weights[i] * (static_cast<double>(of(forecasts[i])) - first);
  }
  return first + sum;
}

template <typename Of>
Time MeanTime(const std::vector<Forecast>& forecasts, const std::vector<double>& weights, Of of) {
  return Picoseconds(std::llround(Mean(
      forecasts, weights, [&](const Forecast& forecast) { return of(forecast).picoseconds(); })));
}

// The mean of a TimeBreakdown that `of` selects. Waiting for other ranks at the end of a step
// counts as imbalance.
template <typename Of>
TimeBreakdown MeanBreakdown(const std::vector<Forecast>& forecasts,
                            const std::vector<double>& weights, Time waiting, Time step, Of of) {
  TimeBreakdown mean;
  Time attributed;
  const auto add = [&](auto part) {
    part(mean) = MeanTime(forecasts, weights, [&](const Forecast& forecast) {
      TimeBreakdown own = of(forecast);
      return part(own);
    });
    attributed += part(mean);
  };
  for (int phase = 0; phase < program::kPhases; ++phase) {
    add([phase](TimeBreakdown& time) -> Time& { return time.phase[phase]; });
  }
  add([](TimeBreakdown& time) -> Time& { return time.exposed_communication; });
  add([](TimeBreakdown& time) -> Time& { return time.imbalance; });
  add([](TimeBreakdown& time) -> Time& { return time.pipeline_bubble; });
  add([](TimeBreakdown& time) -> Time& { return time.allocator_flushes; });
  add([](TimeBreakdown& time) -> Time& { return time.learned; });
  mean.imbalance += waiting;
  mean.idle = step - attributed - waiting;
  if (mean.idle < Time()) {  // means are rounded
    *std::max_element(mean.phase.begin(), mean.phase.end()) += mean.idle;
    mean.idle = Time();
  }
  return mean;
}

void MeanCollectives(const std::vector<Forecast>& forecasts, const std::vector<double>& weights,
                     std::vector<CollectiveSummary>& collectives) {
  for (const Forecast& own : forecasts) {
    STEPCAST_CHECK(own.collectives.size() == collectives.size(),
                   "the collectives of a step must not depend on the sequence length");
  }
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    collectives[i].wire_bytes_per_rank = Mean(forecasts, weights, [i](const Forecast& own) {
      return own.collectives[i].wire_bytes_per_rank;
    });
    collectives[i].total =
        MeanTime(forecasts, weights, [i](const Forecast& own) { return own.collectives[i].total; });
  }
}

}  // namespace

bool RanksMeetInMicroBatches(const scenario::Scenario& scenario) {
  // All micro-batches but the last take the same time.
  const program::Program program =
      std::move(lowering::Lower(Shortened(scenario, {.micro_batches = 2})).front());
  // A rank's position in its group is its replica.
  const parallel::GroupLayout replicas = plan::GridsOf(scenario.plan).Layout(parallel::kData);
  std::vector<bool> meet;  // by group
  for (const program::ProcessGroup& group : program.groups) {
    meet.push_back(std::any_of(group.ranks.begin(), group.ranks.end(), [&](int rank) {
      return replicas.Index(rank) != replicas.Index(group.ranks.front());
    }));
  }
  return std::any_of(
      program.step.begin(), program.step.end(), [&](const program::Instruction& instruction) {
        if (instruction.micro_batch > 0 || instruction.phase == program::Phase::kOptimizer) {
          return false;
        }
        const program::Index on = program::CommunicatorOf(program, instruction);
        return on != program::kNone && meet[program.communicators[on].group];
      });
}

scenario::Scenario PaddedLengths::Longest(const scenario::Scenario& scenario) {
  return OfLength(scenario, scenario.plan.training.lengths->histogram.back().tokens);
}

PaddedLengths::PaddedLengths(const scenario::Scenario& scenario) : scenario_(scenario) {
  const plan::Training& training = scenario.plan.training;
  STEPCAST_CHECK(training.has_padded_lengths(),
                 "the micro-batches of the step have different sequence lengths");
  const model::SampleLengths& lengths = training.lengths->histogram;
  std::vector<double> of_rank = ProbabilitiesOf(lengths), of_step = of_rank;
  if (training.lengths->batching == plan::Batching::kPadded) {
    const auto samples = static_cast<double>(training.micro_batch_size);
    const auto replicas = static_cast<double>(scenario.plan.parallelism.data);
    wait_in_micro_batches_ =
        training.gradient_accumulation == 1 || RanksMeetInMicroBatches(scenario);
    of_step = OfLargest(of_step, samples * (wait_in_micro_batches_ ? replicas : 1));
    of_rank = OfLargest(of_rank, samples);
  }
  constexpr double kNever = 1e-12;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (std::max(of_rank[i], of_step[i]) < kNever && i + 1 < lengths.size()) continue;
    scenarios_.push_back(OfLength(scenario, lengths[i].tokens));
    of_rank_.push_back(of_rank[i]);
    of_step_.push_back(of_step[i]);
  }
}

Time PaddedLengths::StepTime(const std::vector<Forecast>& forecasts) const {
  const plan::Training& training = scenario_.plan.training;
  if (wait_in_micro_batches_) {
    return MeanTime(forecasts, of_step_, [](const Forecast& own) { return own.step_time; });
  }
  std::vector<double> times;
  for (const Forecast& forecast : forecasts) {
    times.push_back(static_cast<double>(forecast.step_time.picoseconds()));
  }
  return Picoseconds(std::llround(MeanOfLargest(times, of_rank_, training.gradient_accumulation,
                                                scenario_.plan.parallelism.data)));
}

// Model FLOPs count samples at their own lengths. Padding counts as recomputed FLOPs.
MicroBatchFlops PaddedLengths::MeanFlops(
    const std::function<MicroBatchFlops(const scenario::Scenario&)>& flops_of) const {
  const model::SampleLengths& lengths = scenario_.plan.training.lengths->histogram;
  const std::vector<double> probabilities = ProbabilitiesOf(lengths);
  MicroBatchFlops mean;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    mean.once += probabilities[i] * flops_of(OfLength(scenario_, lengths[i].tokens)).once;
  }
  double padded = 0;
  for (std::size_t i = 0; i < scenarios_.size(); ++i) {
    const MicroBatchFlops own = flops_of(scenarios_[i]);
    padded += of_rank_[i] * own.once;
    mean.recomputed += of_rank_[i] * own.recomputed;
    mean.executed += of_rank_[i] * own.executed;
  }
  mean.recomputed += padded - mean.once;
  return mean;
}

Forecast PaddedLengths::Combine(
    const std::vector<Forecast>& forecasts,
    const std::function<MicroBatchFlops(const scenario::Scenario&)>& flops_of) const {
  STEPCAST_CHECK(forecasts.size() == scenarios_.size(),
                 "each sequence length must have a forecast");
  Forecast all = forecasts.back();  // memory, classes and collectives are those of the longest
  all.step_time = StepTime(forecasts);
  const Time mean =
      MeanTime(forecasts, of_step_, [](const Forecast& own) { return own.step_time; });
  const Time waiting = all.step_time - mean;
  all.time = MeanBreakdown(forecasts, of_step_, waiting, all.step_time,
                           [](const Forecast& own) { return own.time; });
  all.communication_total =
      MeanTime(forecasts, of_step_, [](const Forecast& own) { return own.communication_total; });
  MeanCollectives(forecasts, of_step_, all.collectives);
  all.wire_bytes_per_rank =
      Mean(forecasts, of_step_, [](const Forecast& own) { return own.wire_bytes_per_rank; });
  for (const Forecast& own : forecasts) {
    STEPCAST_CHECK(own.classes.size() == all.classes.size(),
                   "the classes of identical ranks must not depend on the sequence length");
  }
  for (std::size_t i = 0; i < all.classes.size(); ++i) {
    all.classes[i].time = MeanBreakdown(forecasts, of_step_, waiting, all.step_time,
                                        [i](const Forecast& own) { return own.classes[i].time; });
  }
  if (all.step_time_range) {
    const auto bound = [&](Time TimeRange::*side) {
      return waiting + MeanTime(forecasts, of_step_, [side](const Forecast& own) {
               return (*own.step_time_range).*side;
             });
    };
    all.step_time_range = TimeRange{bound(&TimeRange::low), bound(&TimeRange::high)};
  }
  if (all.learned) {
    all.learned->factor =
        Mean(forecasts, of_step_, [](const Forecast& own) { return own.learned->factor; });
    for (const Forecast& own : forecasts) {
      all.learned->known = std::min(all.learned->known, own.learned->known);
    }
  }
  if (all.unknown_host) {
    all.unknown_host->step_time =
        waiting + MeanTime(forecasts, of_step_, [](const Forecast& own) {
          return own.unknown_host ? own.unknown_host->step_time : own.step_time;
        });
  }
  LengthsForecast& lengths = all.lengths.emplace();
  lengths.sample_tokens = model::MeanLength(scenario_.plan.training.lengths->histogram);
  lengths.wait_in_micro_batches = wait_in_micro_batches_;
  for (std::size_t i = 0; i < forecasts.size(); ++i) {
    const std::int64_t tokens = scenarios_[i].plan.training.sequence_length;
    lengths.padded_tokens += of_rank_[i] * static_cast<double>(tokens);
    lengths.slowest_tokens += of_step_[i] * static_cast<double>(tokens);
    lengths.steps.push_back({.tokens = tokens,
                             .of_ranks = of_rank_[i],
                             .of_steps = of_step_[i],
                             .step_time = forecasts[i].step_time});
  }
  FillThroughput(scenario_, MeanFlops(flops_of), all);
  return all;
}

}  // namespace stepcast::forecast
