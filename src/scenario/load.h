#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/scenario/input_contents.h"
#include "src/scenario/scenario.h"
#include "src/scenario/yaml_tree.h"

// Reads scenarios: the file, what it names, and the rules that tie them together. Format:
// docs/formats.md; every Diagnostic: docs/errors/README.md.
namespace stepcast::scenario {

// The scenario in the file at `path` (relative to the working directory, or to the data root; or
// the name of a MemoryDocument) with
// `overrides` applied in order, each a "KEY=VALUE" of `--set` (overrides.h); or every mistake of
// every file involved, by file and position.
Result<Scenario> Load(const std::string& path, const std::vector<std::string>& overrides,
                      InputCache& cache);
Result<Scenario> Load(const std::string& path);

// The same for text that stands in no file; `file` names it in positions, and paths in it are
// relative to that file's folder.
Result<Scenario> LoadText(std::string_view text, const std::string& file,
                          const std::vector<std::string>& overrides, InputCache& cache);

// The same for a tree that was made of parts of a file.
Result<Scenario> LoadTree(const YamlTree& root, const std::string& file, InputCache& cache);

}  // namespace stepcast::scenario
