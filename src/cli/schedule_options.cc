#include "src/cli/schedule_options.h"

#include <string>
#include <vector>

#include "fmt/format.h"
#include "src/cli/option_parts.h"
#include "src/parallel/named_schedules.h"

namespace stepcast::cli {
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
