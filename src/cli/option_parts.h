#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/cli/emit_plan.h"

namespace CLI {
class App;
class Option;
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

// An option that takes one word at a time and may be given as often as needed.
CLI::Option* AddRepeated(CLI::App& command, const std::string& name,
                         std::vector<std::string>& values, const std::string& type,
                         const std::string& help);
// An option with a whole number from `least` to `most`.
CLI::Option* AddCount(CLI::App& command, const std::string& name, int& value, int least, int most,
                      const std::string& help);
CLI::Option* AddCount(CLI::App& command, const std::string& name, std::optional<int>& value,
                      int least, int most, const std::string& help);
// An option that names a file that the command writes.
CLI::Option* AddOutput(CLI::App& command, const std::string& name, std::string& file,
                       const std::string& help);
// --output, of a command that writes to stdout without it.
CLI::Option* AddOutput(CLI::App& command, std::string& file);
// The option names a file or folder that the command writes.
bool IsOutput(const CLI::Option& option);

// The scenario and --set.
void AddScenario(CLI::App& command, std::string& scenario, std::vector<std::string>& set);
// An option that also writes a page for people to look at.
CLI::Option* AddReport(CLI::App& command, std::string& report);
// An option that also writes a folder of traces, one of each rank that has a timeline.
CLI::Option* AddTraceFolder(CLI::App& command, std::string& folder);
// --network, how closely collectives are followed.
CLI::Option* AddNetwork(CLI::App& command, std::string& network, const std::string& help);
// --json or --csv; of --json.
CLI::Option* AddJsonAndCsv(CLI::App& command, bool& json, bool& csv);
// --emit and --force.
void AddEmit(CLI::App& command, EmitOptions& options);

// "all_reduce, all_gather, ..."
std::string CollectiveNames();

}  // namespace stepcast::cli
