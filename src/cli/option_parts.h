#pragma once

#include <string>
#include <vector>

#include "src/cli/emit_plan.h"

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

// What the commands' options have in common. Only files named *_options.cc, option_parts.cc and
// command_line.cc include CLI11, which takes seconds to compile.
namespace stepcast::cli {

inline constexpr const char* kExitStatus =
    "Exit status:\n"
    "  0  done\n"
    "  1  failed (a file cannot be written, a rank died, a bug)\n"
    "  2  the input or the command line is wrong: see stderr; nothing is on stdout\n"
    "  3  done, and the answer is no: it does not fit in memory, the forecast is too far off\n";

// An empty name is a script's variable that was not set; without this it would mean no file.
CLI::Validator NamesAFile();

// The scenario and --set.
void AddScenario(CLI::App& command, std::string& scenario, std::vector<std::string>& set);
// An option that also writes a page for people to look at.
CLI::Option* AddReport(CLI::App& command, std::string& report);
// An option that also writes a folder of traces, one of each rank that has a timeline.
CLI::Option* AddTraceFolder(CLI::App& command, std::string& folder);
// --emit and --force.
void AddEmit(CLI::App& command, EmitOptions& options);

// "all_reduce, all_gather, ..."
std::string CollectiveNames();

}  // namespace stepcast::cli
