#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/answers.h"
#include "src/report/categories.h"
#include "src/report/json.h"
#include "src/report/page.h"
#include "src/report/page_figures.h"
#include "src/report/step_figures.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

using enum Align;

std::string NameOf(const StageMemory& stage, const MemoryReport& report) {
  return fmt::format("ZeRO stage {}{}", stage.stage,
                     stage.stage == report.own_stage ? " (this scenario)" : "");
}

Table StageTable(const StageMemory& stage, const MemoryReport& report, ByteUnit unit) {
  Table table({{NameOf(stage, report), kLeft},
               {fmt::format("formula {}", unit.name)},
               {fmt::format("simulated {}", unit.name)}});
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
  return table;
}

// What the table of a stage does not say, in lines.
std::string StageNotes(const StageMemory& stage) {
  if (!stage.simulated.has_value()) return "not simulated: " + stage.reason + "\n";
  std::string out;
  if (stage.simulated->padding > Bytes(0)) {
    out += fmt::format("{} of the peak is padding, because all shards have the same length\n",
                       FormatBytes(stage.simulated->padding));
  }
  return out + MemorySentence(*stage.simulated) + "\n";
}

bool HasLimits(const MemoryReport& report) {
  return std::any_of(report.stages.begin(), report.stages.end(),
                     [](const StageMemory& stage) { return stage.limit.has_value(); });
}

// The largest micro-batch of each stage.
Table LimitTable(const MemoryReport& report) {
  Table table({{"largest micro-batch that fits", kLeft},
               {"sequences"},
               {"left GiB"},
               {"GiB missing for one more"}});
  constexpr ByteUnit kUnit = {"GiB", std::int64_t{1} << 30};
  for (const StageMemory& stage : report.stages) {
    std::string name = NameOf(stage, report);
    if (!stage.limit.has_value()) {
      table.AddRow({std::move(name), "-", "-", "-"});
      continue;
    }
    const forecast::MicroBatchLimit& limit = *stage.limit;
    // Offloaded states that do not fit on a node do not affect the device's memory.
    const auto lacks = [&](const forecast::MemoryForecast& memory) -> std::string {
      if (!memory.fits_host()) return "host memory";
      return In(kUnit, Bytes(-memory.left().count()));
    };
    table.AddRow({std::move(name), limit.largest == 0 ? "none" : Grouped(limit.largest),
                  limit.largest == 0 ? "-" : In(kUnit, limit.memory.left()),
                  limit.of_the_plan    ? "limited by a rule, not by memory"
                  : limit.largest == 0 ? lacks(limit.memory)
                                       : lacks(limit.beyond)});
  }
  return table;
}

ByteUnit UnitOf(const MemoryReport& report) {
  Bytes most;
  for (const StageMemory& stage : report.stages) {
    most = std::max({most, Total(stage.formula),
                     stage.simulated.has_value() ? stage.simulated->peak : Bytes()});
  }
  return UnitFor(most);
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

Json Simulated(const forecast::MemoryForecast& memory) {
  Json object = Json::object();
  AddCategories(object, memory.at_peak);
  object["peak_bytes"] = memory.peak.count();
  object["padding_bytes"] = memory.padding.count();
  object["reserved_bytes"] = memory.reserved.count();
  object["outside_bytes"] = memory.outside.count();
  object["fits"] = memory.fits;
  object["verdict"] = Name(memory.verdict());
  object["fit_probability"] = memory.fit_probability;
  return object;
}

// The largest micro-batch, the memory it leaves, and the memory that one more sequence lacks.
Json Limit(const forecast::MicroBatchLimit& limit) {
  const bool some = limit.largest > 0;
  return Json{
      {"micro_batch_size", limit.largest},
      {"limited_by", limit.of_the_plan ? "plan" : "memory"},
      {"reserved_bytes", some ? Json(limit.memory.reserved.count()) : Json()},
      {"headroom_bytes", some ? Json(limit.memory.left().count()) : Json()},
      {"one_more_lacks_bytes", limit.of_the_plan ? Json()
                               : some            ? Json(-limit.beyond.left().count())
                                                 : Json(-limit.memory.left().count())},
  };
}

// The least memory among the cluster's devices.
Bytes LeastMemory(const scenario::Scenario& scenario) {
  Bytes least = scenario.cluster->device_memory();
  for (const scenario::KindOfNode& kind : scenario.other_nodes) {
    least = std::min(least, kind.cluster->device_memory());
  }
  return least;
}

using forecast::BytesByCategory;
using formats::kMeasuredCategories;
using formats::MeasuredCategory;

constexpr std::array<std::string_view, kMeasuredCategories> kNames = {"parameters", "gradients",
                                                                      "optimizer", "other"};

std::array<Bytes, kMeasuredCategories> AsMeasured(const BytesByCategory& bytes) {
  std::array<Bytes, kMeasuredCategories> result{};
  const auto add = [&](program::Category from, MeasuredCategory to) {
    result[static_cast<std::size_t>(to)] += bytes[static_cast<std::size_t>(from)];
  };
  add(program::Category::kParameter, MeasuredCategory::kParameters);
  add(program::Category::kGradient, MeasuredCategory::kGradients);
  add(program::Category::kOptimizer, MeasuredCategory::kOptimizer);
  add(program::Category::kActivation, MeasuredCategory::kOther);
  add(program::Category::kCommunication, MeasuredCategory::kOther);
  add(program::Category::kWorkspace, MeasuredCategory::kOther);
  return result;
}

}  // namespace

std::string MemoryText(const scenario::Scenario& scenario, const MemoryReport& report) {
  const model::Model& model = *scenario.model;
  std::string out = fmt::format(
      "{}\n\nmodel      {}, {}\nframework  {}, {} data-parallel ranks\ncapacity   {}\n\nThe "
      "formula includes the model's states and activations, but not the framework's buffers.\nThe "
      "simulated categories show the memory in use at the simulated peak.\n",
      scenario.name, model.name, ParametersText(model),
      plan::Name(scenario.plan.data_parallel.framework), Grouped(scenario.plan.parallelism.data),
      Capacity(scenario));
  for (const StageMemory& stage : report.stages) {
    out += "\n" + StageTable(stage, report, UnitOf(report)).ToString() + StageNotes(stage);
  }
  return HasLimits(report) ? out + "\n" + LimitTable(report).ToString() : out;
}

std::string MemoryPage(const scenario::Scenario& scenario, const MemoryReport& report,
                       const Fitting* fitting) {
  Page page = PageOf(scenario, "Memory of a device at each ZeRO stage");
  std::vector<MemoryBar> bars;
  PageSection section{.heading = "Memory by category"};
  section.paragraphs = {
      "The formula includes the model's states and activations, but not the framework's buffers. "
      "The simulated categories show the memory in use at the simulated peak."};
  for (const StageMemory& stage : report.stages) {
    bars.push_back({.name = fmt::format("stage {}, formula", stage.stage), .bytes = stage.formula});
    PageFigure figure{
        .label = NameOf(stage, report), .value = "not simulated", .more = stage.reason};
    if (stage.simulated.has_value()) {
      const forecast::MemoryForecast& memory = *stage.simulated;
      bars.push_back(MemoryBarOf(fmt::format("stage {}, simulated", stage.stage), memory));
      figure.value = FormatBytes(memory.peak);
      figure.more = MemorySentence(memory);
      figure.tone = ToneOf(memory.verdict());
      if (stage.stage == report.own_stage) {
        page.verdict = fmt::format("The step {}.", figure.more);
        page.tone = figure.tone;
      }
    }
    page.answer.push_back(std::move(figure));
    section.tables.push_back(
        {.caption = NameOf(stage, report), .table = StageTable(stage, report, UnitOf(report))});
  }
  section.chart = MemoryBars(
      "Memory of a device at each ZeRO stage, by the formula and simulated, as stacked bars", bars,
      LeastMemory(scenario));
  page.sections.push_back(std::move(section));
  if (HasLimits(report)) {
    page.sections.push_back({.heading = "The largest micro-batch that fits",
                             .tables = {{.caption = "The largest micro-batch that fits",
                                         .table = LimitTable(report)}}});
  }
  if (fitting != nullptr && fitting->forecasts > 0) {
    page.appendices.insert(page.appendices.begin(),
                           {"Settings that make the step fit", FittingText(*fitting)});
  }
  return PageHtml(page);
}

std::string MemoryJson(const scenario::Scenario& scenario, const MemoryReport& report,
                       double seconds, const Fitting* fitting) {
  Json stages = Json::array();
  for (const StageMemory& stage : report.stages) {
    Json formula = Json::object();
    AddCategories(formula, stage.formula);
    formula["total_bytes"] = Total(stage.formula).count();
    Json entry{{"stage", stage.stage}, {"formula", std::move(formula)}};
    entry["simulated"] = stage.simulated.has_value() ? Simulated(*stage.simulated) : Json();
    if (!stage.simulated.has_value()) entry["reason"] = stage.reason;
    if (stage.limit.has_value()) entry["max_micro_batch"] = Limit(*stage.limit);
    stages.push_back(std::move(entry));
  }
  Json document{
      {"stepcast", 1},
      {"scenario", scenario.name},
      {"parameters", scenario.model->all_parameter_count()},
      {"capacity_bytes", LeastMemory(scenario).count()},
      {"stage", report.own_stage},
      {"stages", std::move(stages)},
      {"resolved", ToJson(scenario.resolved)},
      {"warnings", scenario.warnings},
  };
  if (fitting != nullptr) document["would_fit"] = FittingJson(*fitting);
  document["run"] = {{"seconds", seconds}};
  return Text(document);
}

std::string MeasuredMemoryText(const MeasuredComparison& comparison) {
  const formats::MeasuredMemory& measured = *comparison.measured;
  const forecast::MemoryForecast& forecast = *comparison.forecast;
  const ByteUnit unit = UnitFor(std::max(measured.allocated, forecast.reserved));
  Table table({{"memory of a rank", kLeft},
               {fmt::format("measured {}", unit.name)},
               {fmt::format("forecast {}", unit.name)},
               {"difference"},
               {"%"}});
  const auto row = [&](std::string_view what, Bytes of_measured, Bytes of_forecast) {
    const auto a = static_cast<double>(of_measured.count());
    const double difference = static_cast<double>(of_forecast.count()) - a;
    table.AddRow({std::string(what), In(unit, of_measured), In(unit, of_forecast),
                  Signed(difference / static_cast<double>(unit.bytes), 2),
                  a == 0 ? "-" : Signed(100 * difference / a, 1)});
  };
  if (measured.at_peak) {
    const auto of_forecast = AsMeasured(forecast.at_peak);
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      row(i + 1 < kNames.size() ? kNames[i] : "activations, communication, others",
          (*measured.at_peak)[i], of_forecast[i]);
    }
    table.AddRule();
  }
  row("peak allocated", measured.allocated, forecast.peak);
  if (measured.reserved) row("reserved by the allocator", *measured.reserved, forecast.reserved);
  return fmt::format("{} compared with a {} of PyTorch's memory, {}\n\n{}", comparison.scenario,
                     measured.form, comparison.file, table.ToString());
}

std::string MeasuredMemoryJson(const MeasuredComparison& comparison, double seconds) {
  const formats::MeasuredMemory& measured = *comparison.measured;
  const forecast::MemoryForecast& forecast = *comparison.forecast;
  Json at_peak;
  if (measured.at_peak) {
    at_peak = Json::object();
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      at_peak[fmt::format("{}_bytes", kNames[i])] = (*measured.at_peak)[i].count();
    }
  }
  const Json reserved = measured.reserved ? Json(measured.reserved->count()) : Json();
  return Text(Json{
      {"stepcast", 1},
      {"scenario", comparison.scenario},
      {"measured", Json{{"file", comparison.file},
                        {"form", measured.form},
                        {"peak_bytes", measured.allocated.count()},
                        {"reserved_bytes", reserved},
                        {"at_peak", at_peak},
                        {"notes", measured.notes}}},
      {"memory", MemoryJson(forecast)},
      {"run", Json{{"seconds", seconds}}},
  });
}

}  // namespace stepcast::report
