#include "src/cli/schema_command.h"

#include "src/report/schema_json.h"
#include "src/scenario/input_schemas.h"

namespace stepcast::cli {

Outcome PrintSchema(const SchemaOptions& options) {
  const scenario::InputSchema input = scenario::InputSchemaOf(options.what);
  Outcome outcome;
  outcome.output = report::SchemaJson(input.schema, options.what, input.version);
  return outcome;
}

}  // namespace stepcast::cli
