#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/scenario/input_contents.h"
#include "src/scenario/scenario.h"
#include "src/scenario/yaml_tree.h"

// Reads scenarios: the file, the files it names, and the rules that relate them. Format:
// docs/formats.md; diagnostics: docs/errors/README.md.
namespace stepcast::scenario {

// Loads the scenario at `path`: relative to the working directory or to the data root, or the name
// of a MemoryDocument. `overrides` are applied in order, each a "KEY=VALUE" as for `--set`
// (overrides.h). On failure, returns every mistake of every file involved, by file and position.
Result<Scenario> Load(const std::string& path, const std::vector<std::string>& overrides,
                      InputCache& cache);
Result<Scenario> Load(const std::string& path);

// The same for a text without a file; `file` names it in positions, and its relative paths start
// from that file's folder.
Result<Scenario> LoadText(std::string_view text, const std::string& file,
                          const std::vector<std::string>& overrides, InputCache& cache);

// The same for a tree.
Result<Scenario> LoadTree(const YamlTree& root, const std::string& file, InputCache& cache);

}  // namespace stepcast::scenario
