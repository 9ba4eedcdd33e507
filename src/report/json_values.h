#pragma once

#include <string>

#include "src/base/time.h"
#include "src/forecast/values.h"
#include "src/report/json.h"
#include "src/scenario/resolved.h"

// Values as the JSON documents hold them. For the .cc files of this package only.
namespace stepcast::report {

// Seconds, correctly rounded: 12.5 ms is 0.0125 and not 0.012500000000000001.
double JsonSeconds(Time time);

// A count that is a mean over ranks: without a fraction when it is whole.
Json JsonNumber(double number);

// "parameters_bytes": 0, ... in the order of program::Category.
void AddCategories(Json& object, const forecast::BytesByCategory& bytes);

Json ToJson(const scenario::Resolved& resolved);

// The text of a document, with a newline at its end. Text that is not UTF-8 keeps its readable
// part.
std::string Text(const Json& document);
// The same on one line.
std::string Line(const Json& document);

}  // namespace stepcast::report
