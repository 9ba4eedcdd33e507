#pragma once

#include <optional>
#include <string>

#include "src/cli/outcome.h"

namespace stepcast::cli {

// Writes the section `name` of the document at `path` anew: what stands between the lines
// '<!-- NAME: begin -->' and '<!-- NAME: end -->'. An outcome only if that failed.
std::optional<Outcome> UpdateSection(const std::string& path, const std::string& name,
                                     const std::string& content);

}  // namespace stepcast::cli
