#pragma once

#include <map>
#include <string>

#include "src/foreign/setting.h"

namespace stepcast::foreign {

// Replaces `${NAME}` and `$NAME` in the values of a YAML, JSON or TOML file: by what the user says
// of NAME, or, for a dotted name of the file itself, `${model.seq_length}` or `${.seq_length}` as
// OmegaConf has them, by that value; `${multiply:4, ${.hidden_size}}` is the product. What stays
// makes the value unknown.
void ReplaceVariables(Document& document, const std::map<std::string, std::string>& given);

}  // namespace stepcast::foreign
