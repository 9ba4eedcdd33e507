#include "src/cli/serve_options.h"

namespace stepcast::cli {
namespace {

constexpr const char* kAboutServe =
    "Answers questions of another program: a JSON object on each line of stdin, its answer on a\n"
    "line of stdout, until stdin ends. Python's package stepcast speaks with it so.";

constexpr const char* kServeFooter =
    "A question has \"ask\" (compare, emit, explain, memory, plan, simulate or sweep),\n"
    "\"scenario\" (a path, or the scenario itself as an object), \"set\" (an object of keys and\n"
    "values) and what that command takes; \"id\" comes back with the answer. An answer has\n"
    "\"answer\", what the command prints with --json; \"mistakes\", a list with code, file, line,\n"
    "column, message and hint; or \"failure\", a sentence. docs/library.md lists the keys.\n"
    "\n"
    "Exits 0 when stdin ends, whatever the answers were; 2 after 100 lines in a row that are no\n"
    "questions.\n"
    "\n"
    "Example:\n"
    "  echo '{\"ask\": \"simulate\", \"scenario\": \"scenarios/gpt2-ddp/scenario.yaml\"}' |\n"
    "      stepcast serve\n"
    "\n";

}  // namespace

void AddServe(Command app) { app.Add("serve", kAboutServe, kServeFooter); }

}  // namespace stepcast::cli
