#include "src/calibrate/simulated_machine.h"

#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "src/cost/prices.h"
#include "src/program/program.h"
#include "src/simulate/simulate.h"

namespace stepcast::calibrate {
namespace {

using program::Index;
using program::Program;

Time TimeOf(double seconds) {
  return Picoseconds(static_cast<std::int64_t>(std::llround(seconds * 1e12)));
}

double KernelTime(const Laws& laws, const Kernel& kernel) {
  const auto bytes = static_cast<double>((kernel.read + kernel.written).count());
  switch (kernel.kind) {
    case KernelKind::kGiven:
      return kernel.given.seconds();
    case KernelKind::kMemoryBound:
      return laws.kernel_start + laws.memory * bytes;
    case KernelKind::kOptimizer:
      return laws.kernel_start + laws.optimizer * bytes;
    case KernelKind::kGemm:
    case KernelKind::kAttention:
    case KernelKind::kAttentionGradient:
    case KernelKind::kScan:
    case KernelKind::kScanGradient:
      break;
  }
  return laws.kernel_start + laws.arithmetic * static_cast<double>(kernel.flops);
}

cost::Prices PricesOf(const Laws& laws, const Program& program) {
  cost::Prices prices;
  for (const Kernel& kernel : program.kernels) {
    cost::Demand demand;
    demand.work = TimeOf(KernelTime(laws, kernel));
    prices.kernels.push_back(demand);
  }
  for (const program::Collective& collective : program.collectives) {
    cost::CollectivePrice price;
    price.demand.work = TimeOf(laws.collective_start +
                               laws.collective * static_cast<double>(collective.bytes.count()));
    prices.collectives.push_back(price);
  }
  for (const program::Exchange& exchange : program.exchanges) {
    std::vector<cost::MessagePrice>& messages = prices.exchanges.emplace_back();
    for (const program::Message& message : exchange.messages) {
      messages.emplace_back().demand.work =
          TimeOf(laws.collective_start +
                 laws.collective * static_cast<double>(message.bytes.count()));
    }
  }
  for (const program::Copy& copy : program.copies) {
    cost::Demand demand;
    demand.work = TimeOf(laws.copy_start + laws.copy * static_cast<double>(copy.bytes.count()));
    prices.copies.push_back(demand);
  }
  prices.issue_kernel = TimeOf(laws.issue);
  prices.issue_copy = TimeOf(laws.issue);
  prices.issue_collective = TimeOf(laws.issue_collective);
  return prices;
}

// The program with a separate operand for every operation, so that each can have its own noise, and
// with the step repeated.
Program Unrolled(const Program& program, int steps) {
  Program unrolled = program;
  unrolled.step.clear();
  unrolled.kernels.clear();
  unrolled.collectives.clear();
  unrolled.exchanges.clear();
  unrolled.copies.clear();
  unrolled.data_flow = {};
  const auto own = [](const auto& from, auto& to, Index& operand) {
    to.push_back(from[operand]);
    operand = static_cast<Index>(to.size() - 1);
  };
  for (int step = 0; step < steps; ++step) {
    for (program::Instruction instruction : program.step) {
      if (instruction.opcode == program::Opcode::kKernel) {
        own(program.kernels, unrolled.kernels, instruction.operand);
      } else if (instruction.opcode == program::Opcode::kCollective) {
        own(program.collectives, unrolled.collectives, instruction.operand);
      } else if (instruction.opcode == program::Opcode::kExchange) {
        own(program.exchanges, unrolled.exchanges, instruction.operand);
      } else if (instruction.opcode == program::Opcode::kCopy) {
        own(program.copies, unrolled.copies, instruction.operand);
      }
      unrolled.step.push_back(instruction);
    }
  }
  return unrolled;
}

// Between -1 and 1, the same for the same seed (splitmix64).
double Scatter(std::uint64_t seed) {
  seed += 0x9e3779b97f4a7c15ULL;
  seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9ULL;
  seed = (seed ^ seed >> 27) * 0x94d049bb133111ebULL;
  seed ^= seed >> 31;
  return static_cast<double>(seed >> 11) * 0x1p-52 - 1;
}

void AddNoise(double noise, std::vector<cost::Demand*> demands) {
  std::uint64_t place = 0;
  for (cost::Demand* demand : demands) {
    const auto work = static_cast<std::uint64_t>(demand->work.picoseconds());
    const double factor = 1 + noise * Scatter(work * 1'000'003 + place++);
    demand->work = TimeOf(demand->work.seconds() * factor);
  }
}

}  // namespace

Runner SimulatedMachine(const Laws& laws, int runs) {
  auto left = std::make_shared<int>(runs);
  return [laws, left](const Program& program, int warmup_steps,
                      int measured_steps) -> runtime::Attempt<program::Timeline> {
    if ((*left)-- <= 0) return tl::unexpected(runtime::Failure{"the machine has stopped", false});
    const int steps = warmup_steps + measured_steps;
    const Program unrolled = Unrolled(program, steps);
    cost::Prices prices = PricesOf(laws, unrolled);
    std::vector<cost::Demand*> demands;
    for (cost::Demand& demand : prices.kernels) demands.push_back(&demand);
    for (cost::Demand& demand : prices.copies) demands.push_back(&demand);
    for (cost::CollectivePrice& price : prices.collectives) demands.push_back(&price.demand);
    for (std::vector<cost::MessagePrice>& messages : prices.exchanges) {
      for (cost::MessagePrice& message : messages) demands.push_back(&message.demand);
    }
    AddNoise(laws.noise, std::move(demands));
    const simulate::RankClass all{&unrolled, &prices, 0};
    const auto timelines = simulate::Simulate({&all, 1}, {.steps = 1});
    if (!timelines) return tl::unexpected(runtime::Failure{"deadlock", false});

    // Maps records back to the program's steps.
    const auto length = static_cast<Index>(program.step.size());
    program::Timeline timeline;
    for (program::OperationRecord record : timelines->front().operations) {
      const auto step = static_cast<int>(record.instruction / length);
      if (step < warmup_steps) continue;
      record.step = static_cast<std::uint32_t>(step - warmup_steps);
      record.instruction %= length;
      timeline.operations.push_back(record);
    }
    timeline.step_ends.assign(static_cast<std::size_t>(measured_steps),
                              timelines->front().step_ends.back());
    return timeline;
  };
}

EchoJob::EchoJob(int ranks, int nodes) {
  place_.ranks = ranks;
  place_.nodes = nodes;
  place_.local_ranks = ranks / nodes;
  place_.host = "node";
}

runtime::Attempt<std::vector<std::string>> EchoJob::Gather(std::string bytes) {
  std::vector<std::string> all;
  for (int rank = 0; rank < place_.ranks; ++rank) {
    const bool is_place = bytes == "0 node";
    all.push_back(is_place ? std::to_string(rank / place_.local_ranks) + " node" : bytes);
  }
  return all;
}

}  // namespace stepcast::calibrate
