#include "src/cli/list_options.h"

namespace stepcast::cli {
namespace {

constexpr const char* kListAbout =
    "Names what a scenario can name: the models, topologies and GPUs that come along, the\n"
    "frameworks with their axes, and every setting with its values and default; and the\n"
    "recipes that stepcast init takes by name.";

constexpr const char* kListFooter =
    "A name stands wherever a path does: model: llama3.1-8b, topology: dgx-h100, gpu: h100.\n"
    "\n"
    "Example:\n"
    "  stepcast list models\n"
    "  stepcast list settings --json\n"
    "\n";

}  // namespace

void AddList(Command app, ListOptions& options) {
  Command list = app.Add("list", kListAbout, kListFooter);
  list.AddOption("WHAT", options.what, "models, topologies, gpus, frameworks, settings or recipes")
      .Required()
      .OneOf({"models", "topologies", "gpus", "frameworks", "settings", "recipes"});
  list.AddFlag("--json", options.json, "Print one JSON document");
}

}  // namespace stepcast::cli
