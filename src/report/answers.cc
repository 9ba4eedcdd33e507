#include "src/report/answers.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/base/version.h"
#include "src/model/stage.h"
#include "src/report/json.h"
#include "src/report/step_figures.h"
#include "src/report/table.h"
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

}  // namespace stepcast::report
