#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/cli/outcome.h"
#include "src/foreign/import.h"
#include "src/report/command_text.h"

namespace stepcast::cli {

// The input of a command: a scenario, or configuration files of other programs.
struct ScenarioFiles : foreign::ImportRequest {
  std::string family;  // value of --family: the file that describes how to read config.json
  std::string save;    // value of --save
};

// Returns the names of the files for messages, such as "train.sh, config.json".
std::string Named(const ScenarioFiles& files);

foreign::ImportRequest ImportRequestOf(const ScenarioFiles& files,
                                       const std::vector<std::string>& set);

// Runs a command on the scenario that `files` describe. Files of other programs are first converted
// to a scenario in memory. Sets `scenario` to the path that the command loads, and `set` to the
// overrides. Mistakes are reported at positions in the original files. The list of omitted settings
// precedes the command's own messages.
Outcome RunOn(const ScenarioFiles& files, std::string& scenario, std::vector<std::string>& set,
              const std::function<Outcome()>& command);

// Returns the command line that runs `command` on `files` with the overrides `set`.
report::CommandWords CommandOn(const char* command, const ScenarioFiles& files,
                               const std::vector<std::string>& set);

// Returns the name of a loaded scenario for output: the path, or the title of a scenario that was
// converted from files of other programs.
std::string TitleOf(const std::string& scenario);

// Returns the notes of an import as lines "note: ..." for stderr, followed by the omitted settings.
std::string ImportMessages(const foreign::Imported& imported);

}  // namespace stepcast::cli
