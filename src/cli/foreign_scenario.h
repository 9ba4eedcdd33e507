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
  std::string family;  // --family: the file that reads the model's config.json
  std::string save;    // from --save
};

// "train.sh, config.json", for messages.
std::string Named(const ScenarioFiles& files);

foreign::ImportRequest ImportRequestOf(const ScenarioFiles& files,
                                       const std::vector<std::string>& set);

// Runs a command for one scenario on `files`. `scenario` becomes the path that the command loads,
// and `set` its overrides. Files of other programs are converted to a scenario in memory. Its
// mistakes are reported at the original files, and omitted settings come before the command's own
// messages.
Outcome RunOn(const ScenarioFiles& files, std::string& scenario, std::vector<std::string>& set,
              const std::function<Outcome()>& command);

// The command for `files` with these overrides, as the user would type it.
report::CommandWords CommandOn(const char* command, const ScenarioFiles& files,
                               const std::vector<std::string>& set);

// How to name a scenario that a command loads: its path or, if it was made from other files, the
// title.
std::string TitleOf(const std::string& scenario);

// "note: ..." lines and the omitted settings, for stderr.
std::string ImportMessages(const foreign::Imported& imported);

}  // namespace stepcast::cli
