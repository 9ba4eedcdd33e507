#pragma once

#include <string_view>

#include "src/scenario/schema.h"

namespace stepcast::scenario {

struct InputSchema {
  Schema schema;
  int version = 1;  // of the format
};

// The schema of a kind of file, recorded from its reader: "scenario", "plan" (plan.json), "model",
// "topology", "gpu".
InputSchema InputSchemaOf(std::string_view kind);

}  // namespace stepcast::scenario
