#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/command.h"
#include "src/cli/command_page.h"
#include "src/cli/foreign_scenario.h"
#include "src/cli/hardware_request.h"
#include "src/cli/outcome.h"
#include "src/cli/outputs.h"
#include "src/report/command_text.h"
#include "src/report/table.h"
#include "src/report/timeline_text.h"
#include "src/study/comparison.h"
#include "src/study/plan_question.h"
#include "src/study/run_time_study.h"
#include "src/study/stage_memory.h"
#include "src/study/sweep_run.h"
#include "src/study/training_question.h"

namespace stepcast::cli {

// Options of commands that forecast one or two scenarios.

struct SimulateOptions {
  std::string scenario;
  std::vector<std::string> set;  // "KEY=VALUE"
  report::CommandWords command;  // forecasts the step, for proposals
  std::string network;           // "analytic", "flow", "message"; empty: from the scenario
  bool json = false;
  std::string trace;      // file to write; empty: none
  int trace_steps = 1;    // number of steps in traces
  std::string trace_dir;  // folder of traces for rank analyzers; empty: none
  std::optional<report::TerminalStyle> timeline;  // draws the step below the forecast
  std::string report;                             // HTML page to write; empty: none
  bool program = false;                           // print the step program instead of the forecast
  EmitOptions emit;
  study::TrainingQuestion training;
  std::optional<double> fit_probability;  // below it the status is kMayNotFit
};

Outcome Simulate(const SimulateOptions& options);

struct CompareOptions : study::ComparisonQuestion {
  std::string memory;                // PyTorch's measurement of a job's memory, instead of B
  std::vector<std::string> fail_if;  // guards (study/guard.h)
  bool json = false;
};

// Compares two plans, or one plan's memory with a measurement.
Outcome Compare(const CompareOptions& options);

struct CollectiveOptions {
  std::string scenario;
  std::vector<std::string> set;
  std::string op = "all_reduce";
  std::string from = "1 KiB";  // sizes double from here ...
  std::string to = "8 GiB";    // ... to here
  std::string group;           // of the plan; empty: use ranks and nodes
  std::optional<int> ranks;    // default: all of the nodes
  std::optional<int> nodes;    // default: all of the cluster
  bool siblings = false;       // all sibling groups at the same time
  std::string network;         // "analytic", "flow", "message"; empty: from the scenario
  bool json = false;
  bool csv = false;
};

Outcome Collective(const CollectiveOptions& options);

struct ExplainOptions {
  std::string scenario;
  std::vector<std::string> set;
  // "5.2 s", a trace, or a folder of traces; empty: nothing was measured.
  std::string measured;
  bool json = false;
  std::optional<double> fit_probability;  // below it the status is kMayNotFit
};

// `stepcast explain`: why the step takes its time. Status 3 if it does not fit in memory.
Outcome Explain(const ExplainOptions& options);

struct MemoryOptions : study::MemoryQuestion {
  report::CommandWords command;  // forecasts the step, for proposals
  bool json = false;
  std::optional<double> fit_probability;  // below it the status is kMayNotFit
};

// Status kAnswerIsNo if the scenario's own stage does not fit, or with `max_micro_batch` if no
// micro-batch fits.
Outcome Memory(const MemoryOptions& options);

struct RunTimeOptions : study::RunTimeQuestion {
  bool json = false;
  std::string report;  // HTML page to write; empty: none
};

// `stepcast run-time`: how long a whole run takes, with its failures.
Outcome RunTime(const RunTimeOptions& options);

struct GalleryOptions {
  std::string folder;  // for pages; empty: none are written
};

// `stepcast gallery`: forecasts of well-known training runs beside published steps.
Outcome Gallery(const GalleryOptions& options);
void AddGallery(Command app, GalleryOptions& options);

// `timeline`, `no_timeline`: whether to draw the step; if neither is set, it is drawn on a
// terminal.
void AddSimulate(Command app, ScenarioFiles& files, SimulateOptions& options, bool& timeline,
                 bool& no_timeline);
void AddMemory(Command app, ScenarioFiles& files, MemoryOptions& options);
// `files` holds the options that describe both plans; A and B are in `options`.
void AddCompare(Command app, ScenarioFiles& files, CompareOptions& options);
void AddExplain(Command app, ScenarioFiles& files, ExplainOptions& options);
void AddCollective(Command app, CollectiveOptions& options);
void AddRunTime(Command app, ScenarioFiles& files, RunTimeOptions& options);

struct CalibrateRunsOptions {
  std::string runs;      // a table, or published steps
  std::string scenario;  // for runs in a table without a scenario
  std::vector<std::string> set;
  std::string profile;  // profile to be rewritten; empty: the one of all runs
  std::string output;   // empty: no profile is written
  bool json = false;
};

// Learns from measured steps the errors of forecasts, and reports how well each run is predicted
// from the others. Writes a profile that forecasts use.
Outcome CalibrateRuns(const CalibrateRunsOptions& options);

struct CalibrateTraceOptions {
  std::string traces;    // a trace, or a folder with one for each rank
  std::string scenario;  // what ran
  std::vector<std::string> set;
  std::string output;  // empty: no profile is written
  bool json = false;
};

// Learns rates from a traced step, and writes the scenario's profile with them.
Outcome CalibrateTrace(const CalibrateTraceOptions& options);

// Options of commands that measure, or compare forecasts with measurements.

struct CalibrateImportOptions {
  std::vector<std::string> logs;
  std::string op;                     // empty: from the logs
  std::optional<int> ranks;           // likewise
  std::optional<int> ranks_per_node;  // likewise
  bool in_place = false;
  bool keep_noise = false;  // replaces times that fall with size by means
  std::string gpu;          // the GPU type; empty: from the logs
  std::string name;         // empty: the first log's name
  std::string output;       // empty: stdout
};

// Writes a calibration profile with tables measured by nccl-tests.
Outcome CalibrateImport(const CalibrateImportOptions& options);

struct ImportAtlasOptions {
  std::string folder;  // of the tables (validate/kernel_tables.h)
  std::string gpu;     // only this GPU type; empty: all with a table and a profile
  std::string source;  // source of the measurements; empty: the folder's name
  std::string output;  // folder for the fitted rates, GPU.yaml; empty: none
};

// Compares forecasts of kernels with measured tables, and fits rates to the tables. On the command
// line the name is "calibrate import atlas".
inline constexpr const char* kImportAtlas = "calibrate-import-atlas";
Outcome ImportAtlas(const ImportAtlasOptions& options);
void AddImportAtlas(Command app, ImportAtlasOptions& options);

struct ValidatePublishedOptions {
  std::string source;  // only this source; empty: all
  bool json = false;
  bool csv = false;
  std::string html;    // a page to write; empty: none
  std::string update;  // a document whose section is rewritten; empty: none
};

// Compares published training steps with forecasts. Status kAnswerIsNo if check rows miss the
// targets (validate/published.h).
Outcome ValidatePublished(const ValidatePublishedOptions& options);

struct ValidateCollectivesOptions {
  bool json = false;
  bool csv = false;
  std::string update;  // a document whose section is rewritten; empty: none
};

// Compares published collectives with forecasts. Status kAnswerIsNo if held-back points miss the
// targets (validate/collectives.h).
Outcome ValidateCollectives(const ValidateCollectivesOptions& options);

// The internal names of `validate collectives` and `validate published`.
inline constexpr const char* kValidateCollectives = "validate-collectives";
inline constexpr const char* kValidatePublished = "validate-published";

void AddExecute(Command app, ExecuteOptions& options);
void AddValidate(Command app, ValidateOptions& options);
void AddValidateCollectives(Command app, ValidateCollectivesOptions& options);
void AddValidatePublished(Command app, ValidatePublishedOptions& options);
// --backend is required, except by `import` and `runs`; RunCommandLine checks this.
void AddCalibrate(Command app, CalibrateOptions& options, CalibrateImportOptions& import_options,
                  CalibrateRunsOptions& runs_options, CalibrateTraceOptions& trace_options);

// Options of commands about models and topologies.

struct TopologyImportOptions {
  std::string file;       // NCCL's XML, or output of nvidia-smi topo -m
  std::string gpu;        // empty: from the file
  std::string nic_speed;  // empty: from the file
  std::string nics;       // names separated by commas, or "all"; empty: by rule
  std::string nvlink;     // "assume" or "none", if the file lists none; empty: refuse
  std::string name;       // empty: the file's name
  std::string output;     // empty: stdout
};

// Writes a topology file. Facts missing in the input are listed on stderr and in the file.
Outcome TopologyImport(const TopologyImportOptions& options);

struct TopologyShowOptions {
  std::string file;                   // topologies/*.yaml
  std::optional<std::int64_t> nodes;  // default: two with a fabric, otherwise one
  bool dot = false;                   // Graphviz instead of text
  bool json = false;                  // one JSON document instead of text
  bool links = false;                 // the load of a collective on each link
  std::string op = "all_reduce";      // the collective
  std::string size = "1 GiB";         // and its size
};

Outcome TopologyShow(const TopologyShowOptions& options);

struct ModelImportOptions {
  std::string kineto;                // a trace of torch.profiler
  std::optional<std::int64_t> step;  // nothing: the step of median duration
  std::string model;                 // the traced model; empty: the trace has shapes
  std::string name;                  // empty: the file's name
  std::string output;                // empty: stdout
};

// Writes a layer list. Facts missing in the trace are listed on stderr and in the file.
Outcome ModelImport(const ModelImportOptions& options);

void AddModel(Command app, ModelImportOptions& options);
void AddTopology(Command app, TopologyShowOptions& options, TopologyImportOptions& import_options);

// Options of commands that convert help pages for other programs.

// A command's help page as a page for man(1), section 1, in the macros of man(7). `pages`: those of
// all commands, the program's first.
std::string ManualPage(const CommandPage& page, const std::vector<CommandPage>& pages,
                       const std::string& version);

// "stepcast-calibrate-import" for "calibrate import".
std::string ManualName(const std::string& command);

struct CompletionOptions {
  std::string shell;
};

struct ManualOptions {
  std::vector<std::string> command;  // "calibrate", "import"; empty: the program itself
  bool list = false;                 // print the names of all pages instead of one page
};

void AddCompletion(Command app, CompletionOptions& options);
void AddManual(Command app, ManualOptions& options);

// Errors: command.unknown-command.
Outcome PrintCompletion(const CompletionOptions& options);
Outcome PrintManual(const ManualOptions& options, const std::vector<CommandPage>& pages,
                    const std::string& version);

struct ScheduleOptions {
  std::optional<int> stages;
  std::optional<int> micro_batches;
  std::string schedule = "1f1b";
  std::optional<int> virtual_stages;  // chunks of layers a stage
  std::optional<int> group;           // micro-batches that run through a chunk before the next
  std::string csv;                    // actions that replace the settings above; empty: none
  int forward = 1, backward_input = 1, backward_weight = 1;  // durations of passes, in slots
  std::string print = "drawing";                             // or list, csv
  bool json = false;
  report::TerminalStyle style;
};

Outcome DrawSchedule(const ScheduleOptions& options);

void AddSchedule(Command app, ScheduleOptions& options);

// Options of commands that forecast many plans.

struct PlanOptions : study::PlanQuestion {
  report::CommandWords command;  // forecasts the step, for proposals
  std::string why_not;           // value of `why` or `why_layout`
  bool port = false;             // ports the scenario's plan to the topology `to`
  std::string to;
  std::optional<std::int64_t> to_nodes;  // number of nodes there
  std::string store;                     // a file that keeps bounds and forecasts; empty: none
  bool json = false;
  bool csv = false;
  std::string report;                     // HTML page to write; empty: none
  EmitOptions emit;                       // emits the best plan
  std::optional<double> fit_probability;  // of the best plan; below it the status is kMayNotFit
};

// Status kAnswerIsNo if no plan fits and meets the deadline. Status kWrongInput only for mistakes
// that every plan in the space would have, as with sweep. Under mpirun all ranks work, and rank 0
// decides, keeps the store and prints (hardware_commands.h).
Outcome Plan(const PlanOptions& options, const RunWork& run_work);

struct SweepOptions : study::SweepQuestion {
  std::string store;  // a file that keeps results; empty: none
  int threads = 0;    // per process; 0: one per usable core
  bool json = false;
  bool jsonl = false;
  bool csv = false;
  std::string report;  // HTML page to write; empty: none
};

// Status kWrongInput only for mistakes that every combination has: an unreadable file, a mistake
// that exists without --vary too, or an unknown key. Other illegal combinations are rows. Under
// mpirun all ranks work, and rank 0 keeps the store and prints (hardware_commands.h).
Outcome Sweep(const SweepOptions& options, const RunWork& run_work);

void AddSweep(Command app, ScenarioFiles& files, SweepOptions& options);
void AddPlan(Command app, ScenarioFiles& files, PlanOptions& options);

struct ListOptions {
  std::string what;  // models, topologies, gpus, frameworks, settings
  bool json = false;
};

// `stepcast list`: names for scenarios and for the command line.
Outcome List(const ListOptions& options);

// Completions of values by option type (completion.h): keys followed by an equals sign, and the
// shipped models and topologies.
std::map<std::string, std::vector<std::string>> NamesByType();

// Answers questions (formats/question.h) from stdin, one per line, on stdout in order, until stdin
// ends. Each answer is written as soon as it is ready. Unlike all other commands, this one prints
// directly.
Outcome Serve();

}  // namespace stepcast::cli
