#pragma once

#include <string_view>

#include "src/scenario/schema.h"

namespace stepcast::scenario {

struct InputSchema {
  Schema schema;
  int version = 1;  // version of the format
};

// Returns the schema of a kind of file, recorded from the file's reader. Kinds are "scenario",
// "plan" (plan.json), "model", "topology" and "gpu".
InputSchema InputSchemaOf(std::string_view kind);

}  // namespace stepcast::scenario
