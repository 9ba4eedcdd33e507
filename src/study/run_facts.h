#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/planner/result_store.h"

namespace stepcast::study {

// Returns the inputs on which all results of a command depend, for stores and for agreement between
// ranks. These are the command, a digest of the code, the --set options, the input files
// (base/files.h), and the text of a scenario that has no file. Files in the data root have relative
// paths.
std::vector<planner::StoreFact> RunFacts(const std::string& command, const std::string& code,
                                         const std::string& scenario,
                                         const std::vector<std::string>& set,
                                         const std::map<std::string, std::string>& files);

// Returns the facts as one text, for comparison.
std::string ToText(const std::vector<planner::StoreFact>& facts);

}  // namespace stepcast::study
