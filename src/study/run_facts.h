#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/planner/result_store.h"

namespace stepcast::study {

// Returns the inputs on which all results of a command depend, for stores and for agreement between
// ranks. The inputs are the command, a digest of this build's code, the --set options, and the
// input files (base/files.h), including a scenario without a file. The names of files in the data
// root are paths relative to it.
std::vector<planner::StoreFact> RunFacts(const std::string& command, const std::string& code,
                                         const std::string& scenario,
                                         const std::vector<std::string>& set,
                                         const std::map<std::string, std::string>& files);

// Returns the facts as one text, for comparison.
std::string ToText(const std::vector<planner::StoreFact>& facts);

}  // namespace stepcast::study
