#include "src/forecast/explanation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/expected.h"
#include "src/base/time.h"
#include "src/forecast/forecast.h"
#include "src/forecast/intervals.h"
#include "src/forecast/time_breakdown.h"
#include "src/memory/account.h"
#include "src/program/description.h"
#include "src/program/program.h"

namespace stepcast::forecast {
namespace {

using program::Instruction;
using program::Opcode;
using program::OperationRecord;

constexpr std::size_t kNoRecord = static_cast<std::size_t>(-1);

// Walks backward from the end. `at_` is the present time. Records are ordered by their ends, and
// every step goes to an earlier record, so the walk ends.
class Walk {
 public:
  Walk(const program::Program& program, const program::Timeline& timeline, Time start, Time end)
      : program_(program), timeline_(timeline), begin_(start), at_(end) {}

  std::vector<PathPart> Go() {
    std::size_t present =
        EndingAt(at_, timeline_.operations.size(), [](const auto&) { return true; });
    if (present == kNoRecord) present = FromHost(timeline_.operations.size());
    while (at_ > begin_) {
      if (present == kNoRecord) {
        Add(PathPartKind::kStall, program::kNone, begin_);
        break;
      }
      present = Before(present);
    }
    std::reverse(parts_.begin(), parts_.end());
    return std::move(parts_);
  }

 private:
  const Instruction& InstructionOf(const OperationRecord& record) const {
    return program_.step[record.instruction];
  }

  void Add(PathPartKind kind, program::Index instruction, Time from) {
    from = std::max(from, begin_);
    if (from >= at_) return;
    parts_.push_back({.kind = kind, .instruction = instruction, .start = from, .end = at_});
    at_ = from;
  }

  // The last record before `limit` that ended at `time` and satisfies `wanted`.
  template <typename Wanted>
  std::size_t EndingAt(Time time, std::size_t limit, Wanted wanted) const {
    const auto& operations = timeline_.operations;
    const auto first =
        std::lower_bound(operations.begin(), operations.end(), time,
                         [](const OperationRecord& record, Time t) { return record.end < t; });
    std::size_t found = kNoRecord;
    for (auto it = first; it != operations.end() && it->end == time; ++it) {
      const auto index = static_cast<std::size_t>(it - operations.begin());
      if (index < limit && wanted(*it)) found = index;
    }
    return found;
  }

  // Adds the record `present`, which ends at the present time, and returns the record that it
  // waited for.
  std::size_t Before(std::size_t present) {
    const OperationRecord& record = timeline_.operations[present];
    const Instruction& instruction = InstructionOf(record);
    Add(PathPartKind::kOperation, record.instruction, record.start);
    if (at_ <= begin_) return kNoRecord;
    if (instruction.opcode == Opcode::kHostTask) return FromHost(present);
    if (record.start > record.ready) {
      const program::Index communicator = program::CommunicatorOf(program_, instruction);
      const std::size_t earlier =
          EndingAt(record.start, present, [&](const OperationRecord& other) {
            return program::CommunicatorOf(program_, InstructionOf(other)) == communicator;
          });
      if (earlier != kNoRecord) return earlier;
      Add(PathPartKind::kPartners, record.instruction, record.ready);
      if (at_ <= begin_) return kNoRecord;
    }
    if (record.issued == record.ready) return FromHost(present);
    // The previous operation on its stream, or else the operation that its stream waited for.
    const std::size_t same = EndingAt(record.ready, present, [&](const OperationRecord& other) {
      return InstructionOf(other).opcode != Opcode::kHostTask &&
             InstructionOf(other).stream == instruction.stream;
    });
    if (same != kNoRecord) return same;
    const std::size_t awaited = EndingAt(record.ready, present, [](const auto&) { return true; });
    if (awaited != kNoRecord) return awaited;
    return Stall(present);
  }

  // The host was busy until the present time, since it last waited for the device.
  std::size_t FromHost(std::size_t limit) {
    const program::WaitRecord* last = nullptr;
    for (const program::WaitRecord& wait : timeline_.waits) {
      if (program_.step[wait.instruction].opcode != Opcode::kHostWaitEvent || wait.end > at_) {
        continue;
      }
      if (last == nullptr || wait.end > last->end) last = &wait;
    }
    const Time from = last == nullptr ? begin_ : std::max(last->end, begin_);
    // The host's tasks are separate operations.
    for (std::size_t i = std::min(limit, timeline_.operations.size()); i-- > 0 && at_ > from;) {
      const OperationRecord& record = timeline_.operations[i];
      if (InstructionOf(record).opcode != Opcode::kHostTask || record.end > at_) continue;
      if (record.end <= from) break;
      Add(PathPartKind::kHost, program::kNone, record.end);
      Add(PathPartKind::kOperation, record.instruction, std::max(record.start, from));
    }
    Add(PathPartKind::kHost, program::kNone, from);
    if (at_ <= begin_) return kNoRecord;
    return EndingAt(at_, limit, [](const auto&) { return true; });
  }

  // No record ended at this time: continues with the record that ended last before it.
  std::size_t Stall(std::size_t limit) {
    for (std::size_t i = limit; i-- > 0;) {
      const OperationRecord& record = timeline_.operations[i];
      if (record.end > at_) continue;
      Add(PathPartKind::kStall, program::kNone, record.end);
      return i;
    }
    return kNoRecord;
  }

  const program::Program& program_;
  const program::Timeline& timeline_;
  const Time begin_;
  Time at_;
  std::vector<PathPart> parts_;
};

}  // namespace

std::vector<PathPart> CriticalPath(const program::Program& program,
                                   const program::Timeline& timeline, Time start, Time end) {
  return Walk(program, timeline, start, end).Go();
}

// The collectives in the step's exposed communication.

// A collective of the step, by its instruction.
struct ExposedCall {
  program::Index instruction = program::kNone;
  Time exposed;
};

// All calls with exposed time, in host order. Their sum is the exposed communication of the
// interval that `step` ends. If several are in flight, an exposed instant counts for the one that
// was ready first.
std::vector<ExposedCall> ExposedCalls(const ClassRun& run, std::uint32_t step);

std::vector<ExposedCall> ExposedCalls(const ClassRun& run, std::uint32_t step) {
  const auto& ends = run.timeline.step_ends;
  const Time start = ends[step - 1], end = ends[step];
  Intervals left = BreakDown(run.program, run.timeline, start, end, run.host_waits).exposed;
  std::vector<const program::OperationRecord*> collectives;
  for (const program::OperationRecord& record : run.timeline.operations) {
    if (record.end <= start || record.ready >= end) continue;
    const program::Instruction& instruction = run.program.step[record.instruction];
    if (program::CommunicatorOf(run.program, instruction) != program::kNone) {
      collectives.push_back(&record);
    }
  }
  std::stable_sort(collectives.begin(), collectives.end(),
                   [](const auto* a, const auto* b) { return a->ready < b->ready; });
  std::map<program::Index, Time> exposed;
  for (const program::OperationRecord* record : collectives) {
    const Intervals own{{std::max(record->ready, start), std::min(record->end, end)}};
    const Time length = Length(Intersection(left, own));
    if (length == Time()) continue;
    exposed[record->instruction] += length;
    left = Difference(left, own);
  }
  std::vector<ExposedCall> calls;
  for (const auto& [instruction, length] : exposed) calls.push_back({instruction, length});
  return calls;
}

namespace {

using program::Instruction;
using program::Opcode;

constexpr std::size_t kLargest = 3;

const char* OperationName(const Kernel& kernel) {
  if (kernel.on_host) return "work of hosts and drives";
  switch (kernel.kind) {
    case KernelKind::kGemm:
      return "matrix products";
    case KernelKind::kAttention:
    case KernelKind::kAttentionGradient:
      return "attention";
    case KernelKind::kMemoryBound:
      return "memory-bound kernels";
    case KernelKind::kOptimizer:
      return "optimizer update";
    case KernelKind::kGiven:
      return "layers of given time";
    case KernelKind::kScan:
    case KernelKind::kScanGradient:
      return "scans of recurrent layers";
  }
  return "";
}

const char* ResourceName(cost::Resource resource) {
  switch (cost::KindOf(resource)) {
    case cost::Resource::kCompute:
      return Name(MachineResource::kCompute);
    case cost::Resource::kMemory:
      return Name(MachineResource::kDeviceMemory);
    case cost::Resource::kScaleUp:
      return Name(MachineResource::kScaleUp);
    case cost::Resource::kNetwork:
      return Name(MachineResource::kNetwork);
    case cost::Resource::kHostLink:
      return Name(MachineResource::kHostLink);
    default:
      return "";
  }
}

// An operation's name, its uncontended demand, and the resource that limits it.
struct Described {
  std::string name;
  cost::Demand demand;
  bool collective = false;
};

Described Describe(const ClassRun& run, const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kKernel:
      return {OperationName(run.program.kernels[instruction.operand]),
              run.prices.kernels[instruction.operand]};
    case Opcode::kCopy:
      return {fmt::format("copies {}", Name(run.program.copies[instruction.operand].direction)),
              run.prices.copies[instruction.operand]};
    case Opcode::kCollective: {
      const program::Collective& collective = run.program.collectives[instruction.operand];
      const program::Index group = run.program.communicators[collective.communicator].group;
      return {fmt::format("{} {}", Name(collective.kind), run.program.groups[group].name),
              run.prices.collectives[instruction.operand].demand, true};
    }
    case Opcode::kExchange: {
      // The longest of the exchange's messages.
      const program::Exchange& exchange = run.program.exchanges[instruction.operand];
      const std::vector<cost::MessagePrice>& messages = run.prices.exchanges[instruction.operand];
      const auto longest =
          std::max_element(messages.begin(), messages.end(), [](const auto& a, const auto& b) {
            return a.demand.uncontended() < b.demand.uncontended();
          });
      const program::Index group = run.program.communicators[exchange.communicator].group;
      return {fmt::format("{} {}", program::OperandName(run.program, instruction),
                          run.program.groups[group].name),
              longest->demand, true};
    }
    case Opcode::kHostTask:
      return {run.program.host_tasks[instruction.operand].name, {}};
    default:
      return {};
  }
}

// The resource that limits the work. A collective's use of compute and memory never limits it.
std::string Limit(const Described& described) {
  if (described.demand.provenance == cost::Provenance::kGiven) return "its given time";
  int limit = -1;
  for (int r = 0; r < cost::kResources; ++r) {
    const auto resource = cost::KindOf(static_cast<cost::Resource>(r));
    if (described.collective && resource != cost::Resource::kScaleUp &&
        resource != cost::Resource::kNetwork) {
      continue;
    }
    const double share = described.demand.share[r];
    if (share > 0 && (limit < 0 || share > described.demand.share[limit])) limit = r;
  }
  return limit < 0 ? "" : ResourceName(cost::KindOf(static_cast<cost::Resource>(limit)));
}

class PathShares {
 public:
  explicit PathShares(const ClassRun& run) : run_(run) {}

  void Add(const PathPart& part) {
    const Time length = part.end - part.start;
    switch (part.kind) {
      case PathPartKind::kHost:
        Add("issuing instructions", Name(MachineResource::kLaunch), length, Time());
        return;
      case PathPartKind::kPartners:
        Add("waiting for other ranks", "", length, Time());
        return;
      case PathPartKind::kStall:
        Add("nothing", "", length, Time());
        return;
      case PathPartKind::kOperation:
        break;
    }
    const Described described = Describe(run_, run_.program.step[part.instruction]);
    if (described.demand.uncontended() == Time()) {
      Add(described.name, Name(MachineResource::kLaunch), length, Time());
      return;
    }
    // A part may be cut at the start of the step; its remainder is its end.
    const Time slowed = std::max(Time(), length - described.demand.uncontended());
    const Time work = std::min(length, described.demand.uncontended_work() + slowed);
    Add(described.name, Limit(described), work, slowed);
    Add(described.name, "latency", length - work, Time());
  }

  std::vector<PathShare> Take() {
    std::vector<PathShare> shares;
    for (auto& [key, share] : shares_) shares.push_back(std::move(share));
    std::stable_sort(shares.begin(), shares.end(),
                     [](const PathShare& a, const PathShare& b) { return a.time > b.time; });
    return shares;
  }

 private:
  void Add(const std::string& operation, const std::string& bound_by, Time time, Time slowed) {
    if (time == Time()) return;
    PathShare& share = shares_[{operation, bound_by}];
    share.operation = operation;
    share.bound_by = bound_by;
    share.time += time;
    share.slowed += slowed;
  }

  const ClassRun& run_;
  std::map<std::pair<std::string, std::string>, PathShare> shares_;
};

std::vector<ExposedCollective> Exposed(const ClassRun& run, std::uint32_t step) {
  std::map<std::pair<CollectiveKind, program::Index>, ExposedCollective> sums;
  for (const ExposedCall& call : ExposedCalls(run, step)) {
    const Instruction& instruction = run.program.step[call.instruction];
    const program::Index communicator = program::CommunicatorOf(run.program, instruction);
    const program::Index group = run.program.communicators[communicator].group;
    const CollectiveKind kind = instruction.opcode == Opcode::kCollective
                                    ? run.program.collectives[instruction.operand].kind
                                    : CollectiveKind::kSendRecv;
    ExposedCollective& sum = sums[{kind, group}];
    sum.collective = kind;
    sum.group = run.program.groups[group].name;
    sum.calls += 1;
    sum.exposed += call.exposed;
    if (instruction.label == program::kNone) continue;
    const std::string& label = run.program.labels[instruction.label];
    const auto same = std::find_if(sum.largest.begin(), sum.largest.end(),
                                   [&](const auto& entry) { return entry.first == label; });
    if (same == sum.largest.end()) {
      sum.largest.emplace_back(label, call.exposed);
    } else {
      same->second += call.exposed;
    }
  }
  std::vector<ExposedCollective> exposed;
  for (auto& [key, sum] : sums) {
    std::stable_sort(sum.largest.begin(), sum.largest.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    if (sum.largest.size() > kLargest) sum.largest.resize(kLargest);
    exposed.push_back(std::move(sum));
  }
  std::stable_sort(exposed.begin(), exposed.end(),
                   [](const auto& a, const auto& b) { return a.exposed > b.exposed; });
  return exposed;
}

// Replaces numbers by '*'.
std::string Pattern(const std::string& name) {
  std::string pattern;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    // A digit within a word ("fc1") is kept.
    const bool in_word = !pattern.empty() && ((pattern.back() >= 'a' && pattern.back() <= 'z') ||
                                              (pattern.back() >= '0' && pattern.back() <= '9'));
    if (digit && !in_word) {
      if (pattern.empty() || pattern.back() != '*') pattern += '*';
    } else {
      pattern += c;
    }
  }
  return pattern;
}

// Natural order: layer 2 before layer 10.
struct ByNumber {
  bool operator()(const std::string& a, const std::string& b) const {
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    std::size_t i = 0, j = 0;
    while (i < a.size() && j < b.size()) {
      if (!digit(a[i]) || !digit(b[j])) {
        if (a[i] != b[j]) return a[i] < b[j];
        ++i, ++j;
        continue;
      }
      while (i + 1 < a.size() && a[i] == '0' && digit(a[i + 1])) ++i;
      while (j + 1 < b.size() && b[j] == '0' && digit(b[j + 1])) ++j;
      const std::size_t end_a = std::min(a.find_first_not_of("0123456789", i), a.size());
      const std::size_t end_b = std::min(b.find_first_not_of("0123456789", j), b.size());
      if (end_a - i != end_b - j) return end_a - i < end_b - j;
      const int order = a.compare(i, end_a - i, b, j, end_b - j);
      if (order != 0) return order < 0;
      i = end_a;
      j = end_b;
    }
    if (i < a.size() || j < b.size()) return j < b.size();
    return a < b;  // but for leading zeros the same
  }
};

void ExplainMemory(const ClassRun& run, Explanation& explanation) {
  std::map<std::pair<std::string, program::Category>, PeakContent> contents;
  std::map<std::string, Bytes, ByNumber> layers;
  for (const program::Index index : memory::BuffersAtPeak(run.program, run.memory)) {
    const program::Buffer& buffer = run.program.buffers[index];
    if (buffer.size == Bytes(0)) continue;
    const std::string name = run.program.NameOf(buffer);
    PeakContent& content = contents[{Pattern(name), buffer.category}];
    content.name = Pattern(name);
    content.category = buffer.category;
    content.count += 1;
    content.total += buffer.size;
    layers[name.substr(0, name.find('/'))] += buffer.size;
  }
  for (auto& [key, content] : contents) explanation.contents.push_back(std::move(content));
  for (auto& [layer, total] : layers) explanation.layers.push_back({layer, total});
  const auto larger = [](const auto& a, const auto& b) { return a.total > b.total; };
  std::stable_sort(explanation.contents.begin(), explanation.contents.end(), larger);
  std::stable_sort(explanation.layers.begin(), explanation.layers.end(), larger);
}

}  // namespace

Result<Explanation> Explain(const scenario::Scenario& scenario) {
  STEPCAST_TAKE(const auto classes, PricedClassesOf(scenario));
  STEPCAST_TAKE(auto run, SimulateAt(scenario, classes));
  Explanation explanation;
  const ClassRun& critical = run.critical_class();
  const auto& ends = critical.timeline.step_ends;
  const Time start = ends[run.first_step - 1], end = ends[run.first_step];
  PathShares shares(critical);
  for (const PathPart& part : CriticalPath(critical.program, critical.timeline, start, end)) {
    shares.Add(part);
  }
  explanation.path = shares.Take();
  explanation.path_length = end - start;
  if (const Time flushes = run.forecast.time.allocator_flushes; flushes > Time()) {
    explanation.path.push_back({"allocator flushes", "the driver's calls", flushes, Time()});
    std::stable_sort(explanation.path.begin(), explanation.path.end(),
                     [](const PathShare& a, const PathShare& b) { return a.time > b.time; });
    explanation.path_length += flushes;
  }
  explanation.exposed = Exposed(critical, run.first_step);
  STEPCAST_TAKE(explanation.speed_that_hides, SpeedThatHides(scenario, classes, run, kHiddenPart));
  STEPCAST_TAKE(auto what_if, WhatIfFaster(scenario, classes, run, kFaster));
  explanation.what_if = std::move(what_if);
  std::stable_sort(explanation.what_if.begin(), explanation.what_if.end(),
                   [](const WhatIf& a, const WhatIf& b) { return a.step_time < b.step_time; });
  ExplainMemory(run.fullest_class(), explanation);
  explanation.forecast = std::move(run.forecast);
  return explanation;
}

}  // namespace stepcast::forecast
