#include "src/report/answers.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/base/version.h"
#include "src/model/stage.h"
#include "src/report/page_figures.h"
#include "src/report/step_figures.h"
#include "src/report/table.h"
#include "src/report/timeline_chart.h"
#include "src/report/training_report.h"

namespace stepcast::report {
namespace {

std::string VersionText(const Version& version) {
  return fmt::format("{}.{}", version.major, version.minor);
}

// The software that the forecast assumes, and which versions the scenario leaves out.
Json SoftwareJson(const scenario::Scenario& scenario) {
  const plan::Software& software = scenario.plan.software;
  Json assumed = Json::array();
  if (scenario.torch_assumed) assumed.push_back("torch");
  if (scenario.nccl_assumed) assumed.push_back("nccl");
  return {{"torch", VersionText(software.torch)},
          {"nccl", VersionText(software.nccl)},
          {"assumed", std::move(assumed)}};
}

// The time of each kind in one column of a row, in picoseconds.
using Column = std::array<std::int64_t, kBarKinds>;

std::vector<Column> CellsOf(const Lane& lane, Time length, int columns) {
  std::vector<Column> cells(static_cast<std::size_t>(columns));
  const std::int64_t whole = std::max<std::int64_t>(1, length.picoseconds());
  // Cell i begins at floor(whole * i / columns), computed without overflow.
  const std::int64_t each = whole / columns, rest = whole % columns;
  const auto border = [&](std::int64_t i) { return each * i + rest * i / columns; };
  for (const Bar& bar : lane.bars) {
    const std::int64_t start = bar.start.picoseconds(), end = bar.end.picoseconds();
    std::int64_t cell = start / (each + 1);
    while (border(cell + 1) <= start) ++cell;
    for (; cell < columns && border(cell) < end; ++cell) {
      const std::int64_t part = std::min(end, border(cell + 1)) - std::max(start, border(cell));
      if (part > 0)
        cells[static_cast<std::size_t>(cell)][static_cast<std::size_t>(bar.kind)] += part;
    }
  }
  return cells;
}

std::string RowOf(const std::vector<Column>& cells, Time length, bool colour) {
  const std::int64_t half = length.picoseconds() / static_cast<std::int64_t>(cells.size()) / 2;
  std::string row;
  std::vector<int> colours;
  for (const Column& cell : cells) {
    std::size_t most = 0;
    std::int64_t busy = 0;
    for (std::size_t i = 0; i < cell.size(); ++i) {
      busy += cell[i];
      if (cell[i] > cell[most]) most = i;
    }
    char letter = ' ';
    int wanted = -1;
    if (busy > 0) {
      letter = kBarStyles[most].letter;
      if (busy < half) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
      wanted = kBarStyles[most].background;
    }
    row += letter;
    colours.push_back(wanted);
  }
  if (colour) return OnColours(row, colours);
  return row.erase(row.find_last_not_of(' ') + 1);
}

// Ticks at 1, 2 or 5 times a power of ten, so far apart that labels do not touch.
std::string Scale(Time length, int columns) {
  const double whole = static_cast<double>(length.picoseconds()) * 1e-9;  // ms
  constexpr int kLabel = 12;
  const double least = whole * kLabel / columns;
  double step = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {2.0, 2.5, 2.0}) {
    if (step >= least) break;
    step *= factor;
  }
  const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  std::string line;
  for (int i = 0; i * step <= whole; ++i) {
    const auto column = static_cast<std::size_t>(i * step / whole * columns);
    std::string label = Decimal(i * step, digits);
    if (i == 0) label += " ms";
    if (column + label.size() + 1 > static_cast<std::size_t>(columns)) break;
    if (line.size() < column) line.resize(column, ' ');
    line += "|" + label;
  }
  return line;
}

}  // namespace

std::string SimulateJson(const scenario::Scenario& scenario, const forecast::Forecast& forecast,
                         double seconds, const forecast::TrainingTarget& target,
                         const Fitting& fitting) {
  Json document{{"stepcast", 1},
                {"scenario", scenario.name},
                {"step_time_s", JsonSeconds(forecast.step_time)},
                {"step_time_range_s", RangeJson(forecast.step_time_range)}};
  AddStep(forecast, document);
  document.update({{"parameters", scenario.model->all_parameter_count()},
                   {"time_s", TimeJson(forecast.time)},
                   {"communication", CommunicationJson(forecast)},
                   {"memory", MemoryJson(forecast.memory)},
                   {"classes", ClassesJson(forecast)},
                   {"software", SoftwareJson(scenario)},
                   {"resolved", ToJson(scenario.resolved)},
                   {"warnings", scenario.warnings}});
  if (!scenario.model->is_layer_list()) {
    document["attention"] = {{"kernel", model::Name(scenario.plan.training.attention)},
                             {"assumed", scenario.attention_assumed}};
  }
  if (const std::int64_t idle = scenario.idle_devices(); idle > 0) {
    document["idle_gpus"] = idle;
  }
  const std::int64_t active = model::ActiveParametersOf(*scenario.model).all;
  if (active != scenario.model->all_parameter_count()) document["active_parameters"] = active;
  if (!scenario.model->frozen.empty()) {
    document["trained_parameters"] = scenario.model->parameter_count();
  }
  if (forecast.lengths) document["lengths"] = LengthsJson(*forecast.lengths);
  if (const auto& unknown = forecast.unknown_host) {
    document["unknown_host"] = {{"framework", unknown->framework},
                                {"like", unknown->like},
                                {"step_time_s", JsonSeconds(unknown->step_time)}};
  }
  if (const auto& gap = forecast.known_gap) {
    document["known_gap"] = {{"kind", gap->kind}, {"factor", gap->factor}};
  }
  if (const auto& learned = forecast.learned) {
    document["learned"] = {{"factor", learned->factor}, {"known", learned->known}};
  }
  if (target.said()) {
    document["training"] = TargetJson(target);
    AddTraining(target, TrainedStepOf(forecast), document);
  }
  document["would_fit"] = FittingJson(fitting);
  document["run"] = {{"seconds", seconds}};
  return Text(document);
}

namespace {

std::string PartOfMemory(const forecast::MemoryForecast& memory) {
  return Decimal(100 * memory.fit_probability, 0) + " %";
}

}  // namespace

std::string MemorySentence(const forecast::MemoryForecast& memory) {
  if (!memory.fits_host()) {
    return fmt::format(
        "does not fit: the ranks of a node need {} of host memory and {} of drive space, but the "
        "node has only {} and {}",
        FormatBytes(memory.host), FormatBytes(memory.drives), FormatBytes(memory.host_capacity),
        FormatBytes(memory.drives_capacity));
  }
  switch (memory.verdict()) {
    case forecast::MemoryVerdict::kFits:
      return fmt::format("fits: {} of {} remain free{}", FormatBytes(memory.left()),
                         FormatBytes(memory.capacity),
                         memory.error > Bytes() ? ", probability " + PartOfMemory(memory) : "");
    case forecast::MemoryVerdict::kMayNotFit:
      return fmt::format(
          "may not fit: {} of {} remain free{}{}; the probability that the step fits is {}",
          FormatBytes(memory.left()), FormatBytes(memory.capacity),
          memory.allocator_flushes > 0 ? " after the allocator returned cached memory to the device"
                                       : "",
          memory.allocator_may_hang ? "; while the allocator waits for the device, stages may wait "
                                      "for each other, so the step may hang"
                                    : "",
          PartOfMemory(memory));
    case forecast::MemoryVerdict::kDoesNotFit:
      break;
  }
  return fmt::format("does not fit: {} more than the device's memory of {}",
                     FormatBytes(Bytes(-memory.left().count())), FormatBytes(memory.capacity));
}

namespace {

// How collectives are simulated, if not by the default.
std::string NetworkLine(const scenario::Scenario& scenario) {
  if (scenario.network == scenario::Fidelity::kAnalytic) return "";
  std::string line = scenario.network == scenario::Fidelity::kFlow
                         ? "network    flow: collectives of all ranks share the links"
                         : "network    message: messages of all ranks queue at the links";
  if (!scenario.slow_links.empty()) {
    line += fmt::format("; {} {} degraded", scenario.slow_links.size(),
                        scenario.slow_links.size() == 1 ? "link is" : "links are");
  }
  return line + "\n";
}

}  // namespace

std::string SimulateText(const scenario::Scenario& scenario, const forecast::Forecast& forecast,
                         const forecast::TrainingTarget& target) {
  return fmt::format("{}{}\n{}{}\n{}\n{}\n{}\n{}\n", Header(scenario, ForecastFacts(scenario)),
                     NetworkLine(scenario), Throughput(forecast),
                     TrainingText(target, TrainedStepOf(forecast)),
                     TimeTable(forecast) + ClassTable(forecast), CollectiveTable(forecast),
                     MemoryTable(forecast.memory), MemorySentence(forecast.memory));
}

namespace {

// Joins a document's lines and removes their indentation. Line breaks inside strings are escaped,
// so none is lost.
std::string OnOneLine(std::string_view document) {
  std::string line;
  line.reserve(document.size());
  bool indentation = false;
  for (const char c : document) {
    if (c == '\n') {
      indentation = true;
    } else if (!indentation || c != ' ') {
      indentation = false;
      line += c;
    }
  }
  return line;
}

std::string WithId(std::string_view id, std::string_view key, std::string_view value) {
  return fmt::format("{{\"id\": {}, \"{}\": {}}}\n", id, key, value);
}

}  // namespace

std::string AnswerLine(std::string_view id, std::string_view document) {
  return WithId(id, "answer", OnOneLine(document));
}

std::string MistakesLine(std::string_view id, const Diagnostics& mistakes) {
  Json list = Json::array();
  for (const Diagnostic& mistake : mistakes) {
    list.push_back({{"code", mistake.code},
                    {"file", mistake.location.file},
                    {"line", mistake.location.line},
                    {"column", mistake.location.column},
                    {"message", mistake.message},
                    {"hint", mistake.hint}});
  }
  return WithId(id, "mistakes", OnOneLine(Text(list)));
}

std::string FailureLine(std::string_view id, const std::string& reason) {
  return WithId(id, "failure", OnOneLine(Text(Json(reason))));
}

std::string TimelineText(const forecast::Run& run, const TerminalStyle& style) {
  const StepWindow window = WindowOf(run, run.critical_class());
  const Time length = window.end - window.start;
  const std::vector<Lane> lanes = run.classes.size() == 1 ? LanesOf(window) : LanesOfClasses(run);
  constexpr std::size_t kMostName = 24;
  constexpr int kLeastColumns = 12;
  std::size_t name_width = 0;
  for (const Lane& lane : lanes) {
    name_width = std::max(name_width, std::min(lane.name.size(), kMostName));
  }
  const int columns = std::max(kLeastColumns, style.width - static_cast<int>(name_width) - 2);

  std::string out;
  std::array<bool, kBarKinds> present{};
  for (const Lane& lane : lanes) {
    for (const Bar& bar : lane.bars) present[static_cast<std::size_t>(bar.kind)] = true;
    out += fmt::format("{:<{}}  {}\n", lane.name.substr(0, kMostName), name_width,
                       RowOf(CellsOf(lane, length, columns), length, style.colour));
  }
  out += fmt::format("{:<{}}  {}\n", "", name_width, Scale(length, columns));

  // The meaning of the letters, in lines that fit.
  std::vector<std::string> words;
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < present.size(); ++i) {
    if (!present[i]) continue;
    const auto& [name, variable, letter, background] = kBarStyles[i];
    words.push_back(style.colour
                        ? fmt::format("\033[30;48;5;{}m{}\033[0m {}", background, letter, name)
                        : fmt::format("{} {}", letter, name));
    widths.push_back(2 + std::string_view(name).size());
  }
  words.emplace_back("lowercase: less than half busy");
  widths.push_back(words.back().size());
  std::size_t used = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool fits = used + 3 + widths[i] <= static_cast<std::size_t>(std::max(style.width, 1));
    if (used > 0 && !fits) {
      out += "\n";
      used = 0;
    }
    if (used > 0) {
      out += "   ";
      used += 3;
    }
    out += words[i];
    used += widths[i];
  }
  return out + "\n";
}

}  // namespace stepcast::report
