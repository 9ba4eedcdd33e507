#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "src/cli/command.h"
#include "src/cli/command_page.h"
#include "src/cli/hardware_request.h"
#include "src/cli/outcome.h"

// Each function returns one command. command_line.cc lists the commands in the overview's order.
namespace stepcast::cli {

Command InitCommand();
Command ListCommand();
Command SimulateCommand();
Command MemoryCommand();
Command CompareCommand();
Command ExplainCommand();
Command RunTimeCommand();
Command GalleryCommand();
Command SweepCommand(const RunWork& run_work);
Command PlanCommand(const RunWork& run_work);
// Returns the command `calibrate`. The profile records `arguments`, the complete command line, as
// its origin.
Command CalibrateCommand(const HardwareAccess& hardware, const std::vector<std::string>& arguments);
Command CalibrateImportCommand();
Command CalibrateRunsCommand();
Command CalibrateTraceCommand();
Command ImportAtlasCommand();
Command CollectiveCommand();
Command ScheduleCommand();
Command ExecuteCommand(const HardwareAccess& hardware);
Command ValidateCommand(const HardwareAccess& hardware);
Command ValidateCollectivesCommand();
Command ValidatePublishedCommand();
Command ModelImportCommand();
Command TopologyShowCommand();
Command TopologyImportCommand();
Command SchemaCommand();
Command ServeCommand();
Command CompletionCommand();
// Returns the command that writes manual pages. `pages` returns the help pages of all commands, the
// program's page first.
Command ManualCommand(std::function<std::vector<CommandPage>()> pages);

// Returns a command's help page as a manual page for man(1), in section 1, with the macros of
// man(7). `pages` are the help pages of all commands, the program's page first.
std::string ManualPage(const CommandPage& page, const std::vector<CommandPage>& pages,
                       const std::string& version);

// Returns the name of a command's manual page, such as "stepcast-calibrate-import" for "calibrate
// import".
std::string ManualName(const std::string& command);

// Returns the shells that have a completion script. The script calls the program, so completions
// always match the program's version.
const std::vector<std::string>& CompletionShells();
// Returns the completion script of a shell.
std::string CompletionScript(const std::string& shell);

// A line in the result of Completions that tells the shell to add file names.
inline constexpr const char* kFilesToo = ":files";
// Returns the completions of the last word of `words`. `words` does not contain the program's name.
// Each line has a word and, after a tab, its meaning. `names` maps option types to values suggested
// in addition to files, such as the shipped models for "MODEL". A name that ends in an equals sign
// is an incomplete value: "training.precision=".
std::string Completions(const std::vector<CommandPage>& pages,
                        const std::map<std::string, std::vector<std::string>>& names,
                        const std::vector<std::string>& words);
// Returns values for Completions by option type: keys followed by an equals sign, and the shipped
// models and topologies.
std::map<std::string, std::vector<std::string>> NamesByType();

}  // namespace stepcast::cli
