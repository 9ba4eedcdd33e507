#include "src/cli/command_line.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/diagnostic.h"
#include "src/base/files_read.h"
#include "src/cli/command.h"
#include "src/cli/completion.h"
#include "src/cli/forecast_options.h"
#include "src/cli/foreign_scenario.h"
#include "src/cli/hardware_options.h"
#include "src/cli/import_options.h"
#include "src/cli/init_options.h"
#include "src/cli/list_options.h"
#include "src/cli/page_options.h"
#include "src/cli/progress_line.h"
#include "src/cli/schedule_options.h"
#include "src/cli/schema_command.h"
#include "src/cli/schema_options.h"
#include "src/cli/search_options.h"
#include "src/cli/search_progress.h"
#include "src/cli/serve_command.h"
#include "src/cli/serve_options.h"
#include "src/cli/terminal.h"
#include "src/cli/version.h"
#include "src/report/text_wrap.h"

namespace stepcast::cli {
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

// What the command line asks for, filled by the parser.
struct Request {
  ScenarioFiles files;  // of commands that forecast one plan
  InitOptions init;
  ListOptions list;
  SchemaOptions schema;
  SimulateOptions simulate;
  bool timeline = false, no_timeline = false;  // of simulate; neither: if stdout is a terminal
  MemoryOptions memory;
  ModelImportOptions model_import;
  CompareOptions compare;
  ExplainOptions explain;
  SweepOptions sweep;
  PlanOptions plan;
  CalibrateOptions calibrate;
  CalibrateImportOptions calibrate_import;
  CalibrateRunsOptions calibrate_runs;
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
};

void Describe(Command app, Request& request) {
  AddInit(app, request.init);
  AddList(app, request.list);
  AddSimulate(app, request.files, request.simulate, request.timeline, request.no_timeline);
  AddMemory(app, request.files, request.memory);
  AddCompare(app, request.compare);
  AddExplain(app, request.files, request.explain);
  AddSweep(app, request.sweep);
  AddPlan(app, request.files, request.plan);
  AddCalibrate(app, request.calibrate, request.calibrate_import, request.calibrate_runs);
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

Outcome RunSweep(SweepOptions& options, const RunWork& run_work) {
  ProgressLine line;
  if (ProgressLine::Possible()) {
    options.progress = [&](std::int64_t done, std::int64_t known, std::int64_t rows) {
      line.Show(done, known, rows);
    };
  }
  return Sweep(options, run_work);
}

Outcome RunPlan(PlanOptions& options, const RunWork& run_work) {
  Diagnostics later;  // the search itself says what is wrong with the time
  SearchProgressLine line(study::ReadWithin(options.within, later));
  options.progress = [&](const planner::SearchProgress& progress) { line.Show(progress); };
  return Plan(options, run_work);
}

Outcome RunSimulate(Request& request) {
  std::optional<bool> forced;
  if (request.timeline || request.no_timeline) forced = request.timeline;
  request.simulate.timeline = StdoutStyle(forced);
  const WorkNotice notice("simulating a step of " + Named(request.files));
  return RunOn(request.files, request.simulate.scenario, request.simulate.set,
               [&] { return Simulate(request.simulate); });
}

Outcome RunMemory(Request& request) {
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

// Forecasts of scenarios, and searches over them; none: another command.
std::optional<Outcome> RunForecast(std::string_view command, Request& request,
                                   const HardwareAccess& hardware) {
  if (command == "simulate") return RunSimulate(request);
  if (command == "memory") return RunMemory(request);
  if (command == "compare") {
    const WorkNotice notice("simulating a step of two plans");
    return Compare(request.compare);
  }
  if (command == "explain") return RunExplain(request);
  if (command == "sweep") return RunSweep(request.sweep, hardware.run_work);
  if (command == "plan") {
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

// Forecasts against what was measured; none: another command.
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
  const FilesRead files;  // none of which an output may replace
  report::SetTextWidth(static_cast<std::size_t>(StdoutWidth()));
  if (arguments.size() > 1 && arguments[0] == "validate" &&
      (arguments[1] == "collectives" || arguments[1] == "published")) {
    arguments.erase(arguments.begin());
    arguments[0] = arguments[0] == "published" ? kValidatePublished : kValidateCollectives;
  }
  Program program([&] { return VersionText(hardware.backends()); }, kAbout, kMainFooter);
  Request request;
  Describe(program.Commands(), request);
  // What follows are words of a command line that is being typed, and not this one's.
  if (!arguments.empty() && arguments[0] == kComplete) {
    arguments.erase(arguments.begin());
    return {kDone, Completions(program.Pages(), NamesByType(), arguments), ""};
  }
  auto [command, outcome] = program.Parse(arguments);
  if (command.empty()) return outcome;
  if (std::optional<Outcome> done = RunForecast(command, request, hardware)) return *done;
  if (std::optional<Outcome> done = RunValidation(command, request, hardware)) return *done;
  if (command == "init") return Init(request.init);
  if (command == "list") return List(request.list);
  if (command == "schema") return PrintSchema(request.schema);
  if (command == "calibrate") return RunCalibrate(request.calibrate, arguments, hardware);
  if (command == "calibrate import") return CalibrateImport(request.calibrate_import);
  if (command == "calibrate runs") return CalibrateRuns(request.calibrate_runs);
  if (command == "model import") return ModelImport(request.model_import);
  if (command == "execute") return hardware.execute(request.execute);
  if (command == "serve") return Serve();
  if (command == "completion") return PrintCompletion(request.completion);
  if (command == "manual") return PrintManual(request.manual, program.Pages(), kVersion);
  if (command == "topology import") return TopologyImport(request.topology_import);
  return TopologyShow(request.topology_show);
}

}  // namespace stepcast::cli
