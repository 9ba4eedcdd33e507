#include <algorithm>
#include <string>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/categories.h"
#include "src/report/memory_report.h"
#include "src/report/number_text.h"
#include "src/report/simulate_text.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

std::string StageTable(const StageMemory& stage, bool own, ByteUnit unit) {
  Table table(
      {{fmt::format("ZeRO stage {}{}", stage.stage, own ? " (this scenario)" : ""), Align::kLeft},
       {fmt::format("formula {}", unit.name), Align::kRight},
       {fmt::format("simulated {}", unit.name), Align::kRight}});
  const auto simulated = [&](auto bytes_of) {
    return stage.simulated.has_value() ? In(unit, bytes_of(*stage.simulated)) : std::string("-");
  };
  for (std::size_t i = 0; i < stage.formula.size(); ++i) {
    table.AddRow({std::string(kCategoryNames[i]), In(unit, stage.formula[i]),
                  simulated([&](const auto& memory) { return memory.at_peak[i]; })});
  }
  table.AddRule();
  table.AddRow({"peak allocated", In(unit, Total(stage.formula)),
                simulated([](const auto& memory) { return memory.peak; })});
  if (stage.simulated.has_value()) {
    table.AddRow({"reserved by the allocator", "", In(unit, stage.simulated->reserved)});
    table.AddRow({"outside the allocator", "", In(unit, stage.simulated->outside)});
  }
  std::string out = table.ToString();
  if (!stage.simulated.has_value()) return out + "not simulated: " + stage.reason + "\n";
  if (stage.simulated->padding > Bytes(0)) {
    out += fmt::format("{} of the peak only pad shards to equal length\n",
                       FormatBytes(stage.simulated->padding));
  }
  return out + Verdict(*stage.simulated) + "\n";
}

}  // namespace

std::string MemoryText(const scenario::Scenario& scenario, const MemoryReport& report) {
  const model::Model& model = *scenario.model;
  std::string out = fmt::format(
      "{}\n\nmodel      {}, {} parameters\n"
      "framework  {}, {} data-parallel ranks\n"
      "capacity   {} per device\n\n"
      "The formula knows the model's states and activations and nothing of the framework's\n"
      "buffers; the simulated categories are those alive at the simulated peak.\n",
      scenario.name, model.name, Grouped(model.parameter_count()),
      plan::Name(scenario.plan.data_parallel.framework), Grouped(scenario.plan.parallelism.data),
      FormatBytes(scenario.cluster->device_memory()));
  Bytes most;
  for (const StageMemory& stage : report.stages) {
    most = std::max({most, Total(stage.formula),
                     stage.simulated.has_value() ? stage.simulated->peak : Bytes()});
  }
  for (const StageMemory& stage : report.stages) {
    out += "\n" + StageTable(stage, stage.stage == report.own_stage, UnitFor(most));
  }
  return out;
}

}  // namespace stepcast::report
