#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/outcome.h"
#include "src/foreign/import.h"
#include "src/report/command_text.h"
#include "src/scenario/memory_document.h"

namespace stepcast::cli {

// The input of a command: a scenario, or configurations of other programs.
struct ScenarioFiles : foreign::ImportRequest {
  std::string family;  // --family: the file that describes how to read config.json
  std::string save;    // from --save
};

// Returns the names of the files for messages, such as "train.sh, config.json".
std::string Named(const ScenarioFiles& files);

foreign::ImportRequest ImportRequestOf(const ScenarioFiles& files,
                                       const std::vector<std::string>& set);

// Runs a command on the scenario that `files` describe. Sets `scenario` to the path that the
// command loads, and `set` to the overrides. Files of other programs are converted to a scenario in
// memory. Mistakes in that scenario are reported at the original files. The list of omitted
// settings precedes the command's own messages.
Outcome RunOn(const ScenarioFiles& files, std::string& scenario, std::vector<std::string>& set,
              const std::function<Outcome()>& command);

// Returns the command line that runs `command` on `files` with these overrides, as a user would
// type it.
report::CommandWords CommandOn(const char* command, const ScenarioFiles& files,
                               const std::vector<std::string>& set);

// Returns the name of a loaded scenario for output: its path or, if it was made from other
// programs' files, its title.
std::string TitleOf(const std::string& scenario);

// Returns the notes of an import as "note: ..." lines, followed by the omitted settings, for
// stderr.
std::string ImportMessages(const foreign::Imported& imported);

}  // namespace stepcast::cli
