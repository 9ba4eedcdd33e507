#include <algorithm>
#include <utility>
#include <vector>

#include "src/forecast/shorter_step.h"
#include "src/lowering/lowering.h"
#include "src/planner/bounds.h"

namespace stepcast::planner {
namespace {

using program::Instruction;
using program::Opcode;
using program::Program;

constexpr std::int64_t kPeriods[] = {1, 2};
constexpr std::int64_t kLongestPeriod = 2;
// The fewest micro-batches: the first, three of the longest periods, and the last.
constexpr std::int64_t kFewest = 3 * kLongestPeriod + 2;
// If three or four events alternate, the next step sees the same records of the last micro-batch as
// in the whole program.
constexpr std::int64_t kTurns = 12;

// The start of each micro-batch in the step, and the end of the last.
std::vector<std::size_t> BeginsOfMicroBatches(const Program& program) {
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < program.step.size(); ++i) {
    while (begins.size() <= program.step[i].micro_batch) begins.push_back(i);
  }
  begins.push_back(program.step.size());
  return begins;
}

// Whether each inner micro-batch equals the one a period before it.
bool Repeats(const Program& program, const std::vector<std::size_t>& sources,
             const std::vector<std::size_t>& begins, std::size_t period) {
  const auto same = [&](std::size_t a, std::size_t b) {
    const Instruction& one = program.step[a];
    const Instruction& other = program.step[b];
    if (one.opcode != other.opcode || one.phase != other.phase || one.stream != other.stream ||
        one.use_count != other.use_count) {
      return false;
    }
    if (one.opcode == Opcode::kRecordEvent) return true;
    if (one.opcode != Opcode::kWaitEvent && one.opcode != Opcode::kHostWaitEvent) {
      return one.operand == other.operand;
    }
    if (sources[a] == sources[b]) return one.operand == other.operand;
    return sources[a] != kNoSource && sources[b] != kNoSource && a - sources[a] == b - sources[b];
  };
  const std::size_t last = begins.size() - 2;
  for (std::size_t m = 1; m + period < last; ++m) {
    const std::size_t size = begins[m + 1] - begins[m];
    if (begins[m + period + 1] - begins[m + period] != size) return false;
    for (std::size_t i = 0; i < size; ++i) {
      if (!same(begins[m] + i, begins[m + period] + i)) return false;
    }
  }
  // No wait refers to more than one repetition ago.
  const std::size_t first = begins[1 + 2 * period], end = begins[1 + 3 * period];
  for (std::size_t i = first; i < end; ++i) {
    if (sources[i] != kNoSource && sources[i] < first - (end - first) && sources[i] >= begins[1]) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<std::size_t> SourcesOfWaits(const Program& program) {
  std::vector<std::size_t> sources(program.step.size(), kNoSource);
  std::vector<std::size_t> recorded(program.events.size(), kNoSource);
  for (std::size_t i = 0; i < program.step.size(); ++i) {
    const Instruction& instruction = program.step[i];
    if (instruction.opcode == Opcode::kRecordEvent) {
      recorded[instruction.operand] = i;
    } else if (instruction.opcode == Opcode::kWaitEvent ||
               instruction.opcode == Opcode::kHostWaitEvent) {
      sources[i] = recorded[instruction.operand];
    }
  }
  return sources;
}

ShortProgram LowerShort(const scenario::Scenario& scenario) {
  const plan::Training& training = scenario.plan.training;
  const std::int64_t count = training.gradient_accumulation;
  // A data loader has one event per micro-batch.
  const std::int64_t fewer = kFewest + (count - kFewest) % kTurns;
  // A pipeline issues the passes of micro-batches alternately.
  const bool pipeline = scenario.plan.parallelism.pipeline > 1;
  if (count < kFewest || fewer == count || training.data_loading || pipeline) {
    return {lowering::LowerRank(scenario), {}};
  }
  const scenario::Scenario shorter = forecast::Shortened(scenario, {.micro_batches = fewer});
  ShortProgram result{lowering::LowerRank(shorter), {}};
  const std::vector<std::size_t> begins = BeginsOfMicroBatches(result.program);
  if (begins.size() == static_cast<std::size_t>(fewer) + 1) {
    const std::vector<std::size_t> sources = SourcesOfWaits(result.program);
    for (const std::int64_t period : kPeriods) {
      const auto size = static_cast<std::size_t>(period);
      if (!Repeats(result.program, sources, begins, size)) continue;
      result.repeated = {.first = begins[1 + 2 * size],
                         .last = begins[1 + 3 * size],
                         .more = (count - fewer) / period};
      return result;
    }
  }
  return {lowering::LowerRank(scenario), {}};
}

}  // namespace stepcast::planner
