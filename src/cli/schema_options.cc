#include "src/cli/schema_options.h"

namespace stepcast::cli {
namespace {

constexpr const char* kSchemaAbout =
    "Prints the JSON Schema of a kind of file: its keys, with their values and defaults. Editors\n"
    "complete and check files by it.";

constexpr const char* kSchemaFooter =
    "Example, for editors with the YAML language server (VS Code, Neovim, Emacs, JetBrains):\n"
    "  stepcast schema scenario > scenario.schema.json\n"
    "and as the first line of the scenario:\n"
    "  # yaml-language-server: $schema=scenario.schema.json\n"
    "\n";

}  // namespace

void AddSchema(Command app, SchemaOptions& options) {
  Command schema = app.Add("schema", kSchemaAbout, kSchemaFooter);
  schema.AddOption("WHAT", options.what, "scenario, plan, model, topology or gpu")
      .Required()
      .OneOf({"scenario", "plan", "model", "topology", "gpu"});
}

}  // namespace stepcast::cli
