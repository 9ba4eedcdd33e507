#include "src/validate/comparison.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/collective_kind.h"
#include "src/forecast/training_run.h"
#include "src/program/description.h"

namespace stepcast::validate {
namespace {

using program::Index;
using program::Opcode;
using program::Program;

// The kernel's name, the copy's direction, or the collective's or exchange's kind and group.
std::string KindOf(const Program& program, const program::Instruction& instruction) {
  if (instruction.opcode == Opcode::kCollective) {
    const program::Collective& collective = program.collectives[instruction.operand];
    const program::Communicator& communicator = program.communicators[collective.communicator];
    return fmt::format("{} ({})", Name(collective.kind), program.groups[communicator.group].name);
  }
  const std::string name = program::OperandName(program, instruction);
  if (instruction.opcode == Opcode::kExchange) {
    const Index communicator = program.exchanges[instruction.operand].communicator;
    const Index group = program.communicators[communicator].group;
    return fmt::format("{} ({})", name, program.groups[group].name);
  }
  return instruction.opcode == Opcode::kCopy ? name + " copy" : name;
}

struct Sample {
  Time start, duration;
};

Time Median(std::vector<Time> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// By instruction; operations without a record have no entry.
std::map<Index, Sample> Forecast(const program::Timeline& timeline, std::uint32_t step) {
  const Time origin = step == 0 ? Time() : timeline.step_ends[step - 1];
  std::map<Index, Sample> samples;
  for (const program::OperationRecord& record : timeline.operations) {
    if (record.step != step) continue;
    samples[record.instruction] = {record.start - origin, record.end - record.start};
  }
  return samples;
}

std::map<Index, Sample> Measured(const Execution& execution) {
  const RankRun& rank = execution.critical();
  std::map<std::uint32_t, Time> origins;
  for (const MeasuredStep& step : execution.steps) origins[step.step] = step.start;
  struct Times {
    std::vector<Time> starts, durations;
  };
  std::map<Index, Times> times;
  for (const program::OperationRecord& record : rank.measurement.timeline.operations) {
    const auto origin = origins.find(record.step);
    if (origin == origins.end()) continue;
    Times& own = times[record.instruction];
    own.starts.push_back(record.start - origin->second);
    own.durations.push_back(record.end - record.start);
  }
  std::map<Index, Sample> samples;
  for (auto& [instruction, own] : times) {
    samples[instruction] = {Median(std::move(own.starts)), Median(std::move(own.durations))};
  }
  return samples;
}

std::int64_t Size(const OperationPair& pair) { return std::abs(pair.difference().picoseconds()); }

}  // namespace

double Comparison::step_error() const {
  if (step.measured == Time()) return step.forecast == Time() ? 0 : 1;
  return step.difference() / step.measured;
}

Comparison Compare(const forecast::Run& forecast, const Execution& execution) {
  const Program& program = execution.program_of(execution.critical());
  const forecast::ClassRun& own = forecast.class_of(execution.critical_rank);
  STEPCAST_CHECK(own.program.step.size() == program.step.size(),
                 "the forecast and the execution must run the same program");
  const forecast::Forecast& expected = forecast.forecast;
  const forecast::Forecast& figures = execution.figures;
  Comparison comparison;
  comparison.step = {"step", 1, expected.step_time, figures.step_time};
  const auto parts = forecast::PartsOf(expected.time), measured = forecast::PartsOf(figures.time);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].always && parts[i].time == Time() && measured[i].time == Time()) continue;
    comparison.time.push_back({parts[i].name, 0, parts[i].time, measured[i].time});
  }
  comparison.communication = {"communication in flight", 0, expected.communication_total,
                              figures.communication_total};
  comparison.peak = {expected.memory.peak, figures.memory.peak};

  const std::map<Index, Sample> forecasts = Forecast(own.timeline, forecast.first_step);
  std::map<std::string, std::size_t> places;  // in comparison.kinds
  for (const auto& [instruction, measured] : Measured(execution)) {
    const auto found = forecasts.find(instruction);
    if (found == forecasts.end()) continue;
    const std::string kind = KindOf(program, program.step[instruction]);
    const auto [place, first] = places.try_emplace(kind, comparison.kinds.size());
    if (first) comparison.kinds.push_back({kind, 0, Time(), Time()});
    TimePair& sum = comparison.kinds[place->second];
    sum.calls += 1;
    sum.forecast += found->second.duration;
    sum.measured += measured.duration;
    comparison.largest.push_back({instruction, found->second.start, found->second.duration,
                                  measured.start, measured.duration});
  }
  std::stable_sort(
      comparison.largest.begin(), comparison.largest.end(),
      [](const OperationPair& a, const OperationPair& b) { return Size(a) > Size(b); });
  if (comparison.largest.size() > kLargest) comparison.largest.resize(kLargest);
  return comparison;
}

}  // namespace stepcast::validate
