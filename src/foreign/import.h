#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/foreign/draft.h"
#include "src/foreign/setting.h"

// Other programs' configurations as a scenario. Nothing in them is executed.
namespace stepcast::foreign {

// Replaces `${NAME}` and `$NAME` in the values of a YAML, JSON or TOML file: by what the user says
// of NAME, or, for a dotted name of the file itself, `${model.seq_length}` or `${.seq_length}` as
// OmegaConf has them, by that value; `${multiply:4, ${.hidden_size}}` is the product. What stays
// makes the value unknown.
void ReplaceVariables(Document& document, const std::map<std::string, std::string>& given);

struct ImportRequest {
  // In any order; one of them may be a config.json, or the name of a model, which alone is trained
  // as kDefaults says (import.cc).
  std::vector<std::string> files{};
  std::string model{};    // a name, or a file; empty: as the files say
  std::string cluster{};  // likewise of a topology
  std::optional<std::int64_t> nodes{};
  std::string gpus{};  // "4 x rtx-4090", in the place of cluster and nodes
  std::optional<std::int64_t> sequence_length{}, global_batch{};
  std::vector<std::string> set{};        // "KEY=VALUE" of the scenario
  std::vector<std::string> variables{};  // "NAME=VALUE" that scripts are started with
  std::string function{};                // of a Python file with several configurations
  // The scenario will lie in another folder: files are named by absolute paths.
  bool absolute_paths = false;
  // The scenario is to be kept: it states the software that it is for.
  bool states_software = false;
  // The command searches for a plan: no plan is assumed.
  bool for_search = false;
};

struct Imported {
  ScenarioText scenario;
  std::string title;                 // the files' names, for positions in the scenario
  std::vector<std::string> notes;    // sentences without full stop
  std::vector<std::string> assumed;  // "KEY=VALUE": what neither a file nor an option says of a
                                     // model alone
  std::string omissions;             // what the scenario does not carry, as text; empty: nothing
};

// Mistakes: what the files do not say and no option does (foreign.missing, the hint names the
// option), files of other kinds (foreign.unknown-file), and what cannot be read in them.
Result<Imported> Import(const ImportRequest& request);

}  // namespace stepcast::foreign
