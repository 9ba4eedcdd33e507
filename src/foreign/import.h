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

// Replaces `${NAME}` and `$NAME` in the values of a YAML, JSON or TOML file by the user's values.
// Dotted names refer to the file itself, as in OmegaConf: `${model.seq_length}` or
// `${.seq_length}`. `${multiply:4, ${.hidden_size}}` is a product. A value is unknown if variables
// remain in it.
void ReplaceVariables(Document& document, const std::map<std::string, std::string>& given);

struct ImportRequest {
  // The files, in any order. One of them may be a config.json or the name of a model. A model
  // without other files is trained with kDefaults (import.cc).
  std::vector<std::string> files{};
  std::string model{};    // a name or a file; empty: the files state it
  std::string cluster{};  // a topology's name or file; empty: the files state it
  std::optional<std::int64_t> nodes{};
  std::string gpus{};  // "4 x rtx-4090", instead of cluster and nodes
  std::optional<std::int64_t> sequence_length{}, global_batch{};
  std::vector<std::string> set{};        // "KEY=VALUE" of the scenario
  std::vector<std::string> variables{};  // "NAME=VALUE": variables for scripts
  std::string function{};                // in a Python file with several configurations
  // Whether paths of files become absolute, because the scenario will be in another folder.
  bool absolute_paths = false;
  // Whether the file is copied if it is the only one and is a scenario.
  bool takes_scenario = false;
  // Whether the software versions are stated, because the scenario will be kept.
  bool states_software = false;
  // Whether no plan is assumed, because the command searches for one.
  bool for_search = false;
  std::vector<std::string> varied{};  // keys to which the command itself gives values
};

struct Imported {
  ScenarioText scenario;
  std::string title;               // names of the files, for positions in the scenario
  std::vector<std::string> notes;  // sentences without full stop
  // The defaults of a model without any other file ("KEY=VALUE"), or the recipe of a name.
  std::vector<std::string> assumed;
  std::string omissions;  // settings that the scenario lacks, as text; may be empty
};

// Returns a cluster such as "4 x rtx-4090" or "rtx-4090" as YAML, such as "{gpu: rtx-4090, gpus:
// 4}". Mistake: command.wrong-use.
Result<std::string> ClusterOfGpus(const std::string& gpus);

// Returns the mistake if --gpus and --cluster or --nodes describe two clusters. Error:
// command.wrong-use.
std::optional<Diagnostic> TwoClusters(const ImportRequest& request);

// Imports the files. Mistakes: values that both files and options lack (foreign.missing, with the
// option in the hint), unknown kinds of files (foreign.unknown-file), and unreadable content.
Result<Imported> Import(const ImportRequest& request);

}  // namespace stepcast::foreign
