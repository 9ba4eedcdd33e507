#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/foreign/draft.h"
#include "src/foreign/setting.h"

// Imports configurations of other programs as a scenario. Nothing in the configurations is
// executed.
namespace stepcast::foreign {

// Replaces `${NAME}` and `$NAME` in the values of a YAML, JSON or TOML file with the user's values.
// Dotted names refer to the file itself, as in OmegaConf: `${model.seq_length}` or
// `${.seq_length}`. `${multiply:4, ${.hidden_size}}` is a product. A value is unknown if variables
// remain in it.
void ReplaceVariables(Document& document, const std::map<std::string, std::string>& given);

struct ImportRequest {
  // The files, in any order. One may be a config.json or a model's name. A model without other
  // files is trained with kDefaults (import.cc).
  std::vector<std::string> files{};
  std::string model{};    // a name or a file; empty: from the files
  std::string cluster{};  // likewise, a topology
  std::optional<std::int64_t> nodes{};
  std::string gpus{};  // "4 x rtx-4090", instead of cluster and nodes
  std::optional<std::int64_t> sequence_length{}, global_batch{};
  std::vector<std::string> set{};        // "KEY=VALUE" of the scenario
  std::vector<std::string> variables{};  // "NAME=VALUE": variables for scripts
  std::string function{};                // in a Python file with several configurations
  // Use absolute paths for files, because the scenario will be in another folder.
  bool absolute_paths = false;
  // If the only file is a scenario, copy it.
  bool takes_scenario = false;
  // State the software versions, because the scenario will be kept.
  bool states_software = false;
  // Assume no plan, because the command searches for one.
  bool for_search = false;
  std::vector<std::string> varied{};  // keys to which the command itself gives values
};

struct Imported {
  ScenarioText scenario;
  std::string title;                 // names of the files, for positions in the scenario
  std::vector<std::string> notes;    // sentences without full stop
  std::vector<std::string> assumed;  // "KEY=VALUE": defaults for a model given
                                     // without other files
  std::string omissions;             // settings that the scenario lacks, as text; may be empty
};

// Returns the cluster of "4 x rtx-4090" or "rtx-4090" as YAML: "{gpu: rtx-4090, gpus: 4}". Mistake:
// command.wrong-use.
Result<std::string> ClusterOfGpus(const std::string& gpus);

// Imports the files. Mistakes: values that are missing in files and options (foreign.missing, with
// the option in the hint), unknown kinds of files (foreign.unknown-file), and unreadable content.
Result<Imported> Import(const ImportRequest& request);

}  // namespace stepcast::foreign
