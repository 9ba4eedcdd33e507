// Properties of all programs, tested on random ones with several streams, events in all directions,
// host waits, two communicators, a prologue, and a few steps.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/base/time.h"
#include "src/cost/demand.h"
#include "src/cost/prices.h"
#include "src/program/description.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/simulate/simulate.h"
#include "tests/examples/test_program.h"

namespace stepcast::simulate {
namespace {

using program::Index;
using program::Instruction;
using program::Opcode;
using program::OperationRecord;
using program::Program;
using program::TestProgram;
using program::Timeline;

struct Case {
  Program program;
  cost::Prices prices;
  Options options;
};

constexpr int kStreams = 3;
constexpr int kEvents = 3;
constexpr int kKernels = 4;
constexpr int kCollectives = 4;
constexpr int kExchanges = 2;

cost::Demand AnyDemand(bool sharing) {
  cost::Demand demand;
  demand.latency = Picoseconds(*rc::gen::element(0, 0, 1, 700, 4000));
  demand.work = Picoseconds(*rc::gen::element(0, 1, 50, 999, 5000, 20001));
  if (sharing) {
    for (double& share : demand.share) share = *rc::gen::element(0.0, 0.0, 0.1, 0.35, 0.5, 1.0);
  }
  return demand;
}

enum class Shape {
  kAny,
  kLayered,     // parts of the step are repeated in sequence
  kOverlapped,  // one stream computes, another communicates its results
};

rc::Gen<Case> AnyCase(bool sharing, Shape shape = Shape::kAny) {
  return rc::gen::exec([sharing, shape] {
    Case any;
    TestProgram test(kStreams);
    for (int e = 0; e < kEvents; ++e) test.AddEvent("event");
    for (int k = 0; k < kKernels; ++k) {
      test.AddKernel("kernel");
      any.prices.kernels.push_back(AnyDemand(sharing));
    }
    test.AddCommunicator("data", {0, 1});
    test.AddCommunicator("tensor", {0, 1});
    for (int c = 0; c < kCollectives; ++c) {
      test.AddCollective(CollectiveKind::kAllReduce, static_cast<Index>(c % 2), Bytes(64 + c));
      cost::CollectivePrice price;
      price.demand = AnyDemand(sharing);
      any.prices.collectives.push_back(price);
    }
    // Each rank sends to the next one and receives from the previous one.
    for (int e = 0; e < kExchanges; ++e) {
      test.AddExchange(static_cast<Index>(e),
                       {TestProgram::Send(1, Bytes(8)), TestProgram::Receive(-1, Bytes(8))},
                       program::PeerNaming::kDistance);
      for (cost::MessagePrice& price : any.prices.exchanges.emplace_back(2)) {
        price.demand = AnyDemand(sharing);
      }
    }
    any.prices.issue_kernel = Picoseconds(*rc::gen::element(0, 30, 3000));
    any.prices.issue_collective = Picoseconds(*rc::gen::element(0, 10, 6000));
    const Index buffer = test.AddBuffer("buffer", Bytes(64));
    const auto any_instruction = [&test, buffer]() -> std::function<void()> {
      const int stream = *rc::gen::inRange(0, kStreams);
      const auto event = static_cast<Index>(*rc::gen::inRange(0, kEvents));
      switch (*rc::gen::inRange(0, 14)) {
        case 0:
        case 1:
          return [&test, stream, event] { test.Record(stream, event); };
        case 2:
        case 3:
        case 4:
          return [&test, stream, event] { test.Wait(stream, event); };
        case 5:
          return [&test, event] { test.HostWait(event); };
        case 6: {
          const Time duration = Picoseconds(*rc::gen::inRange(0, 5000));
          return [&test, duration] { test.HostTask("task", duration); };
        }
        case 7:
        case 8: {
          const auto collective = static_cast<Index>(*rc::gen::inRange(0, kCollectives));
          return [&test, stream, collective] { test.Communicate(stream, collective); };
        }
        case 13: {
          const auto exchange = static_cast<Index>(*rc::gen::inRange(0, kExchanges));
          return [&test, stream, exchange] { test.Exchange(stream, exchange); };
        }
        case 9:
          return [&test, stream, buffer] { test.Allocate(stream, buffer).Release(buffer); };
        default: {
          const auto kernel = static_cast<Index>(*rc::gen::inRange(0, kKernels));
          return [&test, stream, kernel] { test.Run(stream, kernel); };
        }
      }
    };
    const auto add = [&] { any_instruction()(); };
    const auto add_layers = [&] {
      std::vector<std::function<void()>> layer;
      const int instructions = *rc::gen::inRange(1, 14);
      for (int i = 0; i < instructions; ++i) layer.push_back(any_instruction());
      const int layers = *rc::gen::inRange(3, 12);
      for (int i = 0; i < layers; ++i) {
        for (const auto& instruction : layer) instruction();
      }
    };
    // If communication takes longer, it falls further and further behind.
    const auto add_overlap = [&] {
      const auto bucket = static_cast<Index>(*rc::gen::inRange(0, kEvents));
      const auto collective = static_cast<Index>(*rc::gen::inRange(0, kCollectives));
      const bool waits = *rc::gen::inRange(0, 3) > 0, records = *rc::gen::inRange(0, 3) == 0;
      const int buckets = *rc::gen::inRange(1, 8);
      for (int i = 0; i < buckets; ++i) {
        const int kernels = *rc::gen::inRange(0, 6);
        for (int k = 0; k < kernels; ++k) {
          test.Run(0, static_cast<Index>(*rc::gen::inRange(0, kKernels)));
        }
        test.Record(0, bucket);
        if (waits) test.Wait(1, bucket);
        test.Communicate(1, collective);
        if (records) test.Record(1, (bucket + 1) % kEvents);
      }
    };
    const int prologue = *rc::gen::inRange(0, 6);
    for (int i = 0; i < prologue; ++i) add();
    test.Step();
    const int step = *rc::gen::inRange(0, shape == Shape::kAny ? 25 : 8);
    for (int i = 0; i < step; ++i) {
      const bool alone = *rc::gen::inRange(0, 3) > 0;
      if (shape == Shape::kLayered && !alone) {
        add_layers();
      } else if (shape == Shape::kOverlapped && alone) {
        add_overlap();
      } else {
        add();
      }
    }
    any.program = test.program();
    any.options.steps = *rc::gen::inRange(1, 4);
    any.options.barrier = *rc::gen::weightedElement<bool>({{3, false}, {1, true}});
    return any;
  });
}

// The simulator can be queried about the run afterward.
Timeline RunCase(const Case& any, Simulator& simulator) {
  const RankClass one = {&any.program, &any.prices, 0};
  const auto timelines = simulator.Run({&one, 1}, any.options);
  RC_ASSERT(timelines.has_value());  // one class alone cannot deadlock
  return timelines->front();
}
Timeline RunCase(const Case& any) {
  Simulator simulator;
  return RunCase(any, simulator);
}

// An operation's uncontended time and its work. An exchange of one class of ranks sends what it
// receives, as one message that uses both ends' resources.
struct Work {
  Time latency, work;
  std::array<double, cost::kResources> done{};  // of each resource, in picoseconds of full use
  Time uncontended() const { return latency + work; }
};
Work WorkOf(const Case& any, const Instruction& instruction) {
  Work sum;
  const auto add = [&](cost::Demand demand) {
    sum.latency = std::max(sum.latency, demand.latency);
    sum.work = std::max(sum.work, demand.work);
    // A collective receives as much as it sends.
    if (instruction.opcode == Opcode::kCollective) {
      const auto share = [&](cost::Resource resource) -> double& {
        return demand.share[static_cast<std::size_t>(resource)];
      };
      share(cost::Resource::kScaleUpIn) = share(cost::Resource::kScaleUp);
      share(cost::Resource::kNetworkIn) = share(cost::Resource::kNetwork);
    }
    for (std::size_t r = 0; r < sum.done.size(); ++r) {
      sum.done[r] += demand.share[r] * static_cast<double>(demand.work.picoseconds());
    }
  };
  if (instruction.opcode == Opcode::kCollective) {
    add(any.prices.collectives[instruction.operand].demand);
  } else if (instruction.opcode == Opcode::kExchange) {
    for (const auto& message : any.prices.exchanges[instruction.operand]) add(message.demand);
  } else {
    add(any.prices.kernels[instruction.operand]);
  }
  return sum;
}

bool Same(const OperationRecord& a, const OperationRecord& b) {
  return a.instruction == b.instruction && a.step == b.step && a.issued == b.issued &&
         a.ready == b.ready && a.start == b.start && a.end == b.end;
}
bool Same(const Timeline& a, const Timeline& b) {
  return a.step_ends == b.step_ends &&
         std::equal(
             a.operations.begin(), a.operations.end(), b.operations.begin(), b.operations.end(),
             [](const OperationRecord& x, const OperationRecord& y) { return Same(x, y); }) &&
         std::equal(a.waits.begin(), a.waits.end(), b.waits.begin(), b.waits.end(),
                    [](const program::WaitRecord& x, const program::WaitRecord& y) {
                      return x.instruction == y.instruction && x.step == y.step &&
                             x.start == y.start && x.end == y.end;
                    });
}

// Without sharing, every time follows from earlier ones in host order by + and max. This is that
// recurrence, directly from program.h, without events or queues. Classes run the same program with
// their own prices, instruction by instruction side by side. All are members of every communicator;
// exchanges go to the next class, and from the last to the first.
class Recurrence {
 public:
  Recurrence(const Program& program, const Options& options,
             const std::vector<const cost::Prices*>& prices)
      : program_(program), options_(options) {
    for (const cost::Prices* p : prices) {
      Rank rank;
      rank.prices = p;
      rank.stream.resize(program.streams.size());
      rank.event.resize(program.events.size());
      ranks_.push_back(std::move(rank));
    }
    for (Rank& rank : ranks_) rank.turn.resize(program.communicators.size());
  }

  std::vector<Timeline> Run() {
    for (int pass = 0; pass <= options_.steps; ++pass) {
      const std::vector<Instruction>& instructions = pass == 0 ? program_.prologue : program_.step;
      for (Rank& rank : ranks_) rank.pass_end = Time();
      for (Index i = 0; i < instructions.size(); ++i) {
        if (instructions[i].opcode == Opcode::kCollective) {
          Communicate(instructions[i], i, pass);
        } else if (instructions[i].opcode == Opcode::kExchange) {
          Exchange(instructions[i], i, pass);
        } else {
          for (Rank& rank : ranks_) Issue(rank, instructions[i], i, pass);
        }
      }
      Time all_end;
      for (Rank& rank : ranks_) {
        rank.pass_end = std::max(rank.pass_end, rank.host);
        all_end = std::max(all_end, rank.pass_end);
      }
      for (Rank& rank : ranks_) {
        if (options_.barrier) rank.host = all_end;
        if (pass == 0) continue;
        rank.last_end = std::max(rank.last_end, rank.pass_end);
        rank.timeline.step_ends.push_back(rank.last_end);
      }
    }
    std::vector<Timeline> timelines;
    for (Rank& rank : ranks_) {
      auto& operations = rank.timeline.operations;
      std::stable_sort(
          operations.begin(), operations.end(),
          [](const OperationRecord& a, const OperationRecord& b) { return a.end < b.end; });
      timelines.push_back(std::move(rank.timeline));
    }
    return timelines;
  }

 private:
  struct Rank {
    const cost::Prices* prices = nullptr;
    Time host;
    std::vector<Time> stream;  // when it is free
    std::vector<Time> event;   // zero: never recorded, nothing to wait for
    std::vector<Time> turn;    // when a communicator is free
    Time pass_end;
    Time last_end;
    Timeline timeline;
  };

  void Keep(Rank& rank, OperationRecord record, Index index, int pass) {
    rank.pass_end = std::max(rank.pass_end, record.end);
    if (pass == 0) return;
    record.instruction = index;
    record.step = static_cast<std::uint32_t>(pass - 1);
    rank.timeline.operations.push_back(record);
  }

  void Issue(Rank& rank, const Instruction& instruction, Index index, int pass) {
    Time& host = rank.host;
    Time& free = rank.stream[instruction.stream];
    OperationRecord record;
    switch (instruction.opcode) {
      case Opcode::kKernel:
        host += rank.prices->issue_kernel;
        record.issued = host;
        record.ready = record.start = std::max(free, host);
        record.end = record.start + rank.prices->kernels[instruction.operand].uncontended();
        free = record.end;
        Keep(rank, record, index, pass);
        break;
      case Opcode::kHostTask:
        record.issued = record.ready = record.start = host;
        host += program_.host_tasks[instruction.operand].duration;
        record.end = host;
        Keep(rank, record, index, pass);
        break;
      case Opcode::kRecordEvent:
        free = std::max(free, host);
        rank.event[instruction.operand] = free;
        rank.pass_end = std::max(rank.pass_end, free);
        break;
      case Opcode::kWaitEvent:
        free = std::max(free, rank.event[instruction.operand]);
        rank.pass_end = std::max(rank.pass_end, free);
        break;
      case Opcode::kHostWaitEvent:
        host = std::max(host, rank.event[instruction.operand]);
        break;
      default:
        break;
    }
  }

  void Communicate(const Instruction& instruction, Index index, int pass) {
    const Index communicator = program_.collectives[instruction.operand].communicator;
    Time start;
    Time latency;
    Time work;
    for (Rank& rank : ranks_) {
      rank.host += rank.prices->issue_collective;
      start =
          std::max({start, rank.turn[communicator], rank.host, rank.stream[instruction.stream]});
      const cost::Demand& demand = rank.prices->collectives[instruction.operand].demand;
      latency = std::max(latency, demand.latency);
      work = std::max(work, demand.work);
    }
    for (Rank& rank : ranks_) {
      OperationRecord record;
      record.issued = rank.host;
      record.ready = std::max(rank.host, rank.stream[instruction.stream]);
      record.start = start;
      record.end = start + latency + work;
      rank.stream[instruction.stream] = rank.turn[communicator] = record.end;
      Keep(rank, record, index, pass);
    }
  }

  // The message from each rank to the next starts when both are ready.
  void Exchange(const Instruction& instruction, Index index, int pass) {
    const Index communicator = program_.exchanges[instruction.operand].communicator;
    std::vector<OperationRecord> records(ranks_.size());
    std::vector<Time> reached;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      rank.host += rank.prices->issue_collective;
      records[r].issued = rank.host;
      records[r].ready = std::max(rank.host, rank.stream[instruction.stream]);
      reached.push_back(std::max(records[r].ready, rank.turn[communicator]));
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const std::size_t next = (r + 1) % ranks_.size();
      const cost::Demand& sent = ranks_[r].prices->exchanges[instruction.operand][0].demand;
      const cost::Demand& received = ranks_[next].prices->exchanges[instruction.operand][1].demand;
      const Time start = std::max(reached[r], reached[next]);
      const Time end =
          start + std::max(sent.latency, received.latency) + std::max(sent.work, received.work);
      for (const std::size_t one : {r, next}) {
        records[one].start = std::max(records[one].start, start);
        records[one].end = std::max(records[one].end, end);
      }
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].stream[instruction.stream] = ranks_[r].turn[communicator] = records[r].end;
      Keep(ranks_[r], records[r], index, pass);
    }
  }

  const Program& program_;
  const Options& options_;
  std::vector<Rank> ranks_;
};

RC_GTEST_PROP(SimulateLaws, WithoutSharingItIsTheRecurrence, ()) {
  const Case any = *AnyCase(false);
  Timeline timeline = RunCase(any);
  timeline.waits.clear();
  RC_ASSERT(Same(timeline, Recurrence(any.program, any.options, {&any.prices}).Run().front()));
}

RC_GTEST_PROP(SimulateLaws, WithoutSharingClassesFollowTheRecurrenceTogether, ()) {
  Case any = *AnyCase(false);
  for (program::ProcessGroup& group : any.program.groups) group.ranks = {0, 1, 5};
  std::vector<cost::Prices> prices(3, any.prices);
  for (cost::Prices& own : prices) {
    for (cost::Demand& demand : own.kernels) demand = AnyDemand(false);
    for (cost::CollectivePrice& price : own.collectives) price.demand = AnyDemand(false);
    for (auto& exchange : own.exchanges) {
      for (cost::MessagePrice& price : exchange) price.demand = AnyDemand(false);
    }
    own.issue_kernel = Picoseconds(*rc::gen::element(0, 40, 2500));
  }
  const std::vector<RankClass> classes = {
      {&any.program, &prices[0], 0}, {&any.program, &prices[1], 1}, {&any.program, &prices[2], 5}};
  auto timelines = Simulate(classes, any.options);
  RC_ASSERT(timelines.has_value());
  const std::vector<Timeline> expected =
      Recurrence(any.program, any.options, {&prices[0], &prices[1], &prices[2]}).Run();
  for (std::size_t c = 0; c < classes.size(); ++c) {
    timelines->at(c).waits.clear();
    RC_ASSERT(Same(timelines->at(c), expected[c]));
  }
}

RC_GTEST_PROP(SimulateLaws, TheSameInputGivesTheSameRecords, ()) {
  const Case first = *AnyCase(true);
  const Case other = *AnyCase(true);
  const Timeline timeline = RunCase(first);
  RC_ASSERT(Same(timeline, RunCase(first)));
  // Another run in between has no effect.
  Simulator simulator;
  const RankClass other_class = {&other.program, &other.prices, 0};
  const RankClass first_class = {&first.program, &first.prices, 0};
  RC_ASSERT(simulator.Run({&other_class, 1}, other.options).has_value());
  const auto again = simulator.Run({&first_class, 1}, first.options);
  RC_ASSERT(again.has_value());
  RC_ASSERT(Same(timeline, again->front()));
}

// Whatever differs between successive programs, cached data of the first does not affect the
// second.
RC_GTEST_PROP(SimulateLaws, ASimilarProgramLeavesNoTrace, ()) {
  const Case first = *AnyCase(true);
  Case second = first;
  RC_PRE(!second.program.step.empty());
  Instruction& instruction =
      second.program.step[*rc::gen::inRange<std::size_t>(0, second.program.step.size())];
  switch (*rc::gen::inRange(0, 8)) {
    case 0:
      second.prices.kernels.front() = AnyDemand(true);
      break;
    case 1:
      second.prices.issue_kernel += Picoseconds(700);
      break;
    case 2:
      second.prices.issue_collective += Picoseconds(700);
      break;
    case 3:
      second.program.kernels.front().issuer = Issuer::kModule;
      second.prices.dispatch.module = Picoseconds(700);
      break;
    case 4:
      for (program::HostTask& task : second.program.host_tasks) task.duration += Picoseconds(700);
      break;
    case 5:
      second.program.collectives.front().communicator = 1;
      break;
    case 6:
      if (instruction.opcode == Opcode::kKernel) instruction.operand = kKernels - 1;
      break;
    default:
      if (instruction.opcode == Opcode::kKernel) instruction.stream = kStreams - 1;
      break;
  }
  Simulator simulator;
  RunCase(first, simulator);
  RC_ASSERT(Same(RunCase(second, simulator), RunCase(second)));
}

// A max-plus system is monotone. (Shared rates are not: a shorter operation may come to overlap
// another one and slow it.)
RC_GTEST_PROP(SimulateLaws, ShorterDurationsNeverMakeAStepLonger, ()) {
  const Case slow = *AnyCase(false);
  Case fast = slow;
  const auto shorten = [](Time& time) {
    time = Picoseconds(*rc::gen::inRange<std::int64_t>(0, time.picoseconds() + 1));
  };
  for (cost::Demand& demand : fast.prices.kernels) {
    shorten(demand.latency);
    shorten(demand.work);
  }
  for (cost::CollectivePrice& price : fast.prices.collectives) shorten(price.demand.work);
  for (auto& exchange : fast.prices.exchanges) {
    for (cost::MessagePrice& price : exchange) shorten(price.demand.work);
  }
  for (program::HostTask& task : fast.program.host_tasks) shorten(task.duration);
  shorten(fast.prices.issue_kernel);
  shorten(fast.prices.issue_collective);
  const Timeline slow_timeline = RunCase(slow);
  const Timeline fast_timeline = RunCase(fast);
  for (std::size_t s = 0; s < slow_timeline.step_ends.size(); ++s) {
    RC_ASSERT(fast_timeline.step_ends[s] <= slow_timeline.step_ends[s]);
  }
}

// The records of the step's operations in host order, by step.
std::vector<OperationRecord> InHostOrder(const Timeline& timeline) {
  std::vector<OperationRecord> records = timeline.operations;
  std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) {
    return std::pair(a.step, a.instruction) < std::pair(b.step, b.instruction);
  });
  return records;
}

RC_GTEST_PROP(SimulateLaws, StreamsAndCommunicatorsDoOneThingAtATimeInOrder, ()) {
  const Case any = *AnyCase(true);
  const Timeline timeline = RunCase(any);
  std::vector<Time> stream(kStreams);
  std::vector<Time> communicator(2);
  for (const OperationRecord& record : InHostOrder(timeline)) {
    const Instruction& instruction = any.program.step[record.instruction];
    RC_ASSERT(record.issued <= record.ready);
    RC_ASSERT(record.ready <= record.start);
    RC_ASSERT(record.start <= record.end);
    if (instruction.opcode == Opcode::kHostTask) continue;
    RC_ASSERT(record.start >= stream[instruction.stream]);
    stream[instruction.stream] = record.end;
    const Index of = program::CommunicatorOf(any.program, instruction);
    if (of == program::kNone) continue;
    Time& last = communicator[of];
    RC_ASSERT(record.start >= last);
    last = record.end;
  }
}

// Operations after a wait start after all operations before its record.
RC_GTEST_PROP(SimulateLaws, OperationsStartAfterTheirWaits, ()) {
  const Case any = *AnyCase(true);
  const Timeline timeline = RunCase(any);
  std::map<std::pair<std::uint32_t, Index>, OperationRecord> records;
  for (const OperationRecord& record : timeline.operations) {
    records[{record.step, record.instruction}] = record;
  }
  std::vector<Time> stream(kStreams);        // end of its last operation
  std::vector<Time> stream_after(kStreams);  // end of what it has waited for
  std::vector<Time> event(kEvents);
  Time host_after;
  for (std::uint32_t step = 0; step < static_cast<std::uint32_t>(any.options.steps); ++step) {
    for (Index i = 0; i < any.program.step.size(); ++i) {
      const Instruction& instruction = any.program.step[i];
      switch (instruction.opcode) {
        case Opcode::kRecordEvent:
          event[instruction.operand] =
              std::max(stream[instruction.stream], stream_after[instruction.stream]);
          break;
        case Opcode::kWaitEvent: {
          Time& after = stream_after[instruction.stream];
          after = std::max(after, event[instruction.operand]);
          break;
        }
        case Opcode::kHostWaitEvent:
          host_after = std::max(host_after, event[instruction.operand]);
          break;
        case Opcode::kAllocate:
        case Opcode::kRelease:
          break;
        default: {
          const OperationRecord& record = records.at({step, i});
          RC_ASSERT(record.issued >= host_after);
          if (instruction.opcode == Opcode::kHostTask) break;
          RC_ASSERT(record.start >= stream_after[instruction.stream]);
          stream[instruction.stream] = record.end;
        }
      }
    }
  }
}

// From the start of one operation to the end of another, a resource does no more work than the time
// allows; only operations wholly in between are counted. Shares are rounded down by less than
// 2^-24, which the last term allows for.
RC_GTEST_PROP(SimulateLaws, NoResourceIsUsedBeyondItsCapacity, ()) {
  const Case any = *AnyCase(true);
  const Timeline timeline = RunCase(any);
  std::vector<OperationRecord> records;
  for (const OperationRecord& record : timeline.operations) {
    const Instruction& instruction = any.program.step[record.instruction];
    if (instruction.opcode == Opcode::kHostTask) continue;
    RC_ASSERT(record.end - record.start >= WorkOf(any, instruction).uncontended());
    records.push_back(record);
  }
  for (const OperationRecord& first : records) {
    for (const OperationRecord& last : records) {
      if (last.end < first.start) continue;
      std::array<double, cost::kResources> done{};
      for (const OperationRecord& record : records) {
        if (record.start < first.start || record.end > last.end) continue;
        const Work work = WorkOf(any, any.program.step[record.instruction]);
        for (std::size_t r = 0; r < done.size(); ++r) done[r] += work.done[r];
      }
      const auto span = static_cast<double>((last.end - first.start).picoseconds());
      for (const double amount : done) RC_ASSERT(amount <= span * (1 + 1e-6));
    }
  }
}

// The whole run takes at least the work of any stream, communicator, resource or the host.
RC_GTEST_PROP(SimulateLaws, TheRunIsNoShorterThanItsParts, ()) {
  const Case any = *AnyCase(true);
  const Timeline timeline = RunCase(any);
  std::map<std::string, double> busy;
  for (const OperationRecord& record : timeline.operations) {
    const Instruction& instruction = any.program.step[record.instruction];
    if (instruction.opcode == Opcode::kHostTask) {
      busy["host"] += static_cast<double>((record.end - record.start).picoseconds());
      continue;
    }
    const Index communicator = program::CommunicatorOf(any.program, instruction);
    const bool communicates = communicator != program::kNone;
    busy["host"] += static_cast<double>(
        (communicates ? any.prices.issue_collective : any.prices.issue_kernel).picoseconds());
    const Work work = WorkOf(any, instruction);
    const auto alone = static_cast<double>(work.uncontended().picoseconds());
    busy["stream " + std::to_string(instruction.stream)] += alone;
    if (communicates) busy["communicator " + std::to_string(communicator)] += alone;
    for (std::size_t r = 0; r < work.done.size(); ++r) {
      busy["resource " + std::to_string(r)] += work.done[r];
    }
  }
  const auto total = static_cast<double>(timeline.step_ends.back().picoseconds());
  for (const auto& [who, amount] : busy) RC_ASSERT(amount <= total * (1 + 1e-6));
}

// Two classes with equal programs have the times of one class.
RC_GTEST_PROP(SimulateLaws, EqualClassesRunAsOne, ()) {
  const Case any = *AnyCase(true, *rc::gen::element(Shape::kAny, Shape::kOverlapped));
  const Timeline alone = RunCase(any);
  const std::vector<RankClass> classes = {{&any.program, &any.prices, 0},
                                          {&any.program, &any.prices, 1}};
  const auto both = Simulate(classes, any.options);
  RC_ASSERT(both.has_value());
  RC_ASSERT(Same(both->at(0), alone));
  RC_ASSERT(Same(both->at(1), alone));
}

// The visible part of a timeline until `time`: instruction, step, ready, start and end of each
// operation, including waits.
using Seen = std::vector<std::tuple<Index, std::uint32_t, Time, Time, Time>>;
Seen SeenUntil(const Timeline& timeline, Time time) {
  Seen seen;
  for (const OperationRecord& record : timeline.operations) {
    if (record.ready >= time) continue;
    seen.emplace_back(record.instruction, record.step, record.ready, std::min(record.start, time),
                      std::min(record.end, time));
  }
  for (const program::WaitRecord& record : timeline.waits) {
    if (record.start >= time) continue;
    seen.emplace_back(record.instruction, record.step, record.start, record.start,
                      std::min(record.end, time));
  }
  std::sort(seen.begin(), seen.end());
  return seen;
}

// Operations in flight in (start, end], as visible at `end`.
Seen SeenIn(const Case& any, const Timeline& timeline, Time start, Time end, int step, bool host) {
  Seen seen;
  const auto from_end = [&](Time time) { return std::min(std::max(time, start), end) - end; };
  for (const OperationRecord& record : timeline.operations) {
    if (record.ready >= end || record.end <= start) continue;
    if (!host && any.program.step[record.instruction].opcode == Opcode::kHostTask) continue;
    seen.emplace_back(record.instruction, record.step - step, from_end(record.ready),
                      from_end(record.start), from_end(record.end));
  }
  for (const program::WaitRecord& record : timeline.waits) {
    if (record.start >= end || record.end <= start) continue;
    seen.emplace_back(record.instruction, record.step - step, from_end(record.start), Time(),
                      from_end(record.end));
  }
  std::sort(seen.begin(), seen.end());
  return seen;
}

// A run that ends with a repetition determines all omitted steps.
RC_GTEST_PROP(SimulateLaws, ARepeatedStepStandsForTheRest, ()) {
  Case any = *AnyCase(true, *rc::gen::element(Shape::kAny, Shape::kOverlapped));
  any.options.barrier = false;
  any.options.steps = *rc::gen::inRange(3, 9);
  const Timeline full = RunCase(any);
  any.options.until_repetition = true;
  Simulator simulator;
  const Timeline shorter = RunCase(any, simulator);
  const auto& ends = shorter.step_ends;
  // Nothing after the last step can slow it.
  RC_ASSERT(std::equal(full.step_ends.begin(), full.step_ends.end() - 1, ends.begin()));
  if (simulator.repetition() == nullptr) {
    RC_ASSERT(Same(shorter, full));
    return;
  }
  const int repeated = simulator.repetition()->step;
  const bool host = simulator.repetition()->host;
  RC_TAG(repeated);
  RC_ASSERT(SeenUntil(full, ends[repeated]) == SeenUntil(shorter, ends[repeated]));
  const Seen stands =
      SeenIn(any, shorter, simulator.repetition()->start, ends[repeated], repeated, host);
  // A host may be three steps ahead, except at the end of the run.
  constexpr int kAhead = 3;
  for (int step = repeated + 1; step + kAhead < any.options.steps; ++step) {
    RC_ASSERT(SeenIn(any, full, ends[step - 1], ends[step], step, host) == stands);
  }
}

// After a first step that starts late, the following steps equal those after a whole one.
RC_GTEST_PROP(SimulateLaws, ALateStartLeadsToTheSameSteps, ()) {
  Case any = *AnyCase(true, *rc::gen::element(Shape::kAny, Shape::kLayered, Shape::kOverlapped));
  any.options.barrier = false;
  any.options.steps = 8;
  any.options.until_repetition = true;
  Simulator simulator;
  const Timeline whole = RunCase(any, simulator);
  if (simulator.repetition() == nullptr) return;
  const Repetition expected = *simulator.repetition();
  any.options.late_start = true;
  const Timeline late = RunCase(any, simulator);
  RC_CLASSIFY(simulator.repetition() != nullptr && simulator.repetition()->step == 1, "at once");
  if (simulator.repetition() == nullptr) return;
  const Repetition found = *simulator.repetition();
  const Time end = late.step_ends[found.step], expected_end = whole.step_ends[expected.step];
  RC_ASSERT(end - found.start == expected_end - expected.start);
  const bool host = found.host && expected.host;
  RC_ASSERT(SeenIn(any, late, found.start, end, found.step, host) ==
            SeenIn(any, whole, expected.start, expected_end, expected.step, host));
}

// Recording only marked operations gives the same records as recording all.
RC_GTEST_PROP(SimulateLaws, FewerRecordsAreTheSameRecords, ()) {
  Case any = *AnyCase(true, *rc::gen::element(Shape::kLayered, Shape::kOverlapped));
  const Timeline full = RunCase(any);
  std::vector<bool> marked(any.program.step.size());
  for (std::size_t i = 0; i < marked.size(); ++i) {
    marked[i] = any.program.step[i].opcode != Opcode::kHostTask && *rc::gen::arbitrary<bool>();
  }
  RankClass one = {&any.program, &any.prices, 0};
  one.marked = &marked;
  Timeline expected = full;
  std::erase_if(expected.operations,
                [&](const OperationRecord& record) { return !marked[record.instruction]; });
  expected.waits.clear();
  any.options.recording = Recording::kMarked;
  const auto some = Simulate({&one, 1}, any.options);
  RC_ASSERT(some.has_value());
  RC_ASSERT(Same(some->front(), expected));
  RC_CLASSIFY(!full.memory.empty(), "with records of memory");
  const auto same = [](const auto& a, const auto& b) {
    return a.instruction == b.instruction && a.step == b.step && a.time == b.time;
  };
  RC_ASSERT(std::equal(some->front().memory.begin(), some->front().memory.end(),
                       full.memory.begin(), full.memory.end(), same));
  any.options.recording = Recording::kNone;
  const auto none = Simulate({&one, 1}, any.options);
  RC_ASSERT(none.has_value());
  RC_ASSERT(none->front().step_ends == full.step_ends);
  RC_ASSERT(none->front().operations.empty() && none->front().memory.empty());
}

// Steps before the first recorded one keep only their ends.
RC_GTEST_PROP(SimulateLaws, RecordsBeginWithAStep, ()) {
  Case any = *AnyCase(true, *rc::gen::element(Shape::kAny, Shape::kLayered, Shape::kOverlapped));
  Timeline expected = RunCase(any);
  any.options.first_recorded = *rc::gen::inRange(0, any.options.steps + 1);
  const auto first = static_cast<std::uint32_t>(any.options.first_recorded);
  const auto before = [&](const auto& record) { return record.step < first; };
  std::erase_if(expected.operations, before);
  std::erase_if(expected.waits, before);
  std::erase_if(expected.memory, before);
  RC_CLASSIFY(!expected.operations.empty(), "with operations");
  RC_ASSERT(Same(RunCase(any), expected));
}

// Repeating a run with other records is the same run.
RC_GTEST_PROP(SimulateLaws, ARunAgainIsTheSameRun, ()) {
  Case any = *AnyCase(true, *rc::gen::element(Shape::kLayered, Shape::kOverlapped));
  const Timeline full = RunCase(any);
  std::vector<RankClass> classes = {{&any.program, &any.prices, 0}};
  classes.front().records = *rc::gen::arbitrary<bool>();
  Options fewer = any.options;
  fewer.recording = Recording::kNone;
  Simulator simulator;
  RC_ASSERT(simulator.Run(classes, fewer).has_value());
  classes.front().records = true;
  const auto again = simulator.RunAgain(any.options);
  RC_ASSERT(again.has_value());
  RC_ASSERT(Same(again->front(), full));
}

}  // namespace
}  // namespace stepcast::simulate
