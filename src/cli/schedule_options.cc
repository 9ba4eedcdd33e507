#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/base/files.h"
#include "src/cli/command_options.h"
#include "src/cli/option_parts.h"
#include "src/formats/schedule_csv.h"
#include "src/parallel/named_schedules.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/parallel/schedule_check.h"
#include "src/parallel/schedule_text.h"
#include "src/report/dumps.h"
#include "src/report/table.h"

namespace stepcast::cli {
namespace {

// The most actions of a stage that are drawn.
constexpr std::int64_t kMostPasses = 1'000'000;

Result<parallel::PipelineSchedule> Read(const std::string& file) {
  Diagnostics mistakes;
  const std::optional<std::string> text = ReadTextFile(file, mistakes);
  if (!text) return tl::make_unexpected(std::move(mistakes));
  return formats::ParseScheduleCsv(*text, file);
}

Result<parallel::PipelineSchedule> Build(const ScheduleOptions& options) {
  Diagnostics mistakes;
  const auto require = [&](const std::optional<int>& value, const char* name) {
    if (value) return;
    mistakes.push_back({"command.wrong-use",
                        {"command line", 0, 0},
                        fmt::format("{} is required without --csv", name),
                        "see stepcast schedule --help"});
  };
  require(options.stages, "--stages");
  require(options.micro_batches, "--micro-batches");
  if (mistakes.empty() && std::int64_t{*options.stages} * *options.micro_batches > kMostPasses) {
    mistakes.push_back({"command.wrong-use",
                        {fmt::format("--micro-batches {}", *options.micro_batches), 0, 0},
                        fmt::format("at most {} micro-batches times stages are drawn: {} x {}",
                                    kMostPasses, *options.micro_batches, *options.stages),
                        "steps repeat themselves: fewer micro-batches show the same"});
  }
  const parallel::NamedSchedule& named = *parallel::FindSchedule(options.schedule);
  const auto refuse = [&](const std::string& option, std::string message, const char* hint) {
    mistakes.push_back({"command.wrong-use", {option, 0, 0}, std::move(message), hint});
  };
  const int chunks =
      options.virtual_stages.value_or(named.chunks == 0 ? 1 : named.chunks);  // a stage
  if (named.chunks != 0 && chunks != named.chunks) {
    refuse(fmt::format("--virtual-stages {}", chunks),
           fmt::format("{} has {} of layers a stage", options.schedule,
                       named.chunks == 1 ? "one chunk" : "two chunks"),
           named.chunks == 1 ? "write --schedule interleaved_1f1b" : "leave it out");
  }
  if (options.group && options.schedule != "interleaved_1f1b") {
    refuse(fmt::format("--micro-batch-group {}", *options.group),
           fmt::format("{} has no groups of micro-batches", options.schedule),
           "write --schedule interleaved_1f1b, or leave it out");
  } else if (options.group && options.stages && *options.group < *options.stages) {
    refuse(fmt::format("--micro-batch-group {}", *options.group),
           fmt::format("a group has as many micro-batches as stages, {}, or more", *options.stages),
           "write a larger number, or leave it out");
  }
  if (!mistakes.empty()) return tl::make_unexpected(std::move(mistakes));
  const parallel::ScheduleShape shape{*options.stages, *options.micro_batches, chunks,
                                      options.group.value_or(0)};
  if (const auto mistake = named.MistakeOf(shape)) {
    const bool of_stages = mistake->number == parallel::ShapeMistake::Number::kStages;
    refuse(of_stages ? fmt::format("--stages {}", *options.stages)
                     : fmt::format("--micro-batches {}", *options.micro_batches),
           fmt::format("{} {}", options.schedule, mistake->sentence), mistake->hint.c_str());
    return tl::make_unexpected(std::move(mistakes));
  }
  return named.build(shape);
}

}  // namespace

Outcome DrawSchedule(const ScheduleOptions& options) {
  auto schedule = options.csv.empty() ? Build(options) : Read(options.csv);
  if (!schedule) return WrongInput(schedule.error());
  Outcome outcome;
  if (options.print == "list") {
    outcome.output = parallel::Print(*schedule);
    return outcome;
  }
  if (options.print == "csv") {
    outcome.output = formats::ScheduleCsv(*schedule);
    return outcome;
  }
  report::TimedSchedule timed{.name = options.csv.empty() ? options.schedule : options.csv,
                              .schedule = *std::move(schedule),
                              .durations = {.forward = options.forward,
                                            .backward_input = options.backward_input,
                                            .backward_weight = options.backward_weight},
                              .timing = {},
                              .in_flight = {}};
  timed.timing = parallel::Time(timed.schedule, timed.durations);
  timed.in_flight = parallel::MostInFlight(timed.schedule);
  outcome.output = options.json ? report::ScheduleJson(timed)
                                : report::Wrapped(report::ScheduleText(timed, options.style));
  return outcome;
}

namespace {

constexpr const char* kAboutSchedule =
    "Draws a pipeline schedule: what each stage computes in which order, its bubble, and how many\n"
    "micro-batches it has in flight.";

constexpr const char* kScheduleFooter =
    "Stages are equal here and communication is free, as in the drawings of papers: `simulate`\n"
    "forecasts with the real ones. Durations are in slots, of one pass of one micro-batch through\n"
    "one chunk of the model (a stage's layers, or one of its virtual stages). A backward whose\n"
    "parts are not apart takes both.\n"
    "\n"
    "A drawing that is wider than the terminal (or $COLUMNS) has letters alone, and if it is "
    "still\n"
    "too wide, its middle is left out.\n"
    "\n"
    "--csv reads a list of actions as torch.distributed.pipelining does (_load_csv): a row for "
    "each\n"
    "rank, cells such as 0F0 or 1B3, chunk, action and micro-batch (docs/formats.md). Actions "
    "that\n"
    "are missing, come twice or wait for each other are reported with line and column. --print "
    "csv\n"
    "writes such a file.\n"
    "\n"
    "Example:\n"
    "  stepcast schedule --stages 4 --micro-batches 8\n"
    "  stepcast schedule --stages 4 --micro-batches 8 --schedule gpipe --backward-input 2\n"
    "  stepcast schedule --stages 4 --micro-batches 8 --schedule zb_h1\n"
    "  stepcast schedule --stages 4 --micro-batches 8 --print csv > mine.csv\n"
    "  stepcast schedule --csv mine.csv\n"
    "\n";

constexpr int kMostStages = 1024;
constexpr int kMostMicroBatches = 100'000;
constexpr int kMostSlots = 1000;
constexpr int kMostVirtualStages = 64;

}  // namespace

void AddSchedule(Command app, ScheduleOptions& options) {
  Command command = app.Add("schedule", kAboutSchedule, kScheduleFooter);
  std::string help = "Which one (1f1b)";
  std::vector<std::string> names;
  for (const parallel::NamedSchedule& named : parallel::NamedSchedules()) {
    names.emplace_back(named.name);
    help += fmt::format("\n{}: {}", named.name, named.summary);
  }
  Option stages = AddCount(command, "--stages", options.stages, 1, kMostStages, "Pipeline stages");
  Option micro_batches = AddCount(command, "--micro-batches", options.micro_batches, 1,
                                  kMostMicroBatches, "Micro-batches of a step");
  Option schedule =
      command.AddOption("--schedule", options.schedule, help).Type("NAME").OneOf(names);
  Option virtual_stages =
      command
          .AddOption("--virtual-stages", options.virtual_stages,
                     "Chunks of layers a stage, with interleaved_1f1b\nand breadth_first (1)")
          .Type("N")
          .Between(1, kMostVirtualStages);
  Option group =
      command
          .AddOption("--micro-batch-group", options.group,
                     "Micro-batches that run through a chunk before the stage\nturns to its next "
                     "one, with interleaved_1f1b (the stages)")
          .Type("N")
          .Between(1, kMostMicroBatches);
  command.AddOption("--csv", options.csv, "Read the actions from a file instead")
      .Type("CSV")
      .Excludes(stages)
      .Excludes(micro_batches)
      .Excludes(schedule)
      .Excludes(virtual_stages)
      .Excludes(group);
  const auto slots = [&](const char* name, int& value, const char* help_text) {
    return command.AddOption(name, value, help_text).Type("SLOTS").Between(1, kMostSlots);
  };
  slots("--forward", options.forward, "How long a forward takes (1)");
  slots("--backward-input", options.backward_input, "How long the backward of inputs takes (1)");
  slots("--backward-weight", options.backward_weight, "How long the backward of weights takes (1)");
  Option json = command.AddFlag("--json", options.json, "Print one JSON document");
  command.AddOption("--print", options.print, "drawing, list or csv of the actions (drawing)")
      .Type("FORM")
      .OneOf({"drawing", "list", "csv"})
      .Excludes(json);
}

}  // namespace stepcast::cli
