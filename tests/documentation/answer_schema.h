#pragma once

#include <set>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace stepcast {

// A JSON Schema of what a command answers, from answers that hold between them every key: the kinds
// of values that stand in each place, and as required the keys that every mapping in that place
// has. Further keys are allowed, since later releases may add some. `of_the_input`: places
// ("row.set", "losers[].set") whose mappings have keys of the input.
nlohmann::json AnswerSchema(const std::string& name, const std::vector<nlohmann::json>& answers,
                            const std::set<std::string>& of_the_input);

}  // namespace stepcast
