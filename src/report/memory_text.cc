#include <algorithm>
#include <string>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/answers.h"
#include "src/report/categories.h"
#include "src/report/figures_text.h"
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
  return out + MemorySentence(*stage.simulated) + "\n";
}

// The largest micro-batch of each stage; empty if not requested.
std::string LimitTable(const MemoryReport& report) {
  const bool asked = std::any_of(report.stages.begin(), report.stages.end(),
                                 [](const StageMemory& stage) { return stage.limit.has_value(); });
  if (!asked) return "";
  Table table({{"largest micro-batch that fits", Align::kLeft},
               {"sequences", Align::kRight},
               {"left GiB", Align::kRight},
               {"one more lacks GiB", Align::kRight}});
  constexpr ByteUnit kUnit = {"GiB", std::int64_t{1} << 30};
  for (const StageMemory& stage : report.stages) {
    std::string name = fmt::format("ZeRO stage {}{}", stage.stage,
                                   stage.stage == report.own_stage ? " (this scenario)" : "");
    if (!stage.limit.has_value()) {
      table.AddRow({std::move(name), "-", "-", "-"});
      continue;
    }
    const forecast::MicroBatchLimit& limit = *stage.limit;
    const auto left = [](const forecast::MemoryForecast& memory) {
      return memory.capacity - memory.reserved - memory.outside;
    };
    // Offloaded states that do not fit on a node do not affect the device's memory.
    const auto lacks = [&](const forecast::MemoryForecast& memory) -> std::string {
      if (!memory.fits_host()) return "host memory";
      return In(kUnit, Bytes(-left(memory).count()));
    };
    table.AddRow({std::move(name), limit.largest == 0 ? "none" : Grouped(limit.largest),
                  limit.largest == 0 ? "-" : In(kUnit, left(limit.memory)),
                  limit.of_the_plan    ? "most a plan may have"
                  : limit.largest == 0 ? lacks(limit.memory)
                                       : lacks(limit.beyond)});
  }
  return "\n" + table.ToString();
}

std::string Capacity(const scenario::Scenario& scenario) {
  const std::string first = FormatBytes(scenario.cluster->device_memory());
  if (scenario.other_nodes.empty()) return first + " per device";
  std::string all = fmt::format("{} per {}", first, scenario.cluster->gpu());
  for (const scenario::KindOfNode& kind : scenario.other_nodes) {
    all += fmt::format(", {} per {}", FormatBytes(kind.cluster->device_memory()), kind.gpu.name);
  }
  return all;
}

}  // namespace

std::string MemoryText(const scenario::Scenario& scenario, const MemoryReport& report) {
  const model::Model& model = *scenario.model;
  std::string out = fmt::format(
      "{}\n\nmodel      {}, {}\n"
      "framework  {}, {} data-parallel ranks\n"
      "capacity   {}\n\n"
      "The formula knows the model's states and activations and nothing of the framework's\n"
      "buffers; the simulated categories are those alive at the simulated peak.\n",
      scenario.name, model.name, ParametersText(model),
      plan::Name(scenario.plan.data_parallel.framework), Grouped(scenario.plan.parallelism.data),
      Capacity(scenario));
  Bytes most;
  for (const StageMemory& stage : report.stages) {
    most = std::max({most, Total(stage.formula),
                     stage.simulated.has_value() ? stage.simulated->peak : Bytes()});
  }
  for (const StageMemory& stage : report.stages) {
    out += "\n" + StageTable(stage, stage.stage == report.own_stage, UnitFor(most));
  }
  return out + LimitTable(report);
}

}  // namespace stepcast::report
