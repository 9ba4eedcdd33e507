#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/outcome.h"
#include "src/foreign/import.h"
#include "src/scenario/memory_document.h"

namespace stepcast::cli {

// What a command is to forecast: a scenario, or the configurations of other programs.
struct ScenarioFiles {
  std::vector<std::string> files;  // one scenario, or files of others
  std::string model;               // of --model, --cluster, --nodes, --variable, --function
  std::string family;              // of --family: the file that reads the model's config.json
  std::string cluster;
  std::optional<std::int64_t> nodes;
  std::string gpus;  // of --gpus
  std::optional<std::int64_t> sequence_length, global_batch;
  std::string save;         // the file that --save names
  bool for_search = false;  // the command looks for a plan
  std::vector<std::string> variables;
  std::string function;
};

foreign::ImportRequest ImportRequestOf(const ScenarioFiles& files,
                                       const std::vector<std::string>& set);

// Lets a command that takes one scenario run on `files`: `scenario` becomes what the command
// loads, and `set` what it is overridden with. Files of other programs are made a scenario, which
// is in memory while the command runs; its mistakes are those of the files that it was made of, and
// what it does not carry is said before the command's own messages.
Outcome RunOn(const ScenarioFiles& files, std::string& scenario, std::vector<std::string>& set,
              const std::function<Outcome()>& command);

// "note: ..." lines and the settings that are left out, for stderr.
std::string ImportMessages(const foreign::Imported& imported);

}  // namespace stepcast::cli
