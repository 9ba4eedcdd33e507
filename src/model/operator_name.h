#pragma once

#include <string>
#include <string_view>

namespace stepcast::model {

// The name of a kernel: its module's, as `blocks.3.mlp`, and what it does there, as `.gelu`.
inline std::string Joined(std::string_view module, std::string_view suffix) {
  std::string name(module);
  name += suffix;
  return name;
}

}  // namespace stepcast::model
