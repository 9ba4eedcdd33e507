#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

// Checks documents against the subset of JSON Schema that stepcast's schemas use: type, enum,
// minimum, maximum, pattern, properties, required, additionalProperties, items, anyOf, allOf, $ref
// to definitions of the same document. Any other keyword is a mistake, so that nothing is ignored.
namespace stepcast {

// The mistakes, each with its place: "training.precision: 'bf17' is none of bf16, fp16, ...". Empty
// if there are none.
std::vector<std::string> Mistakes(const nlohmann::json& document, const nlohmann::json& schema);

}  // namespace stepcast
