#include "src/forecast/step_clock.h"

#include <algorithm>
#include <cstddef>

#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/forecast/steady_run.h"
#include "src/program/program.h"

namespace stepcast::forecast {
namespace {

using program::Program;

// Calls `take` with the table of StepCounts, the operand and the time of each entry of a program's
// tables, including the time to issue it.
template <typename Take>
void ForEachTime(const Program& program, const cost::Prices& prices, Take take) {
  for (std::size_t i = 0; i < program.kernels.size(); ++i) {
    take(&StepCounts::kernels, i, prices.kernels[i].alone() + prices.IssueOf(program.kernels[i]));
  }
  for (std::size_t i = 0; i < program.collectives.size(); ++i) {
    take(&StepCounts::collectives, i,
         prices.collectives[i].demand.alone() + prices.issue_collective);
  }
  for (std::size_t i = 0; i < program.exchanges.size(); ++i) {
    Time messages = prices.issue_collective;
    for (const cost::MessagePrice& message : prices.exchanges[i]) {
      messages += message.demand.alone();
    }
    take(&StepCounts::exchanges, i, messages);
  }
  for (std::size_t i = 0; i < program.copies.size(); ++i) {
    take(&StepCounts::copies, i, prices.copies[i].alone() + prices.issue_copy);
  }
  for (std::size_t i = 0; i < program.host_tasks.size(); ++i) {
    take(&StepCounts::host_tasks, i, program.host_tasks[i].duration);
  }
}

}  // namespace

bool OutlastsTheClock(const PricedClass& own, double times) {
  const Program& program = own.program;
  const cost::Prices& prices = own.prices;
  const double most = static_cast<double>(Seconds(86'400).picoseconds()) / times;
  // Few steps are near the limit, so first try a bound with the longest instruction.
  Time longest;
  ForEachTime(program, prices,
              [&](auto, std::size_t, Time time) { longest = std::max(longest, time); });
  const auto instructions = static_cast<double>(program.step.size());
  if (instructions * static_cast<double>(longest.picoseconds()) <= most) return false;
  const StepCounts counts(program);
  double picoseconds = 0;
  ForEachTime(program, prices, [&](auto table, std::size_t operand, Time time) {
    picoseconds += (counts.*table)[operand] * static_cast<double>(time.picoseconds());
  });
  return picoseconds > most;
}

bool OutlastsTheClock(const std::vector<PricedClass>& priced, const ShorterStep& shorter) {
  const auto whole = static_cast<double>(shorter.micro_batches + shorter.left_out * shorter.period);
  return std::any_of(priced.begin(), priced.end(), [&](const PricedClass& own) {
    return OutlastsTheClock(own, whole / static_cast<double>(shorter.micro_batches));
  });
}

tl::expected<void, Diagnostics> CheckClock(const scenario::Scenario& scenario,
                                           const PricedClass& own) {
  if (!OutlastsTheClock(own)) return {};
  return tl::unexpected(
      Diagnostics{{.code = "cost.step-too-long",
                   .location = scenario.cluster_location,
                   .message = "the operations of a step add up to more than a day",
                   .hint = "check the units of bandwidths, latencies and layer times, or use fewer "
                           "micro-batches"}});
}

}  // namespace stepcast::forecast
