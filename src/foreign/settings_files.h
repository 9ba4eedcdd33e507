#pragma once

#include <string>
#include <string_view>

#include "src/foreign/setting.h"

namespace stepcast::foreign {

// Reads the settings of a TOML file. Tables become dotted names such as "training.seq_len". `file`
// is the file name in positions. Error: foreign.syntax.
Result<Document> ParseToml(std::string_view text, const std::string& file);

// Reads the settings of a YAML or JSON file. Mappings become dotted names such as
// "zero_optimization.offload_param.device". `file` is the file name in positions. Errors: those of
// scenario/yaml_tree.h.
Result<Document> ParseYamlSettings(std::string_view text, const std::string& file);

}  // namespace stepcast::foreign
