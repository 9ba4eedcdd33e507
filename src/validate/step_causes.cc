#include "src/validate/step_causes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/check.h"
#include "src/forecast/intervals.h"
#include "src/program/description.h"

namespace stepcast::validate {
namespace {

using forecast::Difference;
using forecast::Intersection;
using forecast::Interval;
using forecast::Intervals;
using forecast::Length;
using forecast::Union;

// A kernel that is idle for so long after its launch starts up, which its forecast includes.
constexpr Time kStartUp = Microseconds(10);

bool IsKernel(Activity activity) { return activity < Activity::kCopy; }
bool Communicates(Activity activity) { return activity > Activity::kCopy; }

// `kinds`: whether kernels are told apart.
CauseKind KindOf(Activity activity, bool kinds = true) {
  if (!kinds && IsKernel(activity)) return CauseKind::kOtherKernels;
  switch (activity) {
    case Activity::kProduct:
      return CauseKind::kProducts;
    case Activity::kAttention:
      return CauseKind::kAttention;
    case Activity::kOptimizer:
      return CauseKind::kOptimizer;
    case Activity::kElementwise:
      return CauseKind::kElementwise;
    case Activity::kOtherKernel:
      return CauseKind::kOtherKernels;
    case Activity::kCopy:
      return CauseKind::kCopies;
    case Activity::kCollective:
    case Activity::kMessage:
      return CauseKind::kCommunication;
  }
  return CauseKind::kOtherKernels;
}

Time Waits(const StepEvent& event) {
  const Time length = event.end - event.begin;
  return length - std::min(length, event.transfer.value_or(length));
}

// The times of one rank's step by cause; what is left is idle.
class Partition {
 public:
  using Key = std::pair<CauseKind, std::string>;  // and the axis

  // `kinds`: whether kernels are told apart by kind.
  Partition(const RankStep& step, bool kinds)
      : step_(step), kinds_(kinds), left_{{step.begin, step.end}} {
    for (const StepEvent& event : step.events) {
      by_begin_.push_back(&event);
      if (event.end <= step.begin || event.end > step.end) continue;
      ++calls_[{CauseKindOf(event.activity), AxisOf(event)}];
    }
    std::stable_sort(by_begin_.begin(), by_begin_.end(),
                     [](const StepEvent* a, const StepEvent* b) { return a->begin < b->begin; });
    Kernels();
    Host();
    Communication();
    Idle();
  }

  const std::map<Key, Time>& times() const { return times_; }
  Time TimeOf(const Key& key) const {
    const auto found = times_.find(key);
    return found == times_.end() ? Time() : found->second;
  }
  std::int64_t CallsOf(const Key& key) const {
    const auto found = calls_.find(key);
    return found == calls_.end() ? 0 : found->second;
  }

 private:
  CauseKind CauseKindOf(Activity activity) const { return KindOf(activity, kinds_); }
  static std::string AxisOf(const StepEvent& event) {
    return Communicates(event.activity) ? event.name : "";
  }

  Interval Clip(Time from, Time to) const {
    return {std::max(from, step_.begin), std::min(to, step_.end)};
  }

  // The instants of `intervals` that belong to no cause yet.
  void Take(const Key& key, Intervals intervals) {
    const Intervals own = Intersection(left_, Union(std::move(intervals)));
    if (own.empty()) return;
    times_[key] += Length(own);
    left_ = Difference(left_, own);
  }

  Intervals Of(HostActivity activity) const {
    Intervals spans;
    for (const HostSpan& span : step_.host) {
      if (span.activity == activity) spans.push_back(Clip(span.begin, span.end));
    }
    return Union(std::move(spans));
  }

  // The first event that begins at `time` or later and that `wanted` accepts; null: none.
  template <typename Wanted>
  const StepEvent* Next(Time time, const Wanted& wanted) const {
    auto next = std::lower_bound(by_begin_.begin(), by_begin_.end(), time,
                                 [](const StepEvent* event, Time t) { return event->begin < t; });
    next = std::find_if(next, by_begin_.end(), [&](const StepEvent* e) { return wanted(*e); });
    return next == by_begin_.end() ? nullptr : *next;
  }

  void Kernels() {
    std::map<Activity, Intervals> kinds;
    for (const StepEvent& event : step_.events) {
      if (IsKernel(event.activity)) {
        kinds[event.activity].push_back(Clip(event.begin, event.end));
      }
    }
    for (auto& [activity, intervals] : kinds) {
      Take({CauseKindOf(activity), ""}, std::move(intervals));
    }
  }

  // Where the kernel that ends a gap had not been launched, the device waits for the host.
  void Host() {
    Intervals late;
    for (const Interval& gap : left_) {
      const StepEvent* kernel =
          Next(gap.end, [](const StepEvent& event) { return IsKernel(event.activity); });
      if (kernel == nullptr || !kernel->launched || *kernel->launched <= gap.start) continue;
      late.push_back({gap.start, std::min(*kernel->launched, gap.end)});
    }
    late_ = Union(std::move(late));
    late_ends_.reserve(late_.size());
    for (const Interval& own : late_) late_ends_.push_back(own.end);
    Take({CauseKind::kDataLoading, ""}, Intersection(late_, Of(HostActivity::kDataLoading)));
    Take({CauseKind::kAllocatorFlushes, ""}, Intersection(late_, Of(HostActivity::kAllocator)));
    Take({CauseKind::kLaunches, ""}, Difference(late_, Of(HostActivity::kWaiting)));
  }

  void Communication() {
    std::map<std::string, Intervals> moving;
    Intervals copies, members, peers;
    for (const StepEvent& event : step_.events) {
      if (event.activity == Activity::kCopy) copies.push_back(Clip(event.begin, event.end));
      if (!Communicates(event.activity)) continue;
      const Time start = event.begin + Waits(event);
      moving[event.name].push_back(Clip(start, event.end));
      (event.activity == Activity::kCollective ? members : peers)
          .push_back(Clip(event.begin, start));
    }
    for (auto& [axis, intervals] : moving) {
      Take({CauseKind::kCommunication, axis}, std::move(intervals));
    }
    Take({CauseKind::kCopies, ""}, std::move(copies));
    Take({CauseKind::kPipelineBubble, ""}, std::move(peers));
    Take({CauseKind::kImbalance, ""}, std::move(members));
  }

  // Idle time before a communication that has been launched is a wait for other ranks. After a late
  // launch, and shortly before a kernel, it belongs to these. A host that waits for an idle device
  // notices late that the device is done.
  void Idle() {
    for (const Interval& idle : Intervals(left_)) {
      const StepEvent* next = Next(idle.end, [](const StepEvent&) { return true; });
      if (next == nullptr || next->launched.value_or(idle.start) > idle.start) continue;
      if (Communicates(next->activity)) {
        const bool peer = next->activity == Activity::kMessage;
        Take({peer ? CauseKind::kPipelineBubble : CauseKind::kImbalance, ""}, {idle});
      } else if (std::binary_search(late_ends_.begin(), late_ends_.end(), idle.start)) {
        Take({CauseKind::kLaunches, ""}, {idle});
      } else if (idle.end - idle.start <= kStartUp) {
        Take({CauseKindOf(next->activity), ""}, {idle});
      }
    }
    Take({CauseKind::kLaunches, ""}, late_);
  }

  const RankStep& step_;
  const bool kinds_;
  std::vector<const StepEvent*> by_begin_;
  Intervals late_;               // the device waits for a launch
  std::vector<Time> late_ends_;  // ascending: when late kernels were launched
  Intervals left_;
  std::map<Key, Time> times_;
  std::map<Key, std::int64_t> calls_;
};

// A collective on those of its members that were traced, by rank.
struct Member {
  std::size_t rank;  // its place among the traced ones
  StepEvent* event;
  Time length() const { return event->end - event->begin; }
};
using Call = std::vector<Member>;

// Whether every member begins `next` as soon as it has left `call`. No member then waits for the
// kernels of another one, only for the end of the collective before.
bool FollowsAtOnce(const Call& call, const Call& next) {
  constexpr std::int64_t kLeastPause = 10;  // 1 / the part of a collective's time
  if (call.size() != next.size()) return false;
  for (std::size_t i = 0; i < call.size(); ++i) {
    const Time pause = next[i].event->begin - call[i].event->end;
    if (call[i].rank != next[i].rank) return false;
    if (kLeastPause * pause > std::min(call[i].length(), next[i].length())) return false;
  }
  return true;
}

// Collectives that follow one another at once. Members wait for one another before the first. Of
// members with unknown transfers, the one that takes the least time for all of them does not wait.
void MarkBurst(std::span<const Call> calls) {
  const Call& first = calls.front();
  if (first.size() < 2 && !first.front().event->transfer) return;
  const auto length = [&](std::size_t member) {
    return calls.back()[member].event->end - first[member].event->begin;
  };
  Time least = Time::Max();
  for (std::size_t i = 0; i < first.size(); ++i) least = std::min(least, length(i));
  for (std::size_t i = 0; i < first.size(); ++i) {
    Time wait = first[i].event->transfer ? Waits(*first[i].event) : length(i) - least;
    for (const Call& call : calls) {
      const Time own = std::min(wait, call[i].length());
      call[i].event->transfer = call[i].length() - own;
      wait -= own;
    }
  }
}

Time KernelTime(const RankStep& step) {
  Intervals kernels;
  for (const StepEvent& event : step.events) {
    if (!IsKernel(event.activity)) continue;
    kernels.push_back({std::max(event.begin, step.begin), std::min(event.end, step.end)});
  }
  return Length(Union(std::move(kernels)));
}

Time WaitTime(const RankStep& step) {
  Time sum;
  for (const StepEvent& event : step.events) {
    if (event.step == 0 && event.activity == Activity::kCollective) sum += Waits(event);
  }
  return sum;
}

// Layer lists have kernels of given time, which are of no kind.
bool HasKinds(const RankStep& step) {
  return std::any_of(step.events.begin(), step.events.end(), [](const StepEvent& event) {
    return event.activity == Activity::kProduct || event.activity == Activity::kAttention;
  });
}

void SortBySize(StepCauses& causes) {
  const bool slower = causes.difference() >= Time();
  std::stable_sort(
      causes.causes.begin(), causes.causes.end(), [slower](const Cause& a, const Cause& b) {
        return slower ? a.difference() > b.difference() : a.difference() < b.difference();
      });
}

// The cause of a kind without axis, which is added if there is none.
Cause& CauseOf(CauseKind kind, StepCauses& causes) {
  for (Cause& cause : causes.causes) {
    if (cause.kind == kind) return cause;
  }
  Cause& added = causes.causes.emplace_back();
  added.kind = kind;
  return added;
}

struct KernelRun {
  Time begin, duration;
  bool alone = true;  // beside no communication
};

// The kernels of one kind that were launched in the step, in order.
std::vector<KernelRun> KernelsOf(const RankStep& step, CauseKind kind, bool kinds) {
  Intervals communication;
  for (const StepEvent& event : step.events) {
    if (Communicates(event.activity)) communication.push_back({event.begin, event.end});
  }
  communication = Union(std::move(communication));
  std::vector<KernelRun> kernels;
  for (const StepEvent& event : step.events) {
    if (event.step != 0 || !IsKernel(event.activity)) continue;
    if (KindOf(event.activity, kinds) != kind) continue;
    const auto beside =
        std::upper_bound(communication.begin(), communication.end(), event.begin,
                         [](Time begin, const Interval& interval) { return begin < interval.end; });
    kernels.push_back({event.begin, event.end - event.begin,
                       beside == communication.end() || beside->start >= event.end});
  }
  std::sort(kernels.begin(), kernels.end(),
            [](const KernelRun& a, const KernelRun& b) { return a.begin < b.begin; });
  return kernels;
}

// How many times as long the median kernel takes as the same kernel of the other rank. Only kernels
// beside no communication count: on fast ranks, collectives wait for the slow one beside kernels,
// which take longer then.
double SlownessOf(const std::vector<KernelRun>& kernels, const std::vector<KernelRun>& others) {
  if (kernels.size() != others.size()) return 1;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (!kernels[i].alone || !others[i].alone || others[i].duration == Time()) continue;
    ratios.push_back(kernels[i].duration / others[i].duration);
  }
  if (ratios.empty()) return 1;
  const auto median = ratios.begin() + static_cast<std::ptrdiff_t>((ratios.size() - 1) / 2);
  std::nth_element(ratios.begin(), median, ratios.end());
  return std::max(1.0, *median);
}

// Moves what the kernels of `described` take longer than those of the median rank of `ranks`, which
// run the same program, to imbalance.
void CountImbalance(const std::vector<const RankStep*>& ranks, const RankStep& described,
                    bool kinds, StepCauses& causes) {
  if (ranks.size() < 2) return;
  std::vector<std::pair<Time, std::size_t>> by_kernels;
  for (std::size_t i = 0; i < ranks.size(); ++i) by_kernels.emplace_back(KernelTime(*ranks[i]), i);
  std::sort(by_kernels.begin(), by_kernels.end());
  const RankStep& typical = *ranks[by_kernels[(by_kernels.size() - 1) / 2].second];
  const Partition others(typical, kinds);
  Time more;
  for (Cause& cause : causes.causes) {
    if (cause.kind > CauseKind::kOtherKernels) continue;
    const double slowness =
        SlownessOf(KernelsOf(described, cause.kind, kinds), KernelsOf(typical, cause.kind, kinds));
    const Time part = Picoseconds(
        std::llround(static_cast<double>(cause.measured.picoseconds()) * (1 - 1 / slowness)));
    const Time own = std::max(cause.measured - others.TimeOf({cause.kind, ""}), part);
    if (own <= Time()) continue;
    more += own;
    cause.measured -= own;
  }
  if (more > Time()) CauseOf(CauseKind::kImbalance, causes).measured += more;
  for (const Cause& cause : causes.causes) {
    if (cause.kind == CauseKind::kImbalance && cause.difference() > Time()) {
      causes.slowest_rank = causes.rank;
    }
  }
}

// The longest kernels of the first cause that is a kind of kernels.
std::vector<KernelSum> LongestKernels(const std::vector<Cause>& causes, const RankStep& step,
                                      bool kinds) {
  const auto cause = std::find_if(causes.begin(), causes.end(), [](const Cause& one) {
    return one.kind <= CauseKind::kOtherKernels;
  });
  if (cause == causes.end()) return {};
  std::map<std::string, KernelSum> sums;
  for (const StepEvent& event : step.events) {
    if (!IsKernel(event.activity) || KindOf(event.activity, kinds) != cause->kind) continue;
    if (event.end <= step.begin || event.end > step.end) continue;
    KernelSum& sum = sums[event.name];
    sum.name = event.name;
    sum.calls += 1;
    sum.total += event.end - event.begin;
  }
  std::vector<KernelSum> longest;
  for (auto& [name, sum] : sums) longest.push_back(std::move(sum));
  std::stable_sort(longest.begin(), longest.end(),
                   [](const KernelSum& a, const KernelSum& b) { return a.total > b.total; });
  if (longest.size() > kKernelsNamed) longest.resize(kKernelsNamed);
  return longest;
}

// Of another model, or another batch, a step has another number of products.
void NoteOtherModel(StepCauses& causes) {
  constexpr std::int64_t kMost = 2;
  for (const Cause& cause : causes.causes) {
    if (cause.kind != CauseKind::kProducts) continue;
    const auto [least, most] = std::minmax(cause.forecast_calls, cause.measured_calls);
    if (most <= kMost * least) continue;
    causes.notes.push_back(
        fmt::format("the traced step has {} {}, but the forecast has {}: check the model, the "
                    "micro-batches and training.compile",
                    cause.measured_calls, Name(cause.kind), cause.forecast_calls));
  }
}

// Arithmetic follows the clock; products and attention that are slower alike are a sign of it.
void NoteClock(StepCauses& causes) {
  constexpr double kLeast = 1.03, kAlike = 0.05;
  double slower[2] = {0, 0};
  for (const Cause& cause : causes.causes) {
    if (cause.forecast == Time()) continue;
    if (cause.kind == CauseKind::kProducts) slower[0] = cause.measured / cause.forecast;
    if (cause.kind == CauseKind::kAttention) slower[1] = cause.measured / cause.forecast;
  }
  if (std::min(slower[0], slower[1]) < kLeast || std::abs(slower[0] - slower[1]) > kAlike) return;
  causes.notes.push_back(fmt::format(
      "matrix multiplications and attention take about {:.2f} times as long as forecast. A "
      "possible cause is a lower clock: check nvidia-smi -q -d CLOCK,POWER,PERFORMANCE",
      (slower[0] + slower[1]) / 2));
}

Activity ActivityOf(const Kernel& kernel, program::Phase phase) {
  switch (kernel.kind) {
    case KernelKind::kGemm:
      return Activity::kProduct;
    case KernelKind::kAttention:
    case KernelKind::kAttentionGradient:
      return Activity::kAttention;
    case KernelKind::kOptimizer:
      return Activity::kOptimizer;
    case KernelKind::kMemoryBound:
      return phase == program::Phase::kOptimizer ? Activity::kOptimizer : Activity::kElementwise;
    case KernelKind::kGiven:
    case KernelKind::kScan:
    case KernelKind::kScanGradient:
      break;
  }
  return Activity::kOtherKernel;
}

}  // namespace

const char* Name(CauseKind kind) {
  switch (kind) {
    case CauseKind::kProducts:
      return "products";
    case CauseKind::kAttention:
      return "attention";
    case CauseKind::kOptimizer:
      return "optimizer";
    case CauseKind::kElementwise:
      return "elementwise kernels";
    case CauseKind::kOtherKernels:
      return "kernels";
    case CauseKind::kCommunication:
      return "exposed communication";
    case CauseKind::kCopies:
      return "exposed copies";
    case CauseKind::kImbalance:
      return "imbalance of ranks";
    case CauseKind::kPipelineBubble:
      return "pipeline bubble";
    case CauseKind::kLaunches:
      return "launches";
    case CauseKind::kDataLoading:
      return "data loading";
    case CauseKind::kAllocatorFlushes:
      return "allocator flushes";
  }
  return "";
}

RankStep EventsOf(const forecast::Run& run, const forecast::ClassRun& own) {
  using program::Opcode;
  const program::Program& program = own.program;
  const std::vector<Time>& ends = own.timeline.step_ends;
  RankStep step{.rank = own.first_rank,
                .begin = run.first_step == 0 ? Time() : ends[run.first_step - 1],
                .end = ends[run.first_step]};
  std::vector<Time> free(program.communicators.size());  // since when
  for (const program::OperationRecord& record : own.timeline.operations) {
    const program::Instruction& instruction = program.step[record.instruction];
    StepEvent event{.step = static_cast<int>(record.step) - static_cast<int>(run.first_step),
                    .begin = record.start,
                    .end = record.end,
                    .launched = record.issued};
    switch (instruction.opcode) {
      case Opcode::kHostTask:
        if (program.host_tasks[instruction.operand].name == "load_micro_batch") {
          step.host.push_back({HostActivity::kDataLoading, record.start, record.end});
        }
        continue;
      case Opcode::kKernel: {
        const Kernel& kernel = program.kernels[instruction.operand];
        if (kernel.on_host && instruction.stream != program::Program::kComputeStream) {
          if (kernel.name == "load_micro_batch") {
            step.host.push_back({HostActivity::kDataLoading, record.start, record.end});
          }
          continue;
        }
        event.activity = ActivityOf(kernel, instruction.phase);
        event.name = kernel.name;
        break;
      }
      case Opcode::kCopy:
        event.activity = Activity::kCopy;
        break;
      case Opcode::kCollective:
      case Opcode::kExchange: {
        const program::Index communicator = program::CommunicatorOf(program, instruction);
        const program::ProcessGroup& group =
            program.groups[program.communicators[communicator].group];
        Time& free_since = free[communicator];
        event.begin = std::min(std::max(record.ready, free_since), record.start);
        free_since = record.end;
        event.transfer = record.end - record.start;
        event.name = group.name;
        event.members = fmt::format("{}", fmt::join(group.ranks, ","));
        if (instruction.opcode == Opcode::kCollective) {
          event.activity = Activity::kCollective;
          event.bytes = program.collectives[instruction.operand].bytes;
        } else {
          event.activity = Activity::kMessage;
          for (const program::Message& message : program.exchanges[instruction.operand].messages) {
            event.bytes += message.bytes;
          }
        }
        break;
      }
      default:
        continue;
    }
    step.events.push_back(std::move(event));
  }
  for (const program::WaitRecord& record : own.timeline.waits) {
    if (program.step[record.instruction].opcode != Opcode::kHostWaitEvent) continue;
    step.host.push_back({HostActivity::kWaiting, record.start, record.end});
  }
  if (own.host_waits < step.end) {
    step.host.push_back({HostActivity::kWaiting, own.host_waits, step.end});
  }
  return step;
}

void MarkTransfers(std::vector<RankStep>& ranks) {
  std::map<std::tuple<std::string, std::string, int>, std::vector<Call>> groups;
  std::map<std::pair<std::string, std::int64_t>, std::vector<StepEvent*>> messages;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<StepEvent*> launched;
    for (StepEvent& event : ranks[rank].events) {
      if (Communicates(event.activity)) launched.push_back(&event);
    }
    std::stable_sort(launched.begin(), launched.end(), [](const StepEvent* a, const StepEvent* b) {
      return a->launched.value_or(a->begin) < b->launched.value_or(b->begin);
    });
    std::map<std::tuple<std::string, std::string, int>, std::size_t> counts;
    for (StepEvent* event : launched) {
      if (event->activity == Activity::kMessage) {
        if (!event->transfer) messages[{event->name, event->bytes.count()}].push_back(event);
        continue;
      }
      if (event->members.empty()) continue;
      const std::tuple group(event->name, event->members, event->step);
      std::vector<Call>& calls = groups[group];
      const std::size_t place = counts[group]++;
      if (place == calls.size()) calls.emplace_back();
      calls[place].push_back({rank, event});
    }
  }
  for (auto& [group, calls] : groups) {
    for (auto first = calls.begin(); first != calls.end();) {
      auto last = first + 1;
      while (last != calls.end() && FollowsAtOnce(*(last - 1), *last)) ++last;
      MarkBurst({first, last});
      first = last;
    }
  }
  for (const auto& [kind, events] : messages) {
    Time least = Time::Max();
    for (const StepEvent* event : events) least = std::min(least, event->end - event->begin);
    for (StepEvent* event : events) event->transfer = least;
  }
}

StepCauses DifferenceOf(const RankStep& forecast, const RankStep& measured) {
  const bool kinds = HasKinds(forecast);
  const Partition expected(forecast, kinds), found(measured, kinds);
  StepCauses result{
      .rank = measured.rank, .forecast = forecast.duration(), .measured = measured.duration()};
  std::map<Partition::Key, Cause> causes;
  for (const auto& [key, time] : expected.times()) causes[key].forecast = time;
  for (const auto& [key, time] : found.times()) causes[key].measured = time;
  result.remainder = result.difference();
  for (auto& [key, cause] : causes) {
    cause.kind = key.first;
    cause.axis = key.second;
    cause.forecast_calls = expected.CallsOf(key);
    cause.measured_calls = found.CallsOf(key);
    result.remainder -= cause.difference();
    if (cause.difference() != Time()) result.causes.push_back(std::move(cause));
  }
  SortBySize(result);
  result.kernels = LongestKernels(result.causes, measured, kinds);
  NoteOtherModel(result);
  NoteClock(result);
  return result;
}

StepCauses CausesOf(const forecast::Run& run, std::vector<RankStep> measured) {
  STEPCAST_CHECK(!measured.empty(), "the step must have been measured");
  MarkTransfers(measured);
  std::vector<const RankStep*> ranks;
  for (const RankStep& step : measured) {
    if (&run.class_of(step.rank) == &run.critical_class()) ranks.push_back(&step);
  }
  if (ranks.empty()) {
    for (const RankStep& step : measured) ranks.push_back(&step);
  }
  const RankStep& described =
      **std::min_element(ranks.begin(), ranks.end(), [](const RankStep* a, const RankStep* b) {
        return std::pair(WaitTime(*a), KernelTime(*b)) < std::pair(WaitTime(*b), KernelTime(*a));
      });
  const forecast::ClassRun& own = run.class_of(described.rank);
  const RankStep expected = EventsOf(run, own);
  StepCauses result = DifferenceOf(expected, described);
  result.ranks = measured.size();
  ranks.clear();
  for (const RankStep& step : measured) {
    if (&run.class_of(step.rank) == &own) ranks.push_back(&step);
  }
  CountImbalance(ranks, described, HasKinds(expected), result);
  // The forecast adds these to the time of its events.
  const forecast::TimeBreakdown& time = run.forecast.time;
  result.forecast = run.forecast.step_time;
  result.learned = time.learned;
  const Time added = run.forecast.step_time - expected.duration();
  result.remainder -= added - time.learned;
  if (time.allocator_flushes > Time()) {
    CauseOf(CauseKind::kAllocatorFlushes, result).forecast += time.allocator_flushes;
    result.remainder += time.allocator_flushes;
  }
  SortBySize(result);
  result.kernels = LongestKernels(result.causes, described, HasKinds(expected));
  if (measured.size() == 1 && run.forecast.communication_total > Time()) {
    result.notes.emplace_back(
        "the trace of a single rank does not show whether the rank waits for other ranks, or "
        "communication is slow. To distinguish the two causes, trace several ranks: --measured "
        "FOLDER");
  }
  return result;
}

}  // namespace stepcast::validate
