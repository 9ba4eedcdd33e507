#pragma once

#include <set>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace stepcast {

// A JSON Schema of a command's answers, made from answers that together contain every key. It has
// the types of values at each place, and requires the keys that every mapping there has. Further
// keys are allowed, since later releases may add some. `of_the_input`: places ("row.set",
// "losers[].set") whose mappings have keys of the input.
nlohmann::json AnswerSchema(const std::string& name, const std::vector<nlohmann::json>& answers,
                            const std::set<std::string>& of_the_input);

}  // namespace stepcast
