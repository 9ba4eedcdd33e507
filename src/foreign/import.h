#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/foreign/draft.h"
#include "src/foreign/setting.h"

// Imports configurations of other programs as a scenario. Never executes code in the
// configurations.
namespace stepcast::foreign {

// Replaces `${NAME}` and `$NAME` in the values of a YAML, JSON or TOML file by the user's values.
// Dotted names refer to the same file, as in OmegaConf: `${model.seq_length}` or `${.seq_length}`.
// `${multiply:4, ${.hidden_size}}` is a multiplication. If variables remain, the value is unknown.
void ReplaceVariables(Document& document, const std::map<std::string, std::string>& given);

struct ImportRequest {
  // The files, in any order. An entry may also be a config.json or a model's name. If the files
  // contain only a model, kDefaults (import.cc) define the training.
  std::vector<std::string> files{};
  std::string model{};    // a model's name or file; empty: from `files`
  std::string cluster{};  // a topology's name or file; empty: from `files`
  std::optional<std::int64_t> nodes{};
  std::string gpus{};  // instead of cluster and nodes: "4 x rtx-4090"
  std::optional<std::int64_t> sequence_length{}, global_batch{};
  std::vector<std::string> set{};        // scenario settings as "KEY=VALUE"
  std::vector<std::string> variables{};  // variables of scripts as "NAME=VALUE"
  std::string function{};                // the function to read in a Python file
  // Whether file paths become absolute, because the scenario will be in another folder.
  bool absolute_paths = false;
  // Whether an input that is already a scenario is copied.
  bool takes_scenario = false;
  // Whether the scenario states software versions, because it will be stored.
  bool states_software = false;
  // Whether the scenario may have no plan, because the command searches for a plan.
  bool for_search = false;
  std::vector<std::string> varied{};  // keys that the command itself sets
};

struct Imported {
  ScenarioText scenario;
  std::string title;               // file names, for positions in the scenario
  std::vector<std::string> notes;  // sentences without full stop
  // The defaults of a model without other files ("KEY=VALUE"), or the recipe that an entry of
  // `files` names.
  std::vector<std::string> assumed;
  std::string omissions;  // settings that the scenario lacks, as text; may be empty
};

// Converts a cluster such as "4 x rtx-4090" or "rtx-4090" to YAML, such as "{gpu: rtx-4090, gpus:
// 4}". Error: command.wrong-use.
Result<std::string> ClusterOfGpus(const std::string& gpus);

// Returns a cluster in the form of ClusterOfGpus for a text with a different form: "8 x h100" for
// "h100:8", and "16 x h100" for "2x8xh100". Empty if the text has another meaning.
std::string GpusMeant(std::string_view text);

// Returns an error if --gpus is set together with --cluster or --nodes. Error: command.wrong-use.
std::optional<Diagnostic> TwoClusters(const ImportRequest& request);

// Imports the files. Errors:
//   foreign.missing: neither files nor options have a required value; the hint contains the option
//   foreign.unknown-file: the kind of a file is unknown
//   errors about unreadable content
Result<Imported> Import(const ImportRequest& request);

}  // namespace stepcast::foreign
