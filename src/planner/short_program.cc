#include "src/planner/short_program.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/lowering/lowering.h"

namespace stepcast::planner {
namespace {

using program::Instruction;
using program::Program;

// Events of which a few take turns let micro-batches repeat every few of them.
constexpr std::int64_t kPeriods[] = {1, 2, 4};
constexpr std::int64_t kLongestPeriod = 4;
// The first, two of the longest periods, and the last.
constexpr std::int64_t kFewest = 2 * kLongestPeriod + 2;

// Where each micro-batch begins in the step; and its end.
std::vector<std::size_t> BeginsOfMicroBatches(const Program& program) {
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < program.step.size(); ++i) {
    while (begins.size() <= program.step[i].micro_batch) begins.push_back(i);
  }
  begins.push_back(program.step.size());
  return begins;
}

bool Same(const Instruction& a, const Instruction& b) {
  return a.opcode == b.opcode && a.phase == b.phase && a.stream == b.stream &&
         a.operand == b.operand && a.use_count == b.use_count;
}

// Whether each micro-batch between the first and the last is the one a period before it.
bool Repeats(const Program& program, const std::vector<std::size_t>& begins, std::size_t period) {
  const std::size_t last = begins.size() - 2;
  for (std::size_t m = 1; m + period < last; ++m) {
    const auto one = program.step.begin() + static_cast<std::ptrdiff_t>(begins[m]);
    const auto one_end = program.step.begin() + static_cast<std::ptrdiff_t>(begins[m + 1]);
    const auto other = program.step.begin() + static_cast<std::ptrdiff_t>(begins[m + period]);
    const auto other_end =
        program.step.begin() + static_cast<std::ptrdiff_t>(begins[m + period + 1]);
    if (!std::equal(one, one_end, other, other_end, Same)) return false;
  }
  return true;
}

}  // namespace

ShortProgram LowerShort(const scenario::Scenario& scenario) {
  const plan::Training& training = scenario.plan.training;
  const std::int64_t count = training.gradient_accumulation;
  // The last micro-batch stands at the same place in its period.
  const std::int64_t fewer = kFewest + (count - kFewest) % kLongestPeriod;
  // A loader of data has an event for each micro-batch.
  if (count < kFewest + 2 * kLongestPeriod || training.data_loading) {
    return {lowering::Lower(scenario), {}};
  }
  scenario::Scenario shorter = scenario;
  shorter.plan.training.gradient_accumulation = fewer;
  shorter.plan.training.global_batch_size = training.global_batch_size / count * fewer;
  ShortProgram result{lowering::Lower(shorter), {}};
  const std::vector<std::size_t> begins = BeginsOfMicroBatches(result.program);
  if (begins.size() == static_cast<std::size_t>(fewer) + 1) {
    for (const std::int64_t period : kPeriods) {
      if (!Repeats(result.program, begins, static_cast<std::size_t>(period))) continue;
      result.repeated = {.first = begins[1],
                         .last = begins[1 + static_cast<std::size_t>(period)],
                         .more = (count - fewer) / period};
      return result;
    }
  }
  return {lowering::Lower(scenario), {}};
}

}  // namespace stepcast::planner
