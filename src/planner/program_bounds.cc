#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "src/base/stop.h"
#include "src/memory/deferred_frees.h"
#include "src/planner/bounds.h"
#include "src/program/description.h"

namespace stepcast::planner {
namespace {

using cost::Demand;
using cost::kResources;
using program::Index;
using program::Instruction;
using program::Opcode;
using program::Program;

// The recurrence of streams, communicators, events and host, without resources.
class Recurrence {
 public:
  Recurrence(const Program& program, const cost::Prices& prices, bool counts_collectives)
      : program_(program),
        prices_(prices),
        counts_collectives_(counts_collectives),
        events_at_(kStreams + program.streams.size()),
        communicators_at_(events_at_ + program.events.size()),
        times_(communicators_at_ + program.communicators.size()),
        touched_(times_.size()) {}

  // Returns when these instructions, and those of earlier calls, have ended.
  Time Run(std::span<const Instruction> instructions) {
    for (const Instruction& instruction : instructions) Issue(instruction);
    times_[kEnd] = std::max(times_[kEnd], times_[kHost]);
    return times_[kEnd];
  }

  // As above, for a step with a part that is repeated.
  Time Run(const std::vector<Instruction>& step, const Repeated& repeated) {
    const std::span<const Instruction> all(step);
    if (repeated.more == 0) return Run(all);
    const std::size_t size = repeated.last - repeated.first;
    Run(all.first(repeated.first - size));
    Run(all.subspan(repeated.first - size, size), &before_last_);
    Run(all.subspan(repeated.first, size), &last_);
    Repeat(all, repeated);
    // Restores the events as the instructions after the repetitions see them.
    for (const auto& [from, records] :
         {std::pair(repeated.first - size, &before_last_), std::pair(repeated.first, &last_)}) {
      for (std::size_t i = 0; i < size; ++i) {
        const Instruction& instruction = step[from + i];
        if (instruction.opcode == Opcode::kRecordEvent) {
          times_[events_at_ + instruction.operand] = (*records)[i];
        }
      }
    }
    return Run(all.subspan(repeated.last));
  }

  // Forgets all earlier instructions except for the end of this stream's last operation, which
  // becomes time zero.
  void BeginBehind(std::uint16_t stream) {
    std::fill(times_.begin(), times_.end(), kLongAgo);
    times_[kStreams + stream] = Time();
  }
  // Returns when the stream has ended all its operations.
  Time EndOf(std::uint16_t stream) const { return times_[kStreams + stream]; }

  // The host waits until all operations have ended.
  void Wait() { times_[kHost] = times_[kEnd]; }

 private:
  // Indices of times: the end of everything, the host, streams, events, communicators.
  static constexpr std::size_t kEnd = 0, kHost = 1, kStreams = 2;
  // The time of forgotten operations: so early that whatever waits for them alone ends no later
  // than zero.
  static constexpr Time kLongAgo = Picoseconds(std::numeric_limits<std::int64_t>::min() / 2);

  // Also notes the time of each record.
  void Run(std::span<const Instruction> instructions, std::vector<Time>* records) {
    records->assign(instructions.size(), Time());
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      Issue(instructions[i]);
      if (instructions[i].opcode == Opcode::kRecordEvent) {
        (*records)[i] = times_[events_at_ + instructions[i].operand];
      }
    }
    times_[kEnd] = std::max(times_[kEnd], times_[kHost]);
  }

  // Runs one repetition. A wait finds its record, in this repetition or the one before, by the
  // distance.
  void RunRepeated(const std::vector<std::size_t>& sources, std::span<const Instruction> all,
                   const Repeated& repeated) {
    const std::size_t size = repeated.last - repeated.first;
    std::swap(before_last_, last_);
    for (std::size_t i = 0; i < size; ++i) {
      const Instruction& instruction = all[repeated.first + i];
      const std::size_t source = sources[repeated.first + i];
      if (instruction.opcode == Opcode::kRecordEvent) {
        last_[i] = std::max(times_[kStreams + instruction.stream], times_[kHost]);
      } else if (source == kNoSource || source < repeated.first - size) {
        Issue(instruction);
      } else {
        const Time record = source >= repeated.first ? last_[source - repeated.first]
                                                     : before_last_[source + size - repeated.first];
        Time& waits =
            instruction.opcode == Opcode::kHostWaitEvent ? Touch(kHost) : Stream(instruction);
        waits = std::max(waits, record);
      }
    }
    times_[kEnd] = std::max(times_[kEnd], times_[kHost]);
  }

  // Each time after the instructions is a maximum of sums of earlier times, including those of
  // records. If all times that they touch have grown by the same amount twice in a row, they keep
  // growing by it. Untouched times do not grow, and a host that waits for nothing grows by the
  // issue time, here no more than the others. A time derived from one of these would have grown by
  // less than the others. They can therefore no longer determine the maximum.
  void Repeat(std::span<const Instruction> all, const Repeated& repeated) {
    const auto part = all.subspan(repeated.first, repeated.last - repeated.first);
    const bool host_waits =
        std::any_of(part.begin(), part.end(), [](const Instruction& instruction) {
          return instruction.opcode == Opcode::kHostWaitEvent;
        });
    if (sources_.empty()) sources_ = SourcesOfWaits(program_);
    std::vector<Time> before;
    Time growth;  // of the time before, if it was the same for all
    for (std::int64_t more = repeated.more; more > 0; --more) {
      StopPoint();
      before = times_;
      std::fill(touched_.begin(), touched_.end(), 0);
      RunRepeated(sources_, all, repeated);
      touched_[kEnd] = 1;
      if (!host_waits) touched_[kHost] = 0;
      const Time now = times_[kEnd] - before[kEnd];
      const Time of_host = times_[kHost] - before[kHost];
      bool even = now > Time() && of_host <= now;
      for (std::size_t i = 0; i < times_.size() && even; ++i) {
        if (touched_[i] != 0) even = times_[i] - before[i] == now;
      }
      for (std::size_t i = 0; i < part.size() && even; ++i) {
        if (part[i].opcode == Opcode::kRecordEvent) even = last_[i] - before_last_[i] == now;
      }
      if (even && now == growth) {
        const Time rest = now * (more - 1);
        for (std::size_t i = 0; i < times_.size(); ++i) {
          if (touched_[i] != 0) times_[i] += rest;
        }
        if (!host_waits) times_[kHost] += of_host * (more - 1);
        for (std::size_t i = 0; i < part.size(); ++i) {
          if (part[i].opcode != Opcode::kRecordEvent) continue;
          last_[i] += rest;
          before_last_[i] += rest;
        }
        return;
      }
      growth = even ? now : Time();
    }
  }

  Time& Touch(std::size_t at) {
    touched_[at] = 1;
    return times_[at];
  }
  Time& Stream(const Instruction& instruction) { return Touch(kStreams + instruction.stream); }
  void Issuing(Time time) {
    if (time > Time()) Touch(kHost) += time;
  }

  void Occupy(Time& stream, Time duration) {
    stream = std::max(stream, times_[kHost]) + duration;
    times_[kEnd] = std::max(times_[kEnd], stream);
  }

  // The uncontended time of a collective, or of the longest message of an exchange.
  Time CommunicationTime(const Instruction& instruction) const {
    if (instruction.opcode == Opcode::kCollective) {
      return prices_.collectives[instruction.operand].demand.uncontended();
    }
    Time longest;
    for (const cost::MessagePrice& message : prices_.exchanges[instruction.operand]) {
      longest = std::max(longest, message.demand.uncontended());
    }
    return longest;
  }

  void Issue(const Instruction& instruction) {
    Issuing(prices_.IssueOf(program_, instruction));
    switch (instruction.opcode) {
      case Opcode::kKernel:
        Occupy(Stream(instruction), prices_.kernels[instruction.operand].uncontended());
        break;
      case Opcode::kCopy:
        Occupy(Stream(instruction), prices_.copies[instruction.operand].uncontended());
        break;
      // Peers may be arbitrarily early: nothing more is known from the class itself.
      case Opcode::kCollective:
      case Opcode::kExchange: {
        Time& turn = Touch(communicators_at_ + program::CommunicatorOf(program_, instruction));
        Time& stream = Stream(instruction);
        stream = std::max(stream, turn);
        Occupy(stream, counts_collectives_ ? CommunicationTime(instruction) : Time());
        turn = stream;
        break;
      }
      case Opcode::kRecordEvent:
        Touch(events_at_ + instruction.operand) =
            std::max(times_[kStreams + instruction.stream], times_[kHost]);
        break;
      case Opcode::kWaitEvent: {
        Time& stream = Stream(instruction);
        stream = std::max(stream, times_[events_at_ + instruction.operand]);
        break;
      }
      case Opcode::kHostWaitEvent: {
        Time& host = Touch(kHost);
        host = std::max(host, times_[events_at_ + instruction.operand]);
        break;
      }
      case Opcode::kHostTask:
      case Opcode::kAllocate:
      case Opcode::kRelease:
      case Opcode::kRecordStream:
        break;
    }
  }

  const Program& program_;
  const cost::Prices& prices_;
  const bool counts_collectives_;
  const std::size_t events_at_, communicators_at_;
  std::vector<Time> times_;
  std::vector<char> touched_;
  std::vector<std::size_t> sources_;
  std::vector<Time> before_last_, last_;  // of the records of the last two repetitions
};

using Shares = std::array<double, kResources>;

// The engine's shares in units of 2^-24, rounded down, relative to the uncontended rate.
Shares SharesOf(const Demand& demand) {
  constexpr double kWhole = 1 << 24;
  Shares shares{};
  for (int r = 0; r < kResources; ++r) {
    shares[r] = std::floor(demand.share[r] / demand.hindrance() * kWhole) / kWhole;
  }
  return shares;
}

// The operations of one communicator or stream, which run one at a time.
struct Lane {
  std::map<Shares, double> work;  // seconds, by what it uses
};

// The resources that an operation of the compute stream needs completely, as a set of bits.
using Class = unsigned;
Class ClassOf(const Demand& demand) {
  Class needs = 0;
  const Shares shares = SharesOf(demand);
  for (int r = 0; r < kResources; ++r) {
    if (shares[r] >= 1) needs |= 1U << r;
  }
  return needs;
}

// The slowdown of an operation of the class by one with these shares.
double Slowing(const Shares& shares, Class needs) {
  double most = 0;
  for (int r = 0; r < kResources; ++r) {
    if ((needs & (1U << r)) != 0) most = std::max(most, shares[r]);
  }
  return most;
}

struct ComputeStream {
  Time alone;
  double latencies = 0;          // seconds in which nothing is used
  std::map<Class, double> work;  // seconds
};

// The least cost, in seconds, of a lane's operations to the compute stream. `capacity`: time
// available in operations of each class.
double CostOfLane(const Lane& lane, const ComputeStream& compute,
                  const std::map<Class, double>& capacity) {
  double worst = 0;                // if all of it ran beside what it slows most
  double most_slowing = 0;         // saved by running while nothing is used
  std::map<Class, double> saving;  // by running beside operations of the class instead
  for (const auto& [shares, work] : lane.work) {
    double most = 0;
    for (const auto& entry : compute.work) most = std::max(most, Slowing(shares, entry.first));
    worst += most * work;
    most_slowing = std::max(most_slowing, most);
    for (const auto& entry : compute.work) {
      double& saved = saving[entry.first];
      saved = std::max(saved, most - Slowing(shares, entry.first));
    }
  }
  double cost = worst - most_slowing * compute.latencies;
  for (const auto& [needs, saved] : saving) cost -= saved * capacity.at(needs);
  return std::max(0.0, cost);
}

// How often a step issues each operation.
struct OperationCounts {
  std::vector<std::int64_t> kernels, copies;  // [operation x streams + stream]
  std::vector<std::int64_t> collectives;      // [2 x operation + (beside the compute stream)]
};

OperationCounts CountsOf(const Program& program, bool counts_collectives,
                         const Repeated& repeated) {
  const std::size_t streams = program.streams.size();
  OperationCounts counts{.kernels = std::vector<std::int64_t>(program.kernels.size() * streams),
                         .copies = std::vector<std::int64_t>(program.copies.size() * streams),
                         .collectives = std::vector<std::int64_t>(2 * program.collectives.size())};
  for (std::size_t i = 0; i < program.step.size(); ++i) {
    const Instruction& instruction = program.step[i];
    const std::int64_t times =
        i >= repeated.first && i < repeated.last ? 1 + repeated.more : std::int64_t{1};
    const std::size_t at = instruction.operand * streams + instruction.stream;
    if (instruction.opcode == Opcode::kKernel) {
      counts.kernels[at] += times;
    } else if (instruction.opcode == Opcode::kCopy) {
      counts.copies[at] += times;
    } else if (instruction.opcode == Opcode::kCollective && counts_collectives) {
      const bool beside = instruction.stream != Program::kComputeStream;
      counts.collectives[2 * std::size_t{instruction.operand} + (beside ? 1 : 0)] += times;
    }
  }
  return counts;
}

// A step's work on the compute stream, and concurrent work by communicator and stream.
struct StepWork {
  ComputeStream compute;
  std::vector<Lane> beside;
};

StepWork WorkOf(const Program& program, const cost::Prices& prices, const OperationCounts& counts) {
  const std::size_t streams = program.streams.size();
  const std::size_t communicators = program.communicators.size();
  StepWork step;
  step.beside.resize(communicators + streams);
  ComputeStream& compute = step.compute;
  const auto add = [&](std::int64_t count, const Demand& demand, Lane* lane) {
    if (count == 0) return;
    if (lane == nullptr) {
      compute.alone += demand.uncontended() * count;
      compute.latencies += demand.latency.seconds() * static_cast<double>(count);
      if (demand.work > Time()) {
        compute.work[ClassOf(demand)] +=
            demand.uncontended_work().seconds() * static_cast<double>(count);
      }
      return;
    }
    lane->work[SharesOf(demand)] +=
        demand.uncontended_work().seconds() * static_cast<double>(count);
  };
  const auto lane_of = [&](std::size_t at) {
    const std::size_t stream = at % streams;
    return stream == Program::kComputeStream ? nullptr : &step.beside[communicators + stream];
  };
  for (std::size_t i = 0; i < counts.kernels.size(); ++i) {
    add(counts.kernels[i], prices.kernels[i / streams], lane_of(i));
  }
  for (std::size_t i = 0; i < counts.copies.size(); ++i) {
    add(counts.copies[i], prices.copies[i / streams], lane_of(i));
  }
  for (std::size_t i = 0; i < counts.collectives.size(); ++i) {
    const program::Collective& collective = program.collectives[i / 2];
    add(counts.collectives[i], prices.collectives[i / 2].demand,
        i % 2 == 0 ? nullptr : &step.beside[collective.communicator]);
  }
  return step;
}

}  // namespace

Time UncontendedStepTime(const Program& program, const cost::Prices& prices, bool barrier,
                         bool counts_collectives, const Repeated& repeated) {
  Recurrence recurrence(program, prices, counts_collectives);
  recurrence.Run(program.prologue);
  if (barrier) {
    recurrence.Wait();
    Time before = recurrence.Run(program.step, repeated);
    recurrence.Wait();
    return recurrence.Run(program.step, repeated) - before;
  }
  // The first steps may differ from those that repeat.
  constexpr int kSteps = 3;
  std::array<Time, kSteps> ends;
  for (Time& end : ends) end = recurrence.Run(program.step, repeated);
  Time least = ends[1] - ends[0];
  for (int i = 2; i < kSteps; ++i) least = std::min(least, ends[i] - ends[i - 1]);
  return least;
}

Time ContendedComputeTime(const Program& program, const cost::Prices& prices,
                          bool counts_collectives, const Repeated& repeated) {
  const StepWork step = WorkOf(program, prices, CountsOf(program, counts_collectives, repeated));
  const ComputeStream& compute = step.compute;
  // [class] how much of a second all lanes together can take from it.
  std::map<Class, double> capacity;
  double all_slowing = 0;
  for (const auto& [needs, work] : compute.work) {
    double slowing = 0;
    for (const Lane& lane : step.beside) {
      double most = 0;
      for (const auto& entry : lane.work) most = std::max(most, Slowing(entry.first, needs));
      slowing += most;
    }
    if (slowing >= 1) return compute.alone;  // nothing is left to say how long they can take
    capacity[needs] = work / (1 - slowing);
  }
  double cost = 0;
  for (const Lane& lane : step.beside) {
    double most = 0;
    for (const auto& [shares, work] : lane.work) {
      for (const auto& entry : compute.work) most = std::max(most, Slowing(shares, entry.first));
    }
    all_slowing += most;
    cost += CostOfLane(lane, compute, capacity);
  }
  // Each second that the compute stream idles saves at most all_slowing seconds.
  if (all_slowing > 1) cost /= all_slowing;
  // Sums of doubles have rounding errors; a bound must be rounded down.
  constexpr double kRounding = 1 - 1e-9;
  const double seconds = cost * kRounding;
  return compute.alone + Picoseconds(static_cast<std::int64_t>(seconds * 1e12));
}

Time TimeBetweenSteps(const Program& program, const cost::Prices& prices, bool counts_collectives) {
  const auto is_kernel = [](const Instruction& instruction, program::Phase phase) {
    return instruction.opcode == Opcode::kKernel && instruction.phase == phase;
  };
  const std::span<const Instruction> step(program.step);
  const auto forward = std::find_if(step.begin(), step.end(), [&](const Instruction& instruction) {
    return is_kernel(instruction, program::Phase::kForward);
  });
  if (forward == step.end()) return {};
  const auto backward =
      std::find_if(step.rbegin(), step.rend(), [&](const Instruction& instruction) {
        return instruction.stream == forward->stream &&
               (is_kernel(instruction, program::Phase::kBackward) ||
                is_kernel(instruction, program::Phase::kBackwardWeight));
      });
  if (backward == step.rend()) return {};
  Recurrence recurrence(program, prices, counts_collectives);
  recurrence.BeginBehind(forward->stream);
  recurrence.Run(std::span(backward.base(), step.end()));
  recurrence.Run(std::span(step.begin(), forward));
  return recurrence.EndOf(forward->stream);
}

Bytes PeakInHostOrder(const Program& program, const Repeated& repeated) {
  memory::HostOrder order;
  const std::span<const Instruction> all(program.step);
  const auto run_step = [&] {
    order.Run(program, all.first(repeated.last));
    for (std::int64_t left = repeated.more; left > 0; --left) {
      const Bytes before = order.allocated();
      order.Run(program, all.subspan(repeated.first, repeated.last - repeated.first));
      if (order.allocated() == before) break;  // and so it goes on
    }
    order.Run(program, all.subspan(repeated.last));
  };
  order.Run(program, program.prologue);
  run_step();
  run_step();  // what one step leaves to the next
  return order.peak();
}

}  // namespace stepcast::planner
