#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/base/files.h"
#include "src/cli/command.h"
#include "src/cli/commands.h"
#include "src/cli/option_parts.h"
#include "src/cli/outputs.h"
#include "src/formats/schedule_csv.h"
#include "src/parallel/named_schedules.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/parallel/schedule_check.h"
#include "src/parallel/schedule_text.h"
#include "src/report/dumps.h"
#include "src/report/pages.h"
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

struct ScheduleOptions {
  std::optional<int> stages;
  std::optional<int> micro_batches;
  std::string schedule = "1f1b";
  std::optional<int> virtual_stages;  // chunks of layers a stage
  std::optional<int> group;           // micro-batches that run through a chunk before the next
  std::string csv;                    // actions that replace the settings above; empty: none
  int forward = 1, backward_input = 1, backward_weight = 1;  // durations of passes, in slots
  std::string print = "drawing";                             // or list, csv
  AnswerForms forms;
};

Result<parallel::PipelineSchedule> Build(const ScheduleOptions& options) {
  Diagnostics mistakes;
  if (!options.stages || !options.micro_batches) {
    mistakes.push_back(
        {"command.wrong-use",
         {"command line", 0, 0},
         "the command needs either --stages and --micro-batches, or --csv",
         fmt::format("write stepcast schedule --stages {} --micro-batches {}",
                     options.stages.value_or(4), options.micro_batches.value_or(8))});
  }
  if (mistakes.empty() && std::int64_t{*options.stages} * *options.micro_batches > kMostPasses) {
    mistakes.push_back(
        {"command.wrong-use",
         {fmt::format("--micro-batches {}", *options.micro_batches), 0, 0},
         fmt::format(
             "the number of micro-batches times the number of stages must be at most {}: {} x {}",
             kMostPasses, *options.micro_batches, *options.stages),
         "reduce --micro-batches, because the pattern of the schedule repeats"});
  }
  const parallel::NamedSchedule& named = *parallel::FindSchedule(options.schedule);
  const auto refuse = [&](const std::string& option, std::string message, const char* hint) {
    mistakes.push_back({"command.wrong-use", {option, 0, 0}, std::move(message), hint});
  };
  const int chunks =
      options.virtual_stages.value_or(named.chunks == 0 ? 1 : named.chunks);  // a stage
  if (named.chunks != 0 && chunks != named.chunks) {
    refuse(fmt::format("--virtual-stages {}", chunks),
           fmt::format("the schedule {} requires {} of layers on each stage", options.schedule,
                       named.chunks == 1 ? "one chunk" : "two chunks"),
           named.chunks == 1 ? "write --schedule interleaved_1f1b" : "omit --virtual-stages");
  }
  if (options.group && options.schedule != "interleaved_1f1b") {
    refuse(fmt::format("--micro-batch-group {}", *options.group),
           fmt::format("--micro-batch-group has no effect in the schedule {}, because it has no "
                       "groups of micro-batches",
                       options.schedule),
           "write --schedule interleaved_1f1b, or omit --micro-batch-group");
  } else if (options.group && options.stages && *options.group < *options.stages) {
    refuse(fmt::format("--micro-batch-group {}", *options.group),
           fmt::format("a group must have at least one micro-batch for each of the {} stages",
                       *options.stages),
           "increase or omit --micro-batch-group");
  }
  if (!mistakes.empty()) return tl::make_unexpected(std::move(mistakes));
  const parallel::ScheduleShape shape{*options.stages, *options.micro_batches, chunks,
                                      options.group.value_or(0)};
  if (const auto mistake = named.MistakeOf(shape)) {
    const bool of_stages = mistake->number == parallel::ShapeMistake::Number::kStages;
    refuse(of_stages ? fmt::format("--stages {}", *options.stages)
                     : fmt::format("--micro-batches {}", *options.micro_batches),
           fmt::format("{}: {}", options.schedule, mistake->sentence), mistake->hint.c_str());
    return tl::make_unexpected(std::move(mistakes));
  }
  return named.build(shape);
}

Outcome DrawSchedule(const ScheduleOptions& options) {
  AnswerPrinter printer;
  if (auto failed = printer.Create(options.forms)) return *failed;
  auto schedule = options.csv.empty() ? Build(options) : Read(options.csv);
  if (!schedule) return WrongInput(schedule.error());
  if (options.print == "list") return {kDone, parallel::Print(*schedule), ""};
  if (options.print == "csv") return {kDone, formats::ScheduleCsv(*schedule), ""};
  report::TimedSchedule timed{.name = options.csv.empty() ? options.schedule : options.csv,
                              .schedule = *std::move(schedule),
                              .durations = {.forward = options.forward,
                                            .backward_input = options.backward_input,
                                            .backward_weight = options.backward_weight},
                              .timing = {},
                              .in_flight = {}};
  timed.timing = parallel::Time(timed.schedule, timed.durations);
  timed.in_flight = parallel::MostInFlight(timed.schedule);
  return printer.Print({.text = [&] { return report::ScheduleText(timed, *StdoutStyle(true)); },
                        .json = [&] { return report::ScheduleJson(timed); },
                        .page = [&] { return report::SchedulePage(timed); }},
                       "");
}

constexpr int kMostStages = 1024;
constexpr int kMostMicroBatches = 100'000;
constexpr int kMostSlots = 1000;
constexpr int kMostVirtualStages = 64;

void DescribeSchedule(Question& question, ScheduleOptions& options) {
  std::string help = "The schedule (default: 1f1b)";
  std::vector<std::string> names;
  for (const parallel::NamedSchedule& named : parallel::NamedSchedules()) {
    names.emplace_back(named.name);
    help += fmt::format("; {}: {}", named.name, named.summary);
  }
  question.Option("--stages", &options.stages, "N").Between(1, kMostStages);
  question.Option("--micro-batches", &options.micro_batches, "N").Between(1, kMostMicroBatches);
  question.Option("--schedule", &options.schedule, "NAME", help).OneOf(names);
  question.Option("--virtual-stages", &options.virtual_stages, "N").Between(1, kMostVirtualStages);
  question.Option("--micro-batch-group", &options.group, "N").Between(1, kMostMicroBatches);
  question.Option("--csv", &options.csv, "CSV")
      .Excludes(
          {"--stages", "--micro-batches", "--schedule", "--virtual-stages", "--micro-batch-group"});
  question.Option("--forward", &options.forward, "SLOTS").Between(1, kMostSlots);
  question.Option("--backward-input", &options.backward_input, "SLOTS").Between(1, kMostSlots);
  question.Option("--backward-weight", &options.backward_weight, "SLOTS").Between(1, kMostSlots);
  question.Flag("--json", &options.forms.json);
  AddReport(question, options.forms.report);
  question.Option("--print", &options.print, "FORM")
      .OneOf({"drawing", "list", "csv"})
      .Excludes({"--json", "--report"});
}

}  // namespace

Command ScheduleCommand() {
  return MakeCommand<ScheduleOptions>("schedule", DescribeSchedule, DrawSchedule);
}

}  // namespace stepcast::cli
