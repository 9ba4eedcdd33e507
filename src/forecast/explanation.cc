#include "src/forecast/explanation.h"

#include <algorithm>
#include <map>
#include <utility>

#include "fmt/format.h"
#include "src/forecast/critical_path.h"
#include "src/forecast/exposed_communication.h"
#include "src/forecast/forecast.h"
#include "src/memory/account.h"
#include "src/program/description.h"

namespace stepcast::forecast {
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

// What an operation is called, what it would take alone, and which resource limits it.
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
      // The longest of its messages.
      const program::Exchange& exchange = run.program.exchanges[instruction.operand];
      const std::vector<cost::MessagePrice>& messages = run.prices.exchanges[instruction.operand];
      const auto longest = std::max_element(
          messages.begin(), messages.end(),
          [](const auto& a, const auto& b) { return a.demand.alone() < b.demand.alone(); });
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

// The resource that limits the work: a collective's burden on compute and memory never does.
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
    if (described.demand.alone() == Time()) {
      Add(described.name, Name(MachineResource::kLaunch), length, Time());
      return;
    }
    // A part may be cut at the step's begin; what is left of it is its end.
    const Time slowed = std::max(Time(), length - described.demand.alone());
    const Time work = std::min(length, described.demand.work_alone() + slowed);
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

// Numbers replaced by '*'.
std::string Pattern(const std::string& name) {
  std::string pattern;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    // A digit that is part of a word ("fc1") stays.
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

// As people count: layer 2 before layer 10.
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
  const auto classes = PricedClassesOf(scenario);
  if (!classes) return tl::unexpected(classes.error());
  auto run = SimulateAt(scenario, *classes);
  if (!run) return tl::unexpected(std::move(run.error()));
  Explanation explanation;
  const ClassRun& critical = run->critical_class();
  const auto& ends = critical.timeline.step_ends;
  const Time start = ends[run->first_step - 1], end = ends[run->first_step];
  PathShares shares(critical);
  for (const PathPart& part : CriticalPath(critical.program, critical.timeline, start, end)) {
    shares.Add(part);
  }
  explanation.path = shares.Take();
  explanation.path_length = end - start;
  if (const Time flushes = run->forecast.time.allocator_flushes; flushes > Time()) {
    explanation.path.push_back({"allocator flushes", "the driver's calls", flushes, Time()});
    std::stable_sort(explanation.path.begin(), explanation.path.end(),
                     [](const PathShare& a, const PathShare& b) { return a.time > b.time; });
    explanation.path_length += flushes;
  }
  explanation.exposed = Exposed(critical, run->first_step);
  const auto speed = SpeedThatHides(scenario, *classes, *run, kHiddenPart);
  if (!speed) return tl::unexpected(speed.error());
  explanation.speed_that_hides = *speed;
  auto what_if = WhatIfFaster(scenario, *classes, *run, kFaster);
  if (!what_if) return tl::unexpected(std::move(what_if.error()));
  explanation.what_if = std::move(*what_if);
  std::stable_sort(explanation.what_if.begin(), explanation.what_if.end(),
                   [](const WhatIf& a, const WhatIf& b) { return a.step_time < b.step_time; });
  ExplainMemory(run->fullest_class(), explanation);
  explanation.forecast = std::move(run->forecast);
  return explanation;
}

}  // namespace stepcast::forecast
