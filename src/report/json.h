#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "src/base/time.h"
#include "src/scenario/resolved.h"

// Converts values to their format in JSON documents. Internal to this package.
namespace stepcast::report {

// A JSON document for output. Keys are in the order in which they were added.
using Json = nlohmann::ordered_json;

// Returns a time in seconds, correctly rounded: 12.5 ms is 0.0125, not 0.012500000000000001.
double JsonSeconds(Time time);

// Returns a number, such as a mean over ranks. A number without a fraction is written as an
// integer.
Json JsonNumber(double number);

Json ToJson(const scenario::Resolved& resolved);
// Returns an object with these keys and values.
Json SetJson(const std::vector<std::pair<std::string, std::string>>& settings);

// Returns the document as text that ends in a newline. Invalid UTF-8 is replaced.
std::string Text(const Json& document);
// Returns the document on one line, without a newline. Invalid UTF-8 is replaced.
std::string OneLine(const Json& document);
// Returns the value as a CSV field: a string without quotes, an empty field for null, otherwise
// the text of OneLine.
std::string Field(const Json& value);

}  // namespace stepcast::report
