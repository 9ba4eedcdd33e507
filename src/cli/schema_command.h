#pragma once

#include <string>

#include "src/cli/outcome.h"

namespace stepcast::cli {

struct SchemaOptions {
  std::string what;  // scenario, plan, model, topology, gpu
};

// `stepcast schema`: what a file may hold, as a JSON Schema.
Outcome PrintSchema(const SchemaOptions& options);

}  // namespace stepcast::cli
