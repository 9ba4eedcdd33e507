#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

// Checks documents against a JSON Schema, as far as stepcast's schemas go: type, enum, minimum,
// maximum, pattern, properties, required, additionalProperties, items, anyOf, allOf, $ref to
// definitions of the same document. A schema with another keyword is a mistake, too, so that
// nothing passes unread.
namespace stepcast {

// What is wrong, each with its place: "training.precision: 'bf17' is none of bf16, fp16, ...".
// Empty: nothing.
std::vector<std::string> Mistakes(const nlohmann::json& document, const nlohmann::json& schema);

}  // namespace stepcast
