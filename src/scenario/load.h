#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/scenario/input_contents.h"
#include "src/scenario/scenario.h"
#include "src/scenario/yaml_tree.h"

// Reads a scenario and the files to which it refers, and checks them against each other.
// docs/formats.md documents the format; docs/errors/README.md documents the diagnostics.
namespace stepcast::scenario {

// Loads the scenario at `path`: a path relative to the working directory or to the data root, or
// the name of a MemoryDocument. `overrides`, each a "KEY=VALUE" as for `--set` (overrides.h), are
// applied in order. On failure, returns all mistakes of all files, ordered by file and position.
Result<Scenario> Load(const std::string& path, const std::vector<std::string>& overrides,
                      InputCache& cache);
Result<Scenario> Load(const std::string& path);

// Loads a scenario from a text. `file` names the text in positions. The folder of `file` is the
// base of relative paths in the text.
Result<Scenario> LoadText(std::string_view text, const std::string& file,
                          const std::vector<std::string>& overrides, InputCache& cache);

// Loads a scenario from a tree.
Result<Scenario> LoadTree(const YamlTree& root, const std::string& file, InputCache& cache);

}  // namespace stepcast::scenario
