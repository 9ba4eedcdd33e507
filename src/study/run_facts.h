#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/planner/result_store.h"

namespace stepcast::study {

// What every result of a command depends on, for stores and for ranks that must agree: the command,
// this build of the program (a digest of its code), the --set options and the files that were read
// (base/files.h), those of the data root by their names in it.
std::vector<planner::StoreFact> RunFacts(const std::string& command, const std::string& code,
                                         const std::vector<std::string>& set,
                                         const std::map<std::string, std::string>& files);

// The facts as one text, for comparing.
std::string ToText(const std::vector<planner::StoreFact>& facts);

}  // namespace stepcast::study
