#include "src/planner/program_bounds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

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
        streams_(program.streams.size()),
        events_(program.events.size()),
        communicators_(program.communicators.size()) {}

  // When all of these instructions, and those of earlier calls, are done.
  Time Run(const std::vector<Instruction>& instructions) {
    for (const Instruction& instruction : instructions) Issue(instruction);
    end_ = std::max(end_, host_);
    return end_;
  }

  // The host goes on when all is done.
  void Wait() { host_ = end_; }

 private:
  void Occupy(Time& stream, Time duration) {
    stream = std::max(stream, host_) + duration;
    end_ = std::max(end_, stream);
  }

  void Issue(const Instruction& instruction) {
    switch (instruction.opcode) {
      case Opcode::kKernel:
        host_ += prices_.IssueOf(program_.kernels[instruction.operand]);
        Occupy(streams_[instruction.stream], prices_.kernels[instruction.operand].alone());
        break;
      case Opcode::kCopy:
        host_ += prices_.issue_copy;
        Occupy(streams_[instruction.stream], prices_.copies[instruction.operand].alone());
        break;
      case Opcode::kCollective: {
        host_ += prices_.issue_collective;
        Time& turn = communicators_[program_.collectives[instruction.operand].communicator];
        Time& stream = streams_[instruction.stream];
        stream = std::max(stream, turn);
        const Time alone = prices_.collectives[instruction.operand].demand.alone();
        Occupy(stream, counts_collectives_ ? alone : Time());
        turn = stream;
        break;
      }
      case Opcode::kHostTask:
        host_ += program_.host_tasks[instruction.operand].duration;
        break;
      case Opcode::kRecordEvent:
        events_[instruction.operand] = std::max(streams_[instruction.stream], host_);
        break;
      case Opcode::kWaitEvent: {
        Time& stream = streams_[instruction.stream];
        stream = std::max(stream, events_[instruction.operand]);
        break;
      }
      case Opcode::kHostWaitEvent:
        host_ = std::max(host_, events_[instruction.operand]);
        break;
      case Opcode::kAllocate:
      case Opcode::kRelease:
      case Opcode::kRecordStream:
        break;
    }
  }

  const Program& program_;
  const cost::Prices& prices_;
  const bool counts_collectives_;
  Time host_, end_;
  std::vector<Time> streams_, events_, communicators_;
};

using Shares = std::array<double, kResources>;

// As the engine has them: in parts of 2^-24, rounded down.
double Share(double share) {
  constexpr double kWhole = 1 << 24;
  return std::floor(share * kWhole) / kWhole;
}

// Operations of one communicator or stream, which run one at a time.
struct Lane {
  std::map<Shares, double> work;  // seconds, by what it uses
};

// Operations of the compute stream by which resources they need all of, as a set of bits.
using Class = unsigned;
Class ClassOf(const Demand& demand) {
  Class needs = 0;
  for (int r = 0; r < kResources; ++r) {
    if (Share(demand.share[r]) >= 1) needs |= 1U << r;
  }
  return needs;
}

// By how much an operation with these shares slows one of the class.
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

// What a lane's operations cost the compute stream at least, in seconds. `capacity` is how long
// operations of a class can take.
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

}  // namespace

Time UndisturbedStepTime(const Program& program, const cost::Prices& prices, bool barrier,
                         bool counts_collectives) {
  Recurrence recurrence(program, prices, counts_collectives);
  recurrence.Run(program.prologue);
  if (barrier) {
    recurrence.Wait();
    Time before = recurrence.Run(program.step);
    recurrence.Wait();
    return recurrence.Run(program.step) - before;
  }
  // The first steps may differ from those that repeat.
  constexpr int kSteps = 3;
  std::array<Time, kSteps> ends;
  for (Time& end : ends) end = recurrence.Run(program.step);
  Time least = ends[1] - ends[0];
  for (int i = 2; i < kSteps; ++i) least = std::min(least, ends[i] - ends[i - 1]);
  return least;
}

Time DisturbedComputeTime(const Program& program, const cost::Prices& prices,
                          bool counts_collectives) {
  // How often each operation is issued: first on the compute stream, then elsewhere by stream (by
  // communicator, for collectives).
  const std::size_t lanes = program.streams.size();
  const auto counts_of = [&](std::size_t operations) {
    return std::vector<std::int64_t>(operations * lanes);
  };
  std::vector<std::int64_t> kernels = counts_of(program.kernels.size());
  std::vector<std::int64_t> copies = counts_of(program.copies.size());
  std::vector<std::int64_t> collectives(2 * program.collectives.size());
  for (const Instruction& instruction : program.step) {
    const std::size_t at = instruction.operand * lanes + instruction.stream;
    if (instruction.opcode == Opcode::kKernel) {
      ++kernels[at];
    } else if (instruction.opcode == Opcode::kCopy) {
      ++copies[at];
    } else if (instruction.opcode == Opcode::kCollective && counts_collectives) {
      const bool beside = instruction.stream != Program::kComputeStream;
      ++collectives[2 * std::size_t{instruction.operand} + (beside ? 1 : 0)];
    }
  }
  ComputeStream compute;
  std::vector<Lane> communicators(program.communicators.size()), streams(lanes);
  const auto add = [&](std::int64_t count, const Demand& demand, Lane* lane) {
    if (count == 0) return;
    if (lane == nullptr) {
      compute.alone += demand.alone() * count;
      compute.latencies += demand.latency.seconds() * static_cast<double>(count);
      if (demand.work > Time()) {
        compute.work[ClassOf(demand)] += demand.work.seconds() * static_cast<double>(count);
      }
      return;
    }
    Shares shares{};
    for (int r = 0; r < kResources; ++r) shares[r] = Share(demand.share[r]);
    lane->work[shares] += demand.work.seconds() * static_cast<double>(count);
  };
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const std::size_t stream = i % lanes;
    add(kernels[i], prices.kernels[i / lanes],
        stream == Program::kComputeStream ? nullptr : &streams[stream]);
  }
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const std::size_t stream = i % lanes;
    add(copies[i], prices.copies[i / lanes],
        stream == Program::kComputeStream ? nullptr : &streams[stream]);
  }
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    const program::Collective& collective = program.collectives[i / 2];
    add(collectives[i], prices.collectives[i / 2].demand,
        i % 2 == 0 ? nullptr : &communicators[collective.communicator]);
  }
  communicators.insert(communicators.end(), streams.begin(), streams.end());
  // How much of a second all lanes together can take from one of a class.
  std::map<Class, double> capacity;
  double all_slowing = 0;
  for (const auto& [needs, work] : compute.work) {
    double slowing = 0;
    for (const Lane& lane : communicators) {
      double most = 0;
      for (const auto& entry : lane.work) most = std::max(most, Slowing(entry.first, needs));
      slowing += most;
    }
    if (slowing >= 1) return compute.alone;  // nothing is left to say how long they can take
    capacity[needs] = work / (1 - slowing);
  }
  double cost = 0;
  for (const Lane& lane : communicators) {
    double most = 0;
    for (const auto& [shares, work] : lane.work) {
      for (const auto& entry : compute.work) most = std::max(most, Slowing(shares, entry.first));
    }
    all_slowing += most;
    cost += CostOfLane(lane, compute, capacity);
  }
  // A second in which the compute stream stands still saves at most all_slowing.
  if (all_slowing > 1) cost /= all_slowing;
  // Sums of doubles round; a bound rounds down.
  constexpr double kRounding = 1 - 1e-9;
  const double seconds = cost * kRounding;
  return compute.alone + Picoseconds(static_cast<std::int64_t>(seconds * 1e12));
}

Bytes HandedOutAtLeast(const Program& program) {
  Bytes in_use, most;
  const auto run = [&](const std::vector<Instruction>& instructions) {
    for (const Instruction& instruction : instructions) {
      if (instruction.opcode == Opcode::kAllocate) {
        in_use += program.buffers[instruction.operand].size;
        most = std::max(most, in_use);
      } else if (instruction.opcode == Opcode::kRelease) {
        in_use -= program.buffers[instruction.operand].size;
      }
    }
  };
  run(program.prologue);
  run(program.step);
  run(program.step);  // what one step leaves to the next
  return most;
}

}  // namespace stepcast::planner
