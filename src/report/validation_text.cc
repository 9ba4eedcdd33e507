#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/program/description.h"
#include "src/report/figures_text.h"
#include "src/report/hardware_reports.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

// The difference relative to the measurement; "-" if that is zero.
std::string Error(double difference, double measured) {
  if (measured == 0) return "-";
  const double per_cent = 100 * difference / measured;
  if (std::abs(per_cent) >= 1000) return per_cent > 0 ? ">1,000" : "<-1,000";
  return Signed(per_cent, 1);
}

std::string Error(const validate::TimePair& pair) {
  return Error(pair.difference().seconds(), pair.measured.seconds());
}

std::vector<std::string> Cells(const validate::TimePair& pair) {
  return {Milliseconds(pair.forecast), Milliseconds(pair.measured),
          SignedMilliseconds(pair.difference()), Error(pair)};
}

std::vector<std::string> Row(std::vector<std::string> first, const validate::TimePair& pair) {
  for (std::string& cell : Cells(pair)) first.push_back(std::move(cell));
  return first;
}

std::string TimeTable(const validate::Comparison& comparison) {
  Table table({{"where the time goes", Align::kLeft},
               {"forecast ms", Align::kRight},
               {"measured ms", Align::kRight},
               {"difference", Align::kRight},
               {"%", Align::kRight}});
  for (const validate::TimePair& pair : comparison.time) table.AddRow(Row({pair.name}, pair));
  table.AddRule();
  table.AddRow(Row({comparison.step.name}, comparison.step));
  table.AddRow(Row({comparison.communication.name}, comparison.communication));
  return table.ToString();
}

std::string KindTable(const validate::Comparison& comparison) {
  Table table({{"operations of a step", Align::kLeft},
               {"calls", Align::kRight},
               {"forecast ms", Align::kRight},
               {"measured ms", Align::kRight},
               {"difference", Align::kRight},
               {"%", Align::kRight}});
  for (const validate::TimePair& pair : comparison.kinds) {
    table.AddRow(Row({pair.name, Grouped(pair.calls)}, pair));
  }
  return table.ToString();
}

std::string MemoryTable(const validate::Comparison& comparison) {
  const validate::BytesPair& peak = comparison.peak;
  const Bytes difference = peak.forecast - peak.measured;
  const ByteUnit unit = UnitFor(std::max(peak.forecast, peak.measured));
  Table table({{"memory", Align::kLeft},
               {fmt::format("forecast {}", unit.name), Align::kRight},
               {fmt::format("measured {}", unit.name), Align::kRight},
               {"difference", Align::kRight},
               {"%", Align::kRight}});
  const std::string size = In(unit, Bytes(std::abs(difference.count())));
  table.AddRow(
      {"peak", In(unit, peak.forecast), In(unit, peak.measured),
       difference < Bytes(0) ? "-" + size : size,
       Error(static_cast<double>(difference.count()), static_cast<double>(peak.measured.count()))});
  return table.ToString();
}

std::string LargestTable(const program::Program& program, const validate::Comparison& comparison) {
  Table table({{"largest differences", Align::kLeft},
               {"of", Align::kLeft},
               {"stream", Align::kLeft},
               {"starts forecast", Align::kRight},
               {"measured", Align::kRight},
               {"takes forecast", Align::kRight},
               {"measured", Align::kRight},
               {"difference", Align::kRight}});
  for (const validate::OperationPair& pair : comparison.largest) {
    const program::Instruction& instruction = program.step[pair.instruction];
    const bool on_stream = program::RunsOnStream(instruction.opcode);
    table.AddRow({program::OperandName(program, instruction),
                  instruction.label == program::kNone ? "" : program.labels[instruction.label],
                  on_stream ? program.streams[instruction.stream].name : "host",
                  SignedMilliseconds(pair.forecast_start), SignedMilliseconds(pair.measured_start),
                  Milliseconds(pair.forecast_duration), Milliseconds(pair.measured_duration),
                  SignedMilliseconds(pair.difference())});
  }
  return table.ToString() + "times in ms; starts count from the start of the step\n";
}

std::string AccuracySentence(const validate::Comparison& comparison, double within) {
  const double error = comparison.step_error();
  return fmt::format("step time: forecast {}, measured {}: {} %, {} {} %\n",
                     FormatTime(comparison.step.forecast), FormatTime(comparison.step.measured),
                     Signed(100 * error, 1), std::abs(error) <= within ? "within" : "not within",
                     Decimal(100 * within, 1));
}

}  // namespace

std::string ValidationText(const scenario::Scenario& scenario, const validate::Execution& execution,
                           const validate::Comparison& comparison, double within) {
  return fmt::format("{}{}\n{}\n{}\n{}\n{}\n{}", Header(scenario, ForecastFacts(scenario)),
                     RunLine(execution), TimeTable(comparison), KindTable(comparison),
                     LargestTable(execution.program_of(execution.critical()), comparison),
                     MemoryTable(comparison), AccuracySentence(comparison, within));
}

}  // namespace stepcast::report
