#pragma once

#include <string>
#include <string_view>

#include "src/foreign/setting.h"

namespace stepcast::foreign {

// Reads the settings of a TOML file. Tables become dotted names, "training.seq_len". `file` names
// the text in positions. Mistake: foreign.syntax.
Result<Document> ParseToml(std::string_view text, const std::string& file);

// Reads the settings of a YAML or JSON file. Mappings become dotted names,
// "zero_optimization.offload_param.device". `file` names the text in positions. Mistakes: those of
// scenario/yaml_tree.h.
Result<Document> ParseYamlSettings(std::string_view text, const std::string& file);

}  // namespace stepcast::foreign
