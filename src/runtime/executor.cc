#include "src/runtime/executor.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/program/description.h"

namespace stepcast::runtime {
namespace {

// The quickest messages give the tightest bounds; a few dozen rounds include quick ones.
constexpr int kRounds = 32;

// Identifies the running machine: processes with the same id share CLOCK_MONOTONIC.
std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace

std::int64_t MonotonicNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Attempt<ClockOffset> CompareClocks(Job& job) {
  const Place& place = job.place();
  ClockOffset result;
  if (place.ranks == 1) {
    result.at = MonotonicNanoseconds();
    return result;
  }
  const std::string own_id = BootId();
  STEPCAST_TAKE(const std::string first_id, job.Broadcast(own_id));
  const bool same = !own_id.empty() && own_id == first_id;
  STEPCAST_TAKE(const std::vector<std::string> answers, job.Gather(same ? "y" : "n"));
  const bool all_here = std::all_of(answers.begin(), answers.end(),
                                    [](const std::string& answer) { return answer == "y"; });
  STEPCAST_TAKE(const std::string rounds, job.Broadcast(all_here ? "0" : std::to_string(kRounds)));

  std::int64_t low = std::numeric_limits<std::int64_t>::min() / 2;
  std::int64_t high = std::numeric_limits<std::int64_t>::max() / 2;
  for (int round = std::atoi(rounds.c_str()); round > 0; --round) {
    STEPCAST_TAKE(const std::string sent, job.Broadcast(std::to_string(MonotonicNanoseconds())));
    const std::int64_t came = MonotonicNanoseconds();
    high = std::min(high, came - static_cast<std::int64_t>(std::atoll(sent.c_str())));

    const std::int64_t answered = MonotonicNanoseconds();
    STEPCAST_TRY(job.Gather(""));
    STEPCAST_TAKE(const std::string arrived, job.Broadcast(std::to_string(MonotonicNanoseconds())));
    low = std::max(low, answered - static_cast<std::int64_t>(std::atoll(arrived.c_str())));
  }
  result.at = MonotonicNanoseconds();
  if (same || place.rank == 0) return result;
  result.ahead = low + (high - low) / 2;
  result.uncertain = (high - low + 1) / 2;
  return result;
}

double Drift(const ClockOffset& before, const ClockOffset& after) {
  if (after.at <= before.at) return 0;
  return static_cast<double>(after.ahead - before.ahead) /
         static_cast<double>(after.at - before.at);
}

namespace {

using program::Index;
using program::Instruction;
using program::kNone;
using program::Opcode;

// Starts in host order, by communicator. Messages are keyed by communicator, sender and receiver.
using Starts = std::map<std::string, std::vector<std::int64_t>, std::less<>>;

// A key that is equal on all members of the communicator's group, and on no other ranks.
std::string Key(const program::Program& program, program::Index communicator) {
  const program::Communicator& one = program.communicators[communicator];
  return fmt::format("{}:{}", one.name, fmt::join(program.groups[one.group].ranks, ","));
}

void AppendNumber(std::string& bytes, std::int64_t number) {
  char raw[sizeof(number)];
  std::memcpy(raw, &number, sizeof(number));
  bytes.append(raw, sizeof(number));
}

std::string Encode(const Starts& starts) {
  std::string bytes;
  for (const auto& [key, times] : starts) {
    AppendNumber(bytes, static_cast<std::int64_t>(key.size()));
    bytes += key;
    AppendNumber(bytes, static_cast<std::int64_t>(times.size()));
    for (const std::int64_t time : times) AppendNumber(bytes, time);
  }
  return bytes;
}

std::int64_t TakeNumber(std::string_view& bytes) {
  std::int64_t number = 0;
  if (bytes.size() < sizeof(number)) {
    bytes = {};
    return 0;
  }
  std::memcpy(&number, bytes.data(), sizeof(number));
  bytes.remove_prefix(sizeof(number));
  return number;
}

// Keeps the later of the stored and the received start.
void MergeLatest(std::string_view bytes, Starts& starts) {
  while (!bytes.empty()) {
    const auto length = std::min(static_cast<std::size_t>(TakeNumber(bytes)), bytes.size());
    const std::string key(bytes.substr(0, length));
    bytes.remove_prefix(length);
    const auto count =
        std::min(static_cast<std::size_t>(TakeNumber(bytes)), bytes.size() / sizeof(std::int64_t));
    std::vector<std::int64_t>& times = starts[key];
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t time = TakeNumber(bytes);
      if (i < times.size()) {
        times[i] = std::max(times[i], time);
      } else {
        times.push_back(time);
      }
    }
  }
}

// Sets the start of each collective's record to the time at which its last member was ready, but
// not after the record's end. No member alone knows that time, so ranks exchange their ready times.
// `records` are the records of this rank, in any order; all ranks share one clock. All ranks of the
// job call this function together, with the same steps.
Attempt<void> AgreeOnCollectiveStarts(const program::Program& program, Job& job,
                                      std::span<program::OperationRecord> records) {
  if (job.place().ranks == 1) return {};
  std::vector<std::pair<program::Index, program::OperationRecord*>> collectives;
  for (program::OperationRecord& record : records) {
    const program::Index communicator =
        program::CommunicatorOf(program, program.step[record.instruction]);
    if (communicator != program::kNone) collectives.emplace_back(communicator, &record);
  }
  std::sort(collectives.begin(), collectives.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second->step, a.second->instruction) <
           std::tie(b.first, b.second->step, b.second->instruction);
  });
  std::vector<std::string> keys;
  for (program::Index c = 0; c < program.communicators.size(); ++c) {
    keys.push_back(Key(program, c));
  }
  // The keys that a record shares with records of other ranks: the collective of a communicator, or
  // the messages of an exchange.
  const auto keys_of = [&](program::Index communicator, const program::OperationRecord& record) {
    const program::Instruction& instruction = program.step[record.instruction];
    if (instruction.opcode == program::Opcode::kCollective) {
      return std::vector<std::string>{keys[communicator]};
    }
    const program::Exchange& exchange = program.exchanges[instruction.operand];
    const program::ProcessGroup& group = program.groups[program.communicators[communicator].group];
    const int position = group.PositionOf(job.place().rank);
    std::vector<std::string> messages;
    for (const program::Message& message : exchange.messages) {
      const int peer =
          exchange.PeerPosition(message, position, static_cast<int>(group.ranks.size()));
      const bool sends = message.direction == program::MessageDirection::kSend;
      messages.push_back(fmt::format("{}:{}>{}", keys[communicator], sends ? position : peer,
                                     sends ? peer : position));
    }
    return messages;
  };
  Starts own;
  for (const auto& [communicator, record] : collectives) {
    for (const std::string& key : keys_of(communicator, *record)) {
      own[key].push_back(record->start.picoseconds());
    }
  }
  STEPCAST_TAKE(const std::vector<std::string> all, job.Gather(Encode(own)));
  Starts merged;
  for (const std::string& bytes : all) MergeLatest(bytes, merged);
  STEPCAST_TAKE(const std::string told, job.Broadcast(Encode(merged)));
  Starts latest;
  MergeLatest(told, latest);

  std::map<std::string, std::size_t> next;
  for (const auto& [communicator, record] : collectives) {
    for (const std::string& key : keys_of(communicator, *record)) {
      const std::vector<std::int64_t>& times = latest[key];
      const std::size_t at = next[key]++;
      if (at >= times.size()) continue;
      record->start = std::clamp(Time::FromPicoseconds(times[at]), record->start, record->end);
    }
  }
  return {};
}

// Time from rank 0's message to the common start, so that the message reaches all ranks first.
constexpr std::int64_t kStartDelayNanoseconds = 5'000'000;
// A host wait shorter than this was already satisfied; querying takes time too.
constexpr Time kLookTime = Microseconds(5);

void SleepUntil(std::int64_t monotonic_nanoseconds) {
  timespec until{};
  until.tv_sec = monotonic_nanoseconds / 1'000'000'000;
  until.tv_nsec = monotonic_nanoseconds % 1'000'000'000;
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

// While it lives, the device counts and names operations.
class Reporting {
 public:
  Reporting(Device& device, Progress& progress)
      : device_(device), by_device_(device.ReportTo(&progress)) {}
  ~Reporting() { device_.ReportTo(nullptr); }
  Reporting(const Reporting&) = delete;
  Reporting& operator=(const Reporting&) = delete;

  bool by_device() const { return by_device_; }

 private:
  Device& device_;
  bool by_device_;
};

class Execution {
 public:
  Execution(const program::Program& program, Device& device, Job& job,
            const ExecuteOptions& options, Progress& progress)
      : program_(program),
        device_(device),
        job_(job),
        options_(options),
        progress_(progress),
        reporting_(device, progress) {}

  Attempt<Measurement> Run();

 private:
  struct Issue {
    OperationId operation;
    Time time;
  };

  Attempt<void> RunPrologue();
  Attempt<void> Capture();
  Attempt<void> RunSteps(std::uint32_t first, std::uint32_t count);
  Attempt<void> IssueStep(std::uint32_t step);
  Attempt<void> IssueOne(OperationId operation, const Instruction& instruction);
  Attempt<void> StartTogether();
  Attempt<Measurement> Collect();

  // Converts the device's time to rank 0's, with zero at the common start.
  Time Shared(Time device_time) const;

  tl::unexpected<Failure> Name(Failure failure) const;
  tl::unexpected<Failure> Name(Failure failure, OperationId operation,
                               const Instruction* instruction) const;

  const program::Program& program_;
  Device& device_;
  Job& job_;
  const ExecuteOptions& options_;
  Progress& progress_;
  Reporting reporting_;

  bool recording_ = false;
  std::uint64_t wait_calls_ = 0;       // calls of Device::Wait so far
  std::uint64_t first_wait_call_ = 0;  // the first that is recorded
  std::vector<OperationId> wait_operations_;
  std::vector<Issue> issues_;  // of operations, in host order
  std::vector<OperationTimes> host_tasks_;
  std::vector<program::WaitRecord> host_waits_;
  std::vector<program::MemoryRecord> memory_;
  std::vector<Time> issued_;  // by measured step: its last instruction

  ClockOffset before_, after_;
  Time device_at_before_;   // the device's clock at before_.at
  std::int64_t start_ = 0;  // the common start: ns by rank 0's CLOCK_MONOTONIC
};

tl::unexpected<Failure> Execution::Name(Failure failure, OperationId operation,
                                        const Instruction* instruction) const {
  const Place& place = job_.place();
  std::string where = fmt::format("rank {}", place.rank);
  if (place.nodes > 1) where += fmt::format(" on {}", place.host);
  if (failure.operation && *failure.operation != operation) {
    operation = *failure.operation;
    instruction = operation.instruction == kNone ? nullptr : &program_.step[operation.instruction];
  }
  if (operation.instruction != kNone) {
    where += fmt::format(", step {}", operation.step + 1);
  } else if (instruction != nullptr || failure.operation) {
    where += ", before the first step";
  }
  if (instruction != nullptr) where += ", " + program::Describe(program_, *instruction);
  failure.message = where + ": " + failure.message;
  return tl::unexpected(std::move(failure));
}

tl::unexpected<Failure> Execution::Name(Failure failure) const {
  return Name(std::move(failure), OperationId{}, nullptr);
}

Attempt<void> Execution::IssueOne(OperationId operation, const Instruction& instruction) {
  if (!reporting_.by_device() && operation.instruction != kNone) {
    progress_.step.store(operation.step, std::memory_order_relaxed);
    progress_.instruction.store(operation.instruction, std::memory_order_relaxed);
  }
  const Index operand = instruction.operand;
  switch (instruction.opcode) {
    case Opcode::kKernel:
    case Opcode::kCopy:
    case Opcode::kCollective:
    case Opcode::kExchange: {
      Attempt<void> launched = device_.Launch(operation, instruction);
      if (recording_) issues_.push_back({operation, device_.Now()});
      if (!reporting_.by_device()) progress_.operations.fetch_add(1, std::memory_order_relaxed);
      return launched;
    }
    case Opcode::kHostTask: {
      if (operation.instruction != kNone) {
        progress_.step.store(operation.step, std::memory_order_relaxed);
        progress_.instruction.store(operation.instruction, std::memory_order_relaxed);
      }
      const std::int64_t nanoseconds = program_.host_tasks[operand].duration.picoseconds() / 1000;
      const Time start = device_.Now();
      SleepUntil(MonotonicNanoseconds() + nanoseconds);
      if (recording_) host_tasks_.push_back({operation, start, start, device_.Now()});
      progress_.operations.fetch_add(1, std::memory_order_relaxed);
      return {};
    }
    case Opcode::kRecordEvent:
      return device_.Record(operand, instruction.stream);
    case Opcode::kWaitEvent:
      if (recording_) wait_operations_.push_back(operation);
      ++wait_calls_;
      return device_.Wait(operand, instruction.stream);
    case Opcode::kHostWaitEvent: {
      const Time start = device_.Now();
      Attempt<void> waited = device_.HostWait(operand);
      const Time end = device_.Now();
      if (recording_ && end - start > kLookTime) {
        host_waits_.push_back({operation.instruction, operation.step, start, end});
      }
      return waited;
    }
    case Opcode::kAllocate:
      if (recording_) memory_.push_back({operation.instruction, operation.step, device_.Now()});
      return device_.Allocate(operand, instruction.stream);
    case Opcode::kRelease:
      if (recording_) memory_.push_back({operation.instruction, operation.step, device_.Now()});
      return device_.Release(operand);
    case Opcode::kRecordStream:
      device_.RecordStream(operand, instruction.stream);
      return {};
  }
  return {};
}

Attempt<void> Execution::RunPrologue() {
  for (const Instruction& instruction : program_.prologue) {
    Attempt<void> issued = IssueOne(OperationId{}, instruction);
    if (!issued) return Name(issued.error(), OperationId{}, &instruction);
  }
  Attempt<void> done = device_.Synchronise();
  if (!done) return Name(done.error());
  return {};
}

Attempt<void> Execution::Capture() {
  for (Index i = 0; i < program_.step.size(); ++i) {
    const Opcode opcode = program_.step[i].opcode;
    if (opcode == Opcode::kHostTask || opcode == Opcode::kHostWaitEvent) {
      return Name(Failure{"a step with host tasks or host waits cannot be captured"},
                  OperationId{i, 0}, &program_.step[i]);
    }
  }
  Attempt<void> begun = device_.BeginCapture();
  if (!begun) return Name(begun.error());
  for (Index i = 0; i < program_.step.size(); ++i) {
    const OperationId operation{i, 0};
    Attempt<void> issued = IssueOne(operation, program_.step[i]);
    if (!issued) return Name(issued.error(), operation, &program_.step[i]);
  }
  Attempt<void> ended = device_.EndCapture();
  if (!ended) return Name(ended.error());
  return {};
}

Attempt<void> Execution::IssueStep(std::uint32_t step) {
  if (options_.graph) {
    const Time begin = device_.Now();
    Attempt<void> replayed = device_.Replay(step);
    if (!replayed) return Name(replayed.error());
    if (!recording_) return {};
    const Time issued = device_.Now();
    for (Index i = 0; i < program_.step.size(); ++i) {
      const Opcode opcode = program_.step[i].opcode;
      if (program::IsLaunched(opcode)) {
        issues_.push_back({{i, step}, issued});
      } else if (opcode == Opcode::kAllocate || opcode == Opcode::kRelease) {
        memory_.push_back({i, step, begin});
      }
    }
    return {};
  }
  for (Index i = 0; i < program_.step.size(); ++i) {
    const OperationId operation{i, step};
    Attempt<void> issued = IssueOne(operation, program_.step[i]);
    if (!issued) return Name(issued.error(), operation, &program_.step[i]);
  }
  return {};
}

Attempt<void> Execution::RunSteps(std::uint32_t first, std::uint32_t count) {
  for (std::uint32_t step = first; step < first + count; ++step) {
    STEPCAST_TRY(IssueStep(step));
    if (recording_) issued_.push_back(device_.Now());
    if (!options_.barrier) continue;
    if (Attempt<void> done = device_.Synchronise(); !done) return Name(done.error());
    if (Attempt<void> met = job_.Barrier(); !met) return Name(met.error());
  }
  if (Attempt<void> done = device_.Synchronise(); !done) return Name(done.error());
  return {};
}

Attempt<void> Execution::StartTogether() {
  if (Attempt<void> met = job_.Barrier(); !met) return Name(met.error());
  const Attempt<ClockOffset> compared = CompareClocks(job_);
  if (!compared) return Name(compared.error());
  before_ = *compared;
  // The closest pair of readings gives the offset between the device's clock and this rank's.
  std::int64_t closest = -1;
  for (int i = 0; i < 8; ++i) {
    const std::int64_t one = MonotonicNanoseconds();
    const Time device_now = device_.Now();
    const std::int64_t two = MonotonicNanoseconds();
    if (closest >= 0 && two - one >= closest) continue;
    closest = two - one;
    const std::int64_t between = one + closest / 2;
    device_at_before_ = device_now - Nanoseconds(between - before_.at);
  }
  const Attempt<std::string> start =
      job_.Broadcast(std::to_string(MonotonicNanoseconds() + kStartDelayNanoseconds));
  if (!start) return Name(start.error());
  start_ = static_cast<std::int64_t>(std::atoll(start->c_str()));
  SleepUntil(start_ + before_.ahead);
  return {};
}

Time Execution::Shared(Time device_time) const {
  const Time since = device_time - device_at_before_;
  const double gained = static_cast<double>(since.picoseconds()) * Drift(before_, after_);
  const Time start = Nanoseconds(start_ - (before_.at - before_.ahead));
  return since - Time::FromPicoseconds(static_cast<std::int64_t>(gained)) - start;
}

Attempt<Measurement> Execution::Collect() {
  const auto warmup = static_cast<std::uint32_t>(options_.warmup_steps);
  const Attempt<ClockOffset> compared = CompareClocks(job_);
  if (!compared) return Name(compared.error());
  after_ = *compared;
  const Attempt<std::vector<OperationTimes>> times = device_.TakeTimes();
  if (!times) return Name(times.error());

  Measurement measurement;
  measurement.memory = device_.Memory();
  program::Timeline& timeline = measurement.timeline;
  const auto earlier = [](const Issue& a, const Issue& b) {
    return std::tie(a.operation.step, a.operation.instruction) <
           std::tie(b.operation.step, b.operation.instruction);
  };
  const auto add = [&](const OperationTimes& one, Time issued) {
    timeline.operations.push_back({one.operation.instruction, one.operation.step - warmup,
                                   Shared(issued), Shared(one.ready), Shared(one.start),
                                   Shared(one.end)});
  };
  for (const OperationTimes& one : *times) {
    const auto issue =
        std::lower_bound(issues_.begin(), issues_.end(), Issue{one.operation, Time()}, earlier);
    STEPCAST_CHECK(issue != issues_.end() && issue->operation == one.operation,
                   "a device must report only operations that were launched");
    add(one, issue->time);
  }
  for (const OperationTimes& one : host_tasks_) add(one, one.start);
  if (Attempt<void> agreed = AgreeOnCollectiveStarts(program_, job_, timeline.operations);
      !agreed) {
    return Name(agreed.error());
  }
  std::sort(timeline.operations.begin(), timeline.operations.end(),
            [](const program::OperationRecord& a, const program::OperationRecord& b) {
              return std::tie(a.end, a.step, a.instruction) <
                     std::tie(b.end, b.step, b.instruction);
            });

  for (const WaitTimes& wait : device_.TakeWaits()) {
    if (wait.call < first_wait_call_) continue;
    const OperationId& operation = wait_operations_[wait.call - first_wait_call_];
    timeline.waits.push_back(
        {operation.instruction, operation.step - warmup, Shared(wait.start), Shared(wait.end)});
  }
  for (const program::WaitRecord& wait : host_waits_) {
    timeline.waits.push_back(
        {wait.instruction, wait.step - warmup, Shared(wait.start), Shared(wait.end)});
  }
  std::stable_sort(
      timeline.waits.begin(), timeline.waits.end(),
      [](const program::WaitRecord& a, const program::WaitRecord& b) { return a.end < b.end; });

  for (const program::MemoryRecord& record : memory_) {
    timeline.memory.push_back({record.instruction, record.step - warmup, Shared(record.time)});
  }

  for (const Time issued : issued_) timeline.step_ends.push_back(Shared(issued));
  for (const program::OperationRecord& record : timeline.operations) {
    Time& end = timeline.step_ends[record.step];
    end = std::max(end, record.end);
  }
  for (std::size_t step = 1; step < timeline.step_ends.size(); ++step) {
    timeline.step_ends[step] = std::max(timeline.step_ends[step], timeline.step_ends[step - 1]);
  }
  return measurement;
}

Attempt<Measurement> Execution::Run() {
  STEPCAST_CHECK(options_.warmup_steps >= 0 && options_.measured_steps >= 1,
                 "at least one step must be measured");
  const auto warmup = static_cast<std::uint32_t>(options_.warmup_steps);
  const auto measured = static_cast<std::uint32_t>(options_.measured_steps);
  const auto failed = [](Attempt<void>& attempt) {
    return tl::unexpected(std::move(attempt.error()));
  };
  if (Attempt<void> done = RunPrologue(); !done) return failed(done);
  if (options_.graph) {
    if (Attempt<void> done = Capture(); !done) return failed(done);
  }
  if (Attempt<void> done = RunSteps(0, warmup); !done) return failed(done);
  // Times of the warm-up are dropped.
  const Attempt<std::vector<OperationTimes>> dropped = device_.TakeTimes();
  if (!dropped) return Name(dropped.error());
  device_.TakeWaits();

  recording_ = true;
  first_wait_call_ = wait_calls_;
  const std::size_t operations = program_.step.size() * measured;
  issues_.reserve(operations);
  wait_operations_.reserve(operations);
  memory_.reserve(operations);
  if (Attempt<void> done = StartTogether(); !done) return failed(done);
  if (Attempt<void> done = RunSteps(warmup, measured); !done) return failed(done);
  recording_ = false;
  return Collect();
}

}  // namespace

Attempt<Measurement> Execute(const program::Program& program, Device& device, Job& job,
                             const ExecuteOptions& options, Progress& progress) {
  return Execution(program, device, job, options, progress).Run();
}

}  // namespace stepcast::runtime
