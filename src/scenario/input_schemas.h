#pragma once

#include <string_view>

#include "src/scenario/schema.h"

namespace stepcast::scenario {

struct InputSchema {
  Schema schema;
  int version = 1;  // version of the format
};

// Returns the schema of a kind of input file. The kind is "scenario", "plan" (plan.json), "model",
// "topology" or "gpu". The schema has the keys that the reader of such files requests.
InputSchema InputSchemaOf(std::string_view kind);

}  // namespace stepcast::scenario
