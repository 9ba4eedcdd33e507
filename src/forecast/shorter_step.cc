#include "src/forecast/shorter_step.h"

#include <algorithm>
#include <utility>

#include "src/plan/pipeline.h"
#include "src/program/description.h"
#include "src/program/timeline.h"
#include "src/simulate/compiled_program.h"

namespace stepcast::forecast {
namespace {

using program::Index;
using program::kNone;

// How a shorter step is chosen. It has `settling` periods in which its pipeline settles, one
// reference period, and `periods` more that are compared with their predecessor. It is tried only
// if it has at most the fraction `most_of_step` of the longer step's micro-batches.
struct Looked {
  int periods = 0, settling = 0;
  double most_of_step = 0;
};

Looked LookedAt(int period) {
  // More settling helps hardly more steps: of 2,000 random plans with 24 to 88 micro-batches, 1,743
  // repeat after 3 periods, and 1,740 after 8, for which more plans are too short.
  if (period == 1) return {.periods = 3, .settling = 3, .most_of_step = 0.6};
  // A group of interleaved micro-batches is long enough to settle in. Only about half of such steps
  // repeat themselves, and a failed try costs time.
  return {.periods = 2, .settling = 0, .most_of_step = 0.4};
}

// The micro-batches after which the schedule repeats itself, if it does. Interleaved micro-batches
// come in groups.
int PeriodOf(const plan::Parallelism& axes) {
  if (axes.pipeline == 1 || axes.schedule != "interleaved_1f1b") return 1;
  const auto group = static_cast<int>(axes.microbatch_group_size_per_vp_stage);
  return group == 0 ? static_cast<int>(axes.pipeline) : group;
}

plan::Plan WithMicroBatches(plan::Plan plan, std::int64_t micro_batches) {
  plan::Training& training = plan.training;
  training.global_batch_size =
      training.global_batch_size / training.gradient_accumulation * micro_batches;
  training.gradient_accumulation = micro_batches;
  return plan;
}

int Shortest(const std::vector<parallel::MicroBatchRange>& ranges) {
  return std::min_element(ranges.begin(), ranges.end(),
                          [](const auto& a, const auto& b) { return a.size() < b.size(); })
      ->size();
}

// The last operation of each compared micro-batch of a stage.
std::vector<Index> EndsOfMicroBatches(const program::Program& program,
                                      const parallel::MicroBatchRange& range) {
  std::vector<Index> ends(static_cast<std::size_t>(range.size()), 0);
  for (Index i = 0; i < program.step.size(); ++i) {
    const program::Instruction& instruction = program.step[i];
    const int micro_batch = instruction.micro_batch;
    if (!program::IsLaunched(instruction.opcode) || micro_batch < range.first ||
        micro_batch >= range.end) {
      continue;
    }
    ends[static_cast<std::size_t>(micro_batch - range.first)] = i;
  }
  return ends;
}

// The last operation between two of these ends on each stream: [end but the first][stream].
std::vector<Index> LastOperations(const program::Program& program, std::span<const Index> ends) {
  const std::size_t streams = program.streams.size();
  std::vector<Index> last((ends.size() - 1) * streams, kNone);
  std::size_t row = 0;
  for (Index i = ends.front() + 1; i <= ends.back(); ++i) {
    while (i > ends[row + 1]) ++row;
    const program::Instruction& instruction = program.step[i];
    if (program::IsLaunched(instruction.opcode)) last[row * streams + instruction.stream] = i;
  }
  return last;
}

// A host's work in one period.
struct PeriodIssue {
  Time time;                           // if it never waits
  std::vector<std::int64_t> launches;  // by stream
};

PeriodIssue IssueOf(const PricedClass& own, std::span<const Index> ends, int period) {
  const program::Program& program = own.program;
  PeriodIssue issue{.time = {}, .launches = std::vector<std::int64_t>(program.streams.size(), 0)};
  for (Index i = ends.front() + 1; i <= ends[static_cast<std::size_t>(period)]; ++i) {
    const program::Instruction& instruction = program.step[i];
    issue.time += own.prices.IssueOf(program, instruction);
    if (program::IsLaunched(instruction.opcode)) ++issue.launches[instruction.stream];
  }
  return issue;
}

// Checks the classes of a run one by one.
class PeriodSearch {
 public:
  explicit PeriodSearch(std::uint32_t step) : step_(step) {}

  enum class Found : std::uint8_t { kNothing, kOnDevice, kOnHost };

  // Whether these operations repeat with the period of those seen so far: no; all times but the
  // issue; or all times.
  Found Look(const std::vector<program::OperationRecord>& records,
             const std::vector<Index>& operations, std::size_t period) {
    const auto found = RecordsOf(records, operations);
    bool host = true;
    std::optional<Time> begin;
    for (std::size_t i = 0; i + period < operations.size(); ++i) {
      const program::OperationRecord *one = found[i], *next = found[i + period];
      if (one == nullptr && next == nullptr) continue;
      if (one == nullptr || next == nullptr) return Found::kNothing;
      const Time between = next->end - one->end;
      if (begins_.empty() && !begin) length_ = between;
      if (between != length_ || between <= Time() || next->start - one->start != between ||
          next->ready - one->ready != between) {
        return Found::kNothing;
      }
      host = host && next->issued - one->issued == between;
      begin = one->end;
    }
    if (!begin) return Found::kNothing;
    begins_.push_back(*begin);
    return host ? Found::kOnHost : Found::kOnDevice;
  }

  Time length() const { return length_; }
  StepPeriod Take() && { return {.length = length_, .begins = std::move(begins_)}; }

 private:
  // By operation; null if there is no record.
  std::vector<const program::OperationRecord*> RecordsOf(
      const std::vector<program::OperationRecord>& records,
      const std::vector<Index>& operations) const {
    std::vector<std::pair<Index, std::size_t>> places;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      if (operations[i] != kNone) places.emplace_back(operations[i], i);
    }
    std::sort(places.begin(), places.end());
    std::vector<const program::OperationRecord*> found(operations.size(), nullptr);
    for (const program::OperationRecord& record : records) {
      if (record.step != step_) continue;
      const auto place = std::lower_bound(places.begin(), places.end(),
                                          std::pair(record.instruction, std::size_t{0}));
      if (place != places.end() && place->first == record.instruction) {
        found[place->second] = &record;
      }
    }
    return found;
  }

  std::uint32_t step_;
  Time length_;
  std::vector<Time> begins_;
};

}  // namespace

std::optional<ShorterStep> ShorterStepOf(const plan::Plan& plan) {
  const plan::Parallelism& axes = plan.parallelism;
  if (axes.listed != nullptr) return std::nullopt;
  const std::int64_t whole = plan.training.gradient_accumulation;
  const int period = PeriodOf(axes);
  const Looked looked = LookedAt(period);
  const auto most = static_cast<std::int64_t>(looked.most_of_step * static_cast<double>(whole));
  const int wanted = (looked.periods + 1 + looked.settling) * period;
  // The last group of micro-batches has the size of the whole step's last group. The number of
  // micro-batches fills the pipeline in any schedule.
  const auto filling = axes.pipeline == 1 ? 0 : 2 * static_cast<int>(axes.pipeline);
  std::int64_t micro_batches =
      whole % period + std::max(wanted, (filling + period - 1) / period * period);
  // If the schedule repeats, adding the missing micro-batches completes it.
  for (int builds = 0; builds < 2 && micro_batches <= most; ++builds) {
    auto ranges = parallel::RepeatedMicroBatches(
        plan::ScheduleOf(WithMicroBatches(plan, micro_batches)), period);
    const int missing = wanted - Shortest(ranges);
    if (missing > 0) {
      micro_batches += (missing + period - 1) / period * period;
      continue;
    }
    for (parallel::MicroBatchRange& range : ranges) {
      // The first period begins at the end of the micro-batch before it. Interleaved micro-batches
      // have none to spare, so the first piece of their first period is not compared.
      range.first = range.end - (looked.periods + 1) * period - (period == 1 ? 1 : 0);
    }
    return ShorterStep{.micro_batches = micro_batches,
                       .period = period,
                       .left_out = (whole - micro_batches) / period,
                       .repeated = std::move(ranges)};
  }
  return std::nullopt;
}

scenario::Scenario Shortened(const scenario::Scenario& scenario, const ShorterStep& step) {
  scenario::Scenario shorter = scenario;
  shorter.plan = WithMicroBatches(std::move(shorter.plan), step.micro_batches);
  return shorter;
}

RepeatedOperations::RepeatedOperations(const std::vector<PricedClass>& priced,
                                       const ShorterStep& step)
    : period_(step.period), left_out_(step.left_out) {
  for (const PricedClass& own : priced) {
    const program::Program& program = own.program;
    const std::vector<Index>& ends = ends_.emplace_back(
        EndsOfMicroBatches(program, step.repeated[static_cast<std::size_t>(own.label.stage)]));
    of_.push_back(LastOperations(program, ends));
  }
}

program::LongerStep RepeatedOperations::LongerOf(std::size_t priced) const {
  const std::vector<Index>& ends = ends_[priced];
  const auto period = static_cast<std::size_t>(period_);
  const std::size_t looked_at = (ends.size() - 1) / period * period;  // micro-batches
  return {.begin = ends[ends.size() - 1 - period] + 1,
          .end = ends.back() + 1,
          .micro_batches = period_,
          .more = left_out_,
          .first_begin = ends[ends.size() - 1 - looked_at] + 1};
}

// Whether the shorter step's host affects its device in the same way as the longer step's.
bool HostIsAlike(const ShorterRun& shorter, const ShorterStep& step, std::size_t rank_class,
                 std::size_t priced, bool host_repeats, Time period) {
  const simulate::HostInfluence influence = shorter.simulator.host_influence(rank_class);
  const Time start = StartOf(shorter.run.ends, shorter.run.steady);
  const PeriodIssue issue =
      IssueOf(shorter.priced[priced], shorter.operations.EndsOf(priced), step.period);
  if (host_repeats) {
    // A host waits for room after a fixed number of launches. It waits at the same ones after the
    // omitted micro-batches if their launches are a multiple of that number.
    return influence.waited_for_room <= start ||
           std::all_of(issue.launches.begin(), issue.launches.end(), [&](std::int64_t launches) {
             return launches * step.left_out % simulate::kLaunchBlock == 0;
           });
  }
  // The host's lead varies between periods, or grows. That matters if the device waited for the
  // host, if a faster device will, and for memory.
  return !shorter.needs_hosts && influence.held_up_by_issue <= start && issue.time <= period;
}

// Whether all steps from the described one on take equally long.
bool StepsRepeat(const SteadyRun& run, bool barrier) {
  const SteadyState& steady = run.steady;
  if (steady.count != 1) return false;
  if (barrier || steady.start) return true;
  const auto interval = [&](std::uint32_t step) { return run.ends[step] - run.ends[step - 1]; };
  return steady.last > 1 && interval(steady.last) == interval(steady.last - 1);
}

std::optional<StepPeriod> PeriodOf(const ShorterRun& shorter, const ShorterStep& step) {
  const SteadyRun& run = shorter.run;
  if (!StepsRepeat(run, shorter.barrier)) return std::nullopt;
  PeriodSearch search(run.steady.last);
  for (std::size_t c = 0; c < shorter.ranks.classes.size(); ++c) {
    const auto of = static_cast<std::size_t>(
        std::find_if(shorter.priced.begin(), shorter.priced.end(),
                     [&](const PricedClass& own) {
                       return &own.program == shorter.ranks.classes[c].program;
                     }) -
        shorter.priced.begin());
    const std::size_t streams = shorter.priced[of].program.streams.size();
    const auto found = search.Look(run.timelines[c].operations, shorter.operations.Of(of),
                                   static_cast<std::size_t>(step.period) * streams);
    if (found == PeriodSearch::Found::kNothing ||
        !HostIsAlike(shorter, step, c, of, found == PeriodSearch::Found::kOnHost,
                     search.length())) {
      return std::nullopt;
    }
  }
  return std::move(search).Take();
}

}  // namespace stepcast::forecast
