#include "src/cli/command_line.h"

#include <cstddef>
#include <utility>

#include "src/base/files.h"
#include "src/cli/command.h"
#include "src/cli/command_page.h"
#include "src/cli/commands.h"
#include "src/cli/option_parts.h"
#include "src/cli/outputs.h"
#include "src/cli/version.h"
#include "src/report/dumps.h"
#include "src/report/table.h"
#include "src/scenario/input_schemas.h"

namespace stepcast::cli {

// Prints the JSON Schema of a kind of file.
Command SchemaCommand() {
  struct SchemaOptions {
    std::string what;  // scenario, plan, model, topology, gpu
  };
  const auto describe = [](Question& question, SchemaOptions& options) {
    question.Argument("WHAT", &options.what)
        .Required()
        .OneOf({"scenario", "plan", "model", "topology", "gpu"});
  };
  return MakeCommand<SchemaOptions>("schema", describe, [](const SchemaOptions& options) {
    const scenario::InputSchema input = scenario::InputSchemaOf(options.what);
    return Outcome{kDone, report::SchemaJson(input.schema, options.what, input.version), ""};
  });
}

Outcome RunCommandLine(std::vector<std::string> arguments, const HardwareAccess& hardware) {
  const FilesRead files;  // no output may replace these
  report::SetTextWidth(static_cast<std::size_t>(StdoutWidth()));
  Program program([&] { return VersionText(hardware.backends()); });
  const Command commands[] = {
      InitCommand(),
      ListCommand(),
      SimulateCommand(),
      MemoryCommand(),
      CompareCommand(),
      ExplainCommand(),
      RunTimeCommand(),
      GalleryCommand(),
      SweepCommand(hardware.run_work),
      PlanCommand(hardware.run_work),
      CalibrateCommand(hardware, arguments),
      CalibrateImportCommand(),
      CalibrateRunsCommand(),
      CalibrateTraceCommand(),
      ImportAtlasCommand(),
      CollectiveCommand(),
      ScheduleCommand(),
      ExecuteCommand(hardware),
      ValidateCommand(hardware),
      ValidateCollectivesCommand(),
      ValidatePublishedCommand(),
      {.name = "model", .question = {}, .run = nullptr},
      ModelImportCommand(),
      {.name = "topology", .question = {}, .run = nullptr},
      TopologyShowCommand(),
      TopologyImportCommand(),
      SchemaCommand(),
      ServeCommand(),
      CompletionCommand(),
      ManualCommand([&program] { return program.Pages(); }),
  };
  for (const Command& command : commands) program.Add(command);
  // The following words belong to a command line that is being typed, not to this one.
  if (!arguments.empty() && arguments[0] == kComplete) {
    arguments.erase(arguments.begin());
    return {kDone, Completions(program.Pages(), NamesByType(), arguments), ""};
  }
  auto [command, outcome] = program.Parse(std::move(arguments));
  if (command == nullptr) return outcome;
  constexpr std::size_t kAllColumns = 400;
  if (AllColumns()) report::SetTextWidth(kAllColumns);
  return command->run();
}

}  // namespace stepcast::cli
