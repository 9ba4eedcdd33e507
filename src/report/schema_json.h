#pragma once

#include <string>

#include "src/scenario/schema.h"

namespace stepcast::report {

// A JSON Schema (draft 7, which editors know) of the files that a schema describes. `name`: of the
// files, "scenario"; `version`: of their format.
std::string SchemaJson(const scenario::Schema& schema, const std::string& name, int version);

}  // namespace stepcast::report
