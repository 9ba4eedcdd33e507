#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/quantity.h"
#include "src/report/answer.h"
#include "src/report/answers.h"
#include "src/report/page.h"
#include "src/report/page_figures.h"
#include "src/report/step_figures.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

using enum Align;

constexpr const char* kFormula =
    "The formula includes the model's states and activations, but not the framework's buffers.";
constexpr const char* kSimulated =
    "The simulated categories show the memory in use at the simulated peak.";

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

// The largest micro-batch of each stage, the memory it leaves, and the memory that one more
// sequence lacks.
AnswerTable LimitTable(const MemoryReport& report) {
  AnswerTable table{{{"largest micro-batch that fits", "", kLeft},
                     {"sequences", "micro_batch_size"},
                     {"", "limited_by"},
                     {"", "reserved_bytes"},
                     {"left GiB", "headroom_bytes"},
                     {"GiB missing for one more", "one_more_lacks_bytes"}}};
  constexpr ByteUnit kUnit = {"GiB", std::int64_t{1} << 30};
  const Cell none("-", Json());
  for (const StageMemory& stage : report.stages) {
    if (!stage.limit.has_value()) {
      table.Add({NameOf(stage, report), none, none, none, none, none});
      continue;
    }
    const forecast::MicroBatchLimit& limit = *stage.limit;
    const bool some = limit.largest > 0;
    const forecast::MemoryForecast& more = some ? limit.beyond : limit.memory;
    Cell lacks = Amount(kUnit, Bytes(-more.left().count()));
    // Offloaded states that do not fit on a node do not affect the device's memory.
    if (!more.fits_host()) lacks.text = "host memory";
    if (limit.of_the_plan) lacks = Cell("limited by a rule, not by memory", Json());
    table.Add({NameOf(stage, report), some ? Cell(limit.largest) : Cell("none", limit.largest),
               limit.of_the_plan ? "plan" : "memory",
               some ? Json(limit.memory.reserved.count()) : Json(),
               some ? Amount(kUnit, limit.memory.left()) : none, std::move(lacks)});
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

using enum Align;

// The command with further settings; empty if none is known.
CommandWords With(const Fitting& fitting, const FittingSettings& one) {
  CommandWords command = fitting.command;
  if (!command.words.empty()) command.set.insert(command.set.end(), one.set.begin(), one.set.end());
  return command;
}

std::string CommandOrNothing(const Fitting& fitting, const FittingSettings& one) {
  const CommandWords command = With(fitting, one);
  return command.words.empty() ? "" : CommandText(command);
}

// The changed settings. Keys that return to their defaults, and the batch, which stays, are only in
// the command.
std::string SettingsOf(const FittingSettings& one) {
  std::vector<std::string> shown;
  for (const std::string& setting : one.set) {
    if (setting.ends_with("=null") || setting.starts_with("training.global_batch_size=")) continue;
    shown.push_back(setting);
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

std::string NothingFits(const Fitting& fitting) {
  std::string text = fmt::format(
      "The step does not fit, even with one, two or three memory-saving settings together ({} "
      "forecasts{}).\n",
      fitting.forecasts, fitting.stopped ? "; the time limit was reached" : "");
  if (fitting.nearest) {
    const FittingSettings& nearest = *fitting.nearest;
    text +=
        nearest.left < Bytes()
            ? fmt::format("With the closest settings, {}, the step still needs {} more memory.\n",
                          SettingsOf(nearest), FormatBytes(Bytes(-nearest.left.count())))
            : fmt::format(
                  "With the closest settings, {}, the probability that the step fits is {} %.\n",
                  SettingsOf(nearest), Decimal(kHundred * nearest.fit_probability, 0));
    text += CommandOrNothing(fitting, nearest);
  }
  return Wrapped(text + "Use more GPUs, or GPUs with more memory.\n");
}

AnswerTable Settings(const Fitting& fitting) {
  AnswerTable table{{{"", ""},
                     {"settings that fit", "set", kLeft},
                     {"step ms", "step_time_s"},
                     {"longer by %", ""},
                     {"left GiB", "free_bytes"},
                     {"fits %", "fit_probability"},
                     {"", "command"}}};
  for (const FittingSettings& one : fitting.settings) {
    const double change = fitting.step_time == Time() ? 0 : one.step_time / fitting.step_time - 1;
    const double left = static_cast<double>(one.left.count()) / (1 << 30);
    const CommandWords command = With(fitting, one);
    table.Add({Plain(table.rows.size() + 1), Cell(SettingsOf(one), one.set), one.step_time,
               Signed(kHundred * change, 1), Cell(Decimal(left, 2), one.left.count()),
               InPerCent(one.fit_probability, 0),
               command.words.empty() ? Json() : Json(CommandLine(command))});
  }
  return table;
}

}  // namespace

std::string MemoryText(const scenario::Scenario& scenario, const MemoryReport& report) {
  const model::Model& model = *scenario.model;
  std::string out = fmt::format(
      "{}\n\nmodel      {}, {}\nframework  {}, {} data-parallel ranks\ncapacity   {}\n\n{}\n{}\n",
      scenario.name, model.name, ParametersText(model),
      plan::Name(scenario.plan.data_parallel.framework), Grouped(scenario.plan.parallelism.data),
      Capacity(scenario), kFormula, kSimulated);
  for (const StageMemory& stage : report.stages) {
    out += "\n" + StageTable(stage, report, UnitOf(report)).ToString() + StageNotes(stage);
  }
  return HasLimits(report) ? out + "\n" + LimitTable(report).Text() : out;
}

std::string MemoryPage(const scenario::Scenario& scenario, const MemoryReport& report,
                       const Fitting* fitting) {
  Page page = PageOf(scenario, "Memory of a device at each ZeRO stage");
  std::vector<MemoryBar> bars;
  PageSection section{.heading = "Memory by category"};
  section.paragraphs = {fmt::format("{} {}", kFormula, kSimulated)};
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
                                         .table = LimitTable(report).ToTable()}}});
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
  const Json limits = LimitTable(report).ToJson();
  for (const StageMemory& stage : report.stages) {
    Json formula = Json::object();
    AddCategories(formula, stage.formula);
    formula["total_bytes"] = Total(stage.formula).count();
    Json entry{{"stage", stage.stage}, {"formula", std::move(formula)}};
    entry["simulated"] = stage.simulated.has_value() ? Simulated(*stage.simulated) : Json();
    if (!stage.simulated.has_value()) entry["reason"] = stage.reason;
    if (stage.limit.has_value()) entry["max_micro_batch"] = limits[stages.size()];
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

std::string FittingText(const Fitting& fitting) {
  if (fitting.forecasts == 0) {
    return fitting.stopped ? Wrapped(
                                 "Memory-saving settings were not tried, because a forecast of the "
                                 "step takes too long.\n")
                           : "";
  }
  if (fitting.settings.empty()) return NothingFits(fitting);
  std::string commands;
  for (std::size_t i = 0; i < fitting.settings.size(); ++i) {
    const std::string command = CommandOrNothing(fitting, fitting.settings[i]);
    if (!command.empty()) commands += fmt::format("command {}\n{}", i + 1, command);
  }
  return Settings(fitting).Text() +
         (fitting.stopped ? "the time limit was reached before all settings were tried\n" : "") +
         (commands.empty() ? "" : "\n" + commands);
}

Json FittingJson(const Fitting& fitting) { return Settings(fitting).ToJson(); }

}  // namespace stepcast::report
