#include "src/cli/command_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/diagnostic.h"
#include "src/base/files.h"
#include "src/cli/command.h"
#include "src/cli/command_options.h"
#include "src/cli/completion.h"
#include "src/cli/foreign_scenario.h"
#include "src/cli/option_parts.h"
#include "src/cli/outcome.h"
#include "src/cli/outputs.h"
#include "src/cli/progress.h"
#include "src/cli/version.h"
#include "src/foreign/import.h"
#include "src/report/dumps.h"
#include "src/report/table.h"
#include "src/scenario/input_schemas.h"
#include "src/scenario/load.h"
#include "src/scenario/memory_document.h"

namespace stepcast::cli {
struct InitOptions {
  ScenarioFiles files;
  std::vector<std::string> set;  // "KEY=VALUE"
  std::string output;            // file to write; empty: stdout
  bool force = false;            // replace that file
};

// `stepcast init`: makes a scenario from other programs' configurations. Status kAnswerIsNo if the
// scenario's plan cannot be forecast; the scenario is written all the same.
Outcome Init(const InitOptions& options);

namespace {

// The mistakes that prevent a forecast, at the origins of the scenario's values.
Diagnostics Obstacles(const foreign::Imported& imported) {
  const scenario::MemoryDocument document(imported.title, imported.scenario.text);
  scenario::InputCache cache;
  auto loaded = scenario::Load(document.name(), {}, cache);
  if (loaded) return {};
  return foreign::AtOrigins(std::move(loaded.error()), imported.title, imported.scenario);
}

}  // namespace

Outcome Init(const InitOptions& options) {
  std::error_code error;
  if (!options.force && std::filesystem::is_regular_file(options.output, error)) {
    return WrongInput({{"file.exists",
                        {options.output, 0, 0},
                        "the file exists, and may hold changes of yours: " + Quoted(options.output),
                        "name another file, or replace this one with --force"}});
  }
  foreign::ImportRequest request = ImportRequestOf(options.files, options.set);
  request.absolute_paths = !std::filesystem::path(options.output).parent_path().empty();
  request.states_software = true;
  request.takes_scenario = true;
  const auto imported = foreign::Import(request);
  if (!imported) return WrongInput(imported.error());
  const Diagnostics obstacles = Obstacles(*imported);
  Outcome outcome = PutText(options.output, imported->scenario.text);
  if (outcome.status != kDone) return outcome;
  outcome.messages = ImportMessages(*imported);
  if (!options.output.empty()) outcome.messages += "stepcast: wrote " + options.output + "\n";
  if (!obstacles.empty()) {
    outcome.status = kAnswerIsNo;
    outcome.messages += "The scenario cannot be forecast as it stands:\n" + Format(obstacles);
  }
  return outcome;
}

// The options of `stepcast init`.

void AddInit(Command app, InitOptions& options);

namespace {

constexpr const char* kInitAbout =
    "Writes a scenario for a model, for a recipe, or for a configuration that you train with:\n"
    "one of torchtitan, Megatron-LM, NeMo, DeepSpeed, accelerate, the Trainer, axolotl or\n"
    "torchtune. A comment behind each value says where it comes from.";

constexpr const char* kInitFooter =
    "Several files describe one job together: a script, its DeepSpeed JSON and the model's\n"
    "config.json. What they do not say is asked for, and the option that says it is named. "
    "Settings\n"
    "that the forecast leaves out are listed at the scenario's end and on stderr, with what that\n"
    "may change.\n"
    "\n"
    "Nothing in the files is executed. Of shell scripts assignments, arrays, ${A:-b}, $((A * b)),\n"
    "tests of known variables and YAML between heredocs are read; what scripts take from their\n"
    "arguments and surroundings is said with --variable. Of Python files literal keyword "
    "arguments\n"
    "are read. docs/foreign.md lists the options of each program.\n"
    "\n"
    "simulate, memory, plan, explain, sweep and compare take the same files and options, without "
    "a\n"
    "scenario. A scenario as FILE is copied without its comments, with the values of the options.\n"
    "An existing file is replaced only with --force.\n"
    "\n"
    "Exits 3 when the scenario was written and cannot be forecast as it stands; stderr says why.\n"
    "\n"
    "Example:\n"
    "  stepcast init llama3.1-8b --gpus '4 x rtx-4090' -o scenario.yaml\n"
    "  stepcast init train.toml --cluster dgx-h100 --nodes 16 -o scenario.yaml\n"
    "  stepcast init pretrain.sh --variable TP=4 --model config.json --cluster dgx-h100 --nodes 8\n"
    "  stepcast init ds_config.json trainer.yaml --model config.json --cluster dgx-a100 \\\n"
    "      --set training.sequence_length=4096\n"
    "  stepcast simulate train.toml --cluster dgx-h100 --nodes 16\n"
    "\n";

}  // namespace

void AddInit(Command app, InitOptions& options) {
  Command init = app.Add("init", kInitAbout, kInitFooter);
  init.AddOption(
          "FILE", options.files.files,
          "A model (its name, here or on the Hub, or its config.json), a recipe, a scenario, "
          "or configurations of other programs (docs/foreign.md)")
      .Required();
  AddRepeated(init, "--set", options.set, "KEY=VALUE",
              "A key of the scenario by its dotted path, in the place of what the files say, as "
              "often as needed");
  AddImport(init, options.files);
  AddOutput(init, "-o,--output", options.output, "Write to FILE instead of stdout");
  init.AddFlag("--force", options.force, "Replace the file of --output");
}

// The terminal's width, else $COLUMNS, else 80.
int StdoutWidth();

// How to draw on stdout; nothing if it is not a terminal, unless `forced`. The width is
// StdoutWidth. Colors are used only on a terminal that has them, and not if $NO_COLOR is set
// (no-color.org).
std::optional<report::TerminalStyle> StdoutStyle(std::optional<bool> forced);

namespace {

int Width(bool terminal) {
  constexpr int kLeast = 40, kMost = 400, kOtherwise = 80;
  int width = 0;
  if (terminal) {
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) width = size.ws_col;
  }
  if (width == 0) {
    if (const char* columns = std::getenv("COLUMNS")) width = std::atoi(columns);
  }
  return width <= 0 ? kOtherwise : std::clamp(width, kLeast, kMost);
}

}  // namespace

int StdoutWidth() { return Width(::isatty(STDOUT_FILENO) == 1); }

std::optional<report::TerminalStyle> StdoutStyle(std::optional<bool> forced) {
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  if (!forced.value_or(terminal)) return std::nullopt;
  const char* no_colour = std::getenv("NO_COLOR");
  const char* kind = std::getenv("TERM");
  const bool colour = terminal && (no_colour == nullptr || *no_colour == '\0') && kind != nullptr &&
                      *kind != '\0' && std::string_view(kind) != "dumb";
  return report::TerminalStyle{.width = Width(terminal), .colour = colour};
}

// The options of `stepcast list`.

void AddList(Command app, ListOptions& options);

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
  AddColumns(list);
}

// Adds the command that answers other programs' questions; it has no options.
void AddServe(Command app);

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

struct SchemaOptions {
  std::string what;  // scenario, plan, model, topology, gpu
};

// `stepcast schema`: the JSON Schema of a kind of file.
Outcome PrintSchema(const SchemaOptions& options);

Outcome PrintSchema(const SchemaOptions& options) {
  const scenario::InputSchema input = scenario::InputSchemaOf(options.what);
  Outcome outcome;
  outcome.output = report::SchemaJson(input.schema, options.what, input.version);
  return outcome;
}

// The options of `stepcast schema`.

void AddSchema(Command app, SchemaOptions& options);

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

namespace {

constexpr const char* kAbout =
    "Forecasts one step of distributed training: how long it takes, where the time goes, and\n"
    "whether it fits in memory. A scenario file names a model, a cluster and a plan.";

constexpr const char* kMainFooter =
    "Example:\n"
    "  stepcast simulate scenarios/llama3-8b-fsdp/scenario.yaml\n"
    "  stepcast simulate scenarios/llama3-8b-fsdp/scenario.yaml --set cluster.nodes=4 \\\n"
    "      --set parallelism.data=32\n"
    "\n"
    "Paths are looked up as they are, beside the file that names them, and in the data that\n"
    "stepcast was built with (models/, topologies/, calibration/, scenarios/), or in\n"
    "$STEPCAST_DATA. Each command has its own page: stepcast COMMAND --help\n"
    "What takes longer than two seconds says on stderr what it is doing, unless\n"
    "$STEPCAST_PROGRESS is 0.\n"
    "\n";

// The parsed command line.
struct Request {
  ScenarioFiles files;  // for commands that forecast one plan
  InitOptions init;
  ListOptions list;
  SchemaOptions schema;
  SimulateOptions simulate;
  bool timeline = false, no_timeline = false;  // of simulate; neither: drawn on a terminal
  MemoryOptions memory;
  ModelImportOptions model_import;
  CompareOptions compare;
  ExplainOptions explain;
  RunTimeOptions run_time;
  SweepOptions sweep;
  PlanOptions plan;
  CalibrateOptions calibrate;
  CalibrateImportOptions calibrate_import;
  CalibrateRunsOptions calibrate_runs;
  CalibrateTraceOptions calibrate_trace;
  ImportAtlasOptions import_atlas;
  CollectiveOptions collective;
  ScheduleOptions schedule;
  ExecuteOptions execute;
  ValidateOptions validate;
  ValidateCollectivesOptions validate_collectives;
  ValidatePublishedOptions validate_published;
  TopologyShowOptions topology_show;
  TopologyImportOptions topology_import;
  CompletionOptions completion;
  ManualOptions manual;
  GalleryOptions gallery;
};

void Describe(Command app, Request& request) {
  AddInit(app, request.init);
  AddList(app, request.list);
  AddSimulate(app, request.files, request.simulate, request.timeline, request.no_timeline);
  AddMemory(app, request.files, request.memory);
  AddCompare(app, request.files, request.compare);
  AddExplain(app, request.files, request.explain);
  AddRunTime(app, request.files, request.run_time);
  AddGallery(app, request.gallery);
  AddSweep(app, request.files, request.sweep);
  AddPlan(app, request.files, request.plan);
  AddCalibrate(app, request.calibrate, request.calibrate_import, request.calibrate_runs,
               request.calibrate_trace);
  AddImportAtlas(app, request.import_atlas);
  AddCollective(app, request.collective);
  AddSchedule(app, request.schedule);
  AddExecute(app, request.execute);
  AddValidate(app, request.validate);
  AddValidateCollectives(app, request.validate_collectives);
  AddValidatePublished(app, request.validate_published);
  AddModel(app, request.model_import);
  AddTopology(app, request.topology_show, request.topology_import);
  AddSchema(app, request.schema);
  AddServe(app);
  AddCompletion(app, request.completion);
  AddManual(app, request.manual);
}

std::string Named(const ScenarioFiles& files) {
  return fmt::format("{}", fmt::join(files.files, ", "));
}

// The keys of "KEY=VALUES".
std::vector<std::string> KeysOf(const std::vector<std::string>& vary) {
  std::vector<std::string> keys;
  for (const std::string& text : vary) keys.push_back(text.substr(0, text.find('=')));
  return keys;
}

Outcome RunSweep(Request& request, const RunWork& run_work) {
  SweepOptions& options = request.sweep;
  ProgressLine line;
  if (ProgressLine::Possible()) {
    options.progress = [&](std::int64_t done, std::int64_t known, std::int64_t rows) {
      line.Show(done, known, rows);
    };
  }
  request.files.varied = KeysOf(options.vary);
  options.command = CommandOn("sweep", request.files, options.set);
  return RunOn(request.files, options.scenario, options.set,
               [&] { return Sweep(options, run_work); });
}

// Runs `command` on one of two plans. `set` holds the overrides of this plan, `both` those of both;
// options such as --nodes are added to `both`.
Outcome RunOnPlan(ScenarioFiles files, std::string& plan, std::vector<std::string>& both,
                  const std::vector<std::string>& set, const std::function<Outcome()>& command) {
  files.files = {plan};
  std::vector<std::string> all = both;
  all.insert(all.end(), set.begin(), set.end());
  const std::size_t own = all.size();
  return RunOn(files, plan, all, [&] {
    for (std::size_t i = own; i < all.size(); ++i) {
      if (std::find(both.begin(), both.end(), all[i]) == both.end()) both.push_back(all[i]);
    }
    return command();
  });
}

Outcome RunCompare(Request& request) {
  const WorkNotice notice("simulating a step of two plans");
  CompareOptions& options = request.compare;
  return RunOnPlan(request.files, options.a, options.set, options.set_a, [&] {
    if (options.b.empty()) return Compare(options);
    return RunOnPlan(request.files, options.b, options.set, options.set_b,
                     [&] { return Compare(options); });
  });
}

Outcome RunPlan(PlanOptions& options, const RunWork& run_work) {
  Diagnostics later;  // the search itself reports mistakes in the time
  SearchProgressLine line(study::ReadWithin(options.within, later));
  options.progress = [&](const planner::SearchProgress& progress) { line.Show(progress); };
  return Plan(options, run_work);
}

Outcome RunSimulate(Request& request) {
  std::optional<bool> forced;
  if (request.timeline || request.no_timeline) forced = request.timeline;
  request.simulate.timeline = StdoutStyle(forced);
  request.simulate.command = CommandOn("simulate", request.files, request.simulate.set);
  const WorkNotice notice("simulating a step of " + Named(request.files));
  return RunOn(request.files, request.simulate.scenario, request.simulate.set,
               [&] { return Simulate(request.simulate); });
}

Outcome RunMemory(Request& request) {
  request.memory.command = CommandOn("simulate", request.files, request.memory.set);
  const WorkNotice notice("simulating a step at each ZeRO stage of " + Named(request.files));
  return RunOn(request.files, request.memory.scenario, request.memory.set,
               [&] { return Memory(request.memory); });
}

Outcome RunExplain(Request& request) {
  const WorkNotice notice("simulating a step, and again with each resource faster, of " +
                          Named(request.files));
  return RunOn(request.files, request.explain.scenario, request.explain.set,
               [&] { return Explain(request.explain); });
}

Outcome RunRunTime(Request& request) {
  const WorkNotice notice("simulating a step of " + Named(request.files));
  return RunOn(request.files, request.run_time.scenario, request.run_time.set,
               [&] { return RunTime(request.run_time); });
}

Outcome RunCollective(const Request& request) {
  const WorkNotice notice("forecasting a collective at each size on the cluster of " +
                          request.collective.scenario);
  return Collective(request.collective);
}

// `arguments`: the whole command line.
Outcome RunCalibrate(CalibrateOptions& options, const std::vector<std::string>& arguments,
                     const HardwareAccess& hardware) {
  if (options.backend.empty()) {
    return WrongInput({{"command.wrong-use",
                        {"command line", 0, 0},
                        "--backend is required",
                        "see stepcast calibrate --help"}});
  }
  options.version = fmt::format("stepcast {}", kVersion);
  options.command = "stepcast";
  for (const std::string& argument : arguments) options.command += " " + argument;
  return hardware.calibrate(options);
}

// Runs commands that forecast or search; nothing for other commands.
std::optional<Outcome> RunForecast(std::string_view command, Request& request,
                                   const HardwareAccess& hardware) {
  if (command == "simulate") return RunSimulate(request);
  if (command == "memory") return RunMemory(request);
  if (command == "compare") return RunCompare(request);
  if (command == "explain") return RunExplain(request);
  if (command == "run-time") return RunRunTime(request);
  if (command == "gallery") return Gallery(request.gallery);
  if (command == "sweep") return RunSweep(request, hardware.run_work);
  if (command == "plan") {
    request.files.for_search = true;
    request.plan.command = CommandOn("simulate", request.files, request.plan.set);
    return RunOn(request.files, request.plan.scenario, request.plan.set,
                 [&] { return RunPlan(request.plan, hardware.run_work); });
  }
  if (command == "collective") return RunCollective(request);
  if (command == "schedule") {
    request.schedule.style = *StdoutStyle(true);
    return DrawSchedule(request.schedule);
  }
  return std::nullopt;
}

// Runs commands that compare forecasts with measurements; nothing for other commands.
std::optional<Outcome> RunValidation(std::string_view command, Request& request,
                                     const HardwareAccess& hardware) {
  if (command == "validate collectives") {
    const WorkNotice notice("forecasting the collectives that were published");
    return ValidateCollectives(request.validate_collectives);
  }
  if (command == "validate published") {
    const WorkNotice notice("simulating the steps that were published");
    return ValidatePublished(request.validate_published);
  }
  if (command == "validate") return hardware.validate(request.validate);
  return std::nullopt;
}

}  // namespace

Outcome RunCommandLine(std::vector<std::string> arguments, const HardwareAccess& hardware) {
  const FilesRead files;  // no output may replace these
  report::SetTextWidth(static_cast<std::size_t>(StdoutWidth()));
  if (arguments.size() > 1 && arguments[0] == "validate" &&
      (arguments[1] == "collectives" || arguments[1] == "published")) {
    arguments.erase(arguments.begin());
    arguments[0] = arguments[0] == "published" ? kValidatePublished : kValidateCollectives;
  }
  if (arguments.size() > 2 && arguments[0] == "calibrate" && arguments[1] == "import" &&
      arguments[2] == "atlas") {
    arguments.erase(arguments.begin(), arguments.begin() + 2);
    arguments[0] = kImportAtlas;
  }
  Program program([&] { return VersionText(hardware.backends()); }, kAbout, kMainFooter);
  Request request;
  Describe(program.Commands(), request);
  // The following words belong to a command line that is being typed, not to this one.
  if (!arguments.empty() && arguments[0] == kComplete) {
    arguments.erase(arguments.begin());
    return {kDone, Completions(program.Pages(), NamesByType(), arguments), ""};
  }
  auto [command, outcome] = program.Parse(arguments);
  if (command.empty()) return outcome;
  constexpr std::size_t kAllColumns = 400;
  if (AllColumns()) report::SetTextWidth(kAllColumns);
  if (std::optional<Outcome> done = RunForecast(command, request, hardware)) return *done;
  if (std::optional<Outcome> done = RunValidation(command, request, hardware)) return *done;
  if (command == "init") return Init(request.init);
  if (command == "list") return List(request.list);
  if (command == "schema") return PrintSchema(request.schema);
  if (command == "calibrate") return RunCalibrate(request.calibrate, arguments, hardware);
  if (command == "calibrate import") return CalibrateImport(request.calibrate_import);
  if (command == "calibrate import atlas") return ImportAtlas(request.import_atlas);
  if (command == "calibrate runs") return CalibrateRuns(request.calibrate_runs);
  if (command == "calibrate trace") return CalibrateTrace(request.calibrate_trace);
  if (command == "model import") return ModelImport(request.model_import);
  if (command == "execute") return hardware.execute(request.execute);
  if (command == "serve") return Serve();
  if (command == "completion") return PrintCompletion(request.completion);
  if (command == "manual") return PrintManual(request.manual, program.Pages(), kVersion);
  if (command == "topology import") return TopologyImport(request.topology_import);
  return TopologyShow(request.topology_show);
}

}  // namespace stepcast::cli
