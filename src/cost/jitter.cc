#include "src/cost/jitter.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include "src/base/time.h"
#include "src/cost/device_speed.h"

namespace stepcast::cost {
namespace {

using program::Index;
using program::Opcode;

// The expected largest of `count` standard normal numbers.
double LargestOf(std::int64_t count) { return SlowestDevice(1, count) - 1; }

// The time that each collective's ranks wait for one another, averaged over its calls.
std::vector<double> MeanWaits(const program::Program& program, double jitter,
                              const Prices& prices) {
  std::vector<bool> computes(program.streams.size());
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode == Opcode::kKernel) computes[instruction.stream] = true;
  }
  // [communicator] the variance in seconds squared of the work of its ranks since they last met.
  std::vector<double> apart(program.communicators.size());
  std::vector<Index> met(program.streams.size(), program::kNone);  // by its last collective
  std::vector<Index> carried(program.events.size(), program::kNone);
  std::vector<double> waits(program.collectives.size());
  std::vector<int> calls(program.collectives.size());
  const auto meet = [&](Index communicator) {
    if (communicator != program::kNone) apart[communicator] = 0;
  };
  for (const program::Instruction& instruction : program.step) {
    const Index operand = instruction.operand;
    switch (instruction.opcode) {
      case Opcode::kKernel: {
        const double deviation = jitter * prices.kernels[operand].uncontended().seconds();
        for (double& variance : apart) variance += deviation * deviation;
        break;
      }
      case Opcode::kCollective: {
        const Index communicator = program.collectives[operand].communicator;
        const auto ranks = program.groups[program.communicators[communicator].group].ranks.size();
        waits[operand] +=
            LargestOf(static_cast<std::int64_t>(ranks)) * std::sqrt(apart[communicator]);
        ++calls[operand];
        met[instruction.stream] = communicator;
        if (computes[instruction.stream]) meet(communicator);
        break;
      }
      case Opcode::kRecordEvent:
        carried[operand] = met[instruction.stream];
        break;
      case Opcode::kWaitEvent:
        if (computes[instruction.stream]) meet(carried[operand]);
        break;
      case Opcode::kHostWaitEvent:
        meet(carried[operand]);
        break;
      default:
        break;
    }
  }
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (calls[i] > 0) waits[i] /= calls[i];
  }
  return waits;
}

}  // namespace

void AddJitter(const program::Program& program, const Jitter& jitter, Prices& prices) {
  if (jitter.devices <= 1) return;
  if (jitter.kernels > 0) {
    const std::vector<double> waits = MeanWaits(program, jitter.kernels, prices);
    for (std::size_t i = 0; i < waits.size(); ++i) {
      prices.collectives[i].demand.latency +=
          Picoseconds(static_cast<std::int64_t>(std::llround(waits[i] * 1e12)));
    }
  }
  if (jitter.collectives <= 0) return;
  for (std::size_t i = 0; i < program.collectives.size(); ++i) {
    const Index group = program.communicators[program.collectives[i].communicator].group;
    const auto ranks = static_cast<std::int64_t>(program.groups[group].ranks.size());
    if (ranks < 2) continue;
    Time& work = prices.collectives[i].demand.work;
    work = ScaledTime(work, 1 + jitter.collectives * LargestOf(jitter.devices / ranks));
  }
}

}  // namespace stepcast::cost
