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
#include "src/report/table.h"
#include "src/report/timeline_text.h"
#include "src/study/comparison.h"
#include "src/study/plan_question.h"
#include "src/study/run_time_study.h"
#include "src/study/stage_memory.h"
#include "src/study/sweep_run.h"
#include "src/study/training_question.h"

namespace stepcast::cli {

// The options of commands that forecast one scenario, or two.

struct SimulateOptions {
  std::string scenario;
  std::vector<std::string> set;  // "KEY=VALUE"
  std::string network;           // "analytic", "flow", "message"; empty: as the scenario says
  bool json = false;
  std::string trace;      // file to write; empty: none
  int trace_steps = 1;    // that traces hold
  std::string trace_dir;  // folder for a trace that analysers of ranks read; empty: none
  std::optional<report::TerminalStyle> timeline;  // draw the step below the forecast
  std::string report;                             // HTML page to write; empty: none
  bool program = false;                           // print the step program instead of the forecast
  EmitOptions emit;
  study::TrainingQuestion training;
  std::optional<double> fit_probability;  // below it the status is kMayNotFit
};

Outcome Simulate(const SimulateOptions& options);

struct CompareOptions : study::ComparisonQuestion {
  std::string memory;  // what PyTorch says of a job's memory, in the place of B; empty: B
  std::vector<std::string> fail_if;  // guards (study/guard.h)
  bool json = false;
};

// Two plans; or the memory of one beside what was measured.
Outcome Compare(const CompareOptions& options);

struct CollectiveOptions {
  std::string scenario;
  std::vector<std::string> set;
  std::string op = "all_reduce";
  std::string from = "1 KiB";  // sizes double from here ...
  std::string to = "8 GiB";    // ... to here
  std::string group;           // of the plan; empty: ranks and nodes
  std::optional<int> ranks;    // default: all of the nodes
  std::optional<int> nodes;    // default: all of the cluster
  bool siblings = false;       // all groups like it at the same time
  std::string network;         // "analytic", "flow", "message"; empty: as the scenario says
  bool json = false;
  bool csv = false;
};

Outcome Collective(const CollectiveOptions& options);

struct ExplainOptions {
  std::string scenario;
  std::vector<std::string> set;
  std::string measured;  // "5.2 s"; empty: nothing was measured
  bool json = false;
  std::optional<double> fit_probability;  // below it the status is kMayNotFit
};

// `stepcast explain`: why the step takes as long as it does. Status 3 if it does not fit in memory.
Outcome Explain(const ExplainOptions& options);

struct MemoryOptions : study::MemoryQuestion {
  bool json = false;
  std::optional<double> fit_probability;  // below it the status is kMayNotFit
};

// The answer is no when the scenario's own stage does not fit; with `max_micro_batch`, when no
// micro-batch fits there.
Outcome Memory(const MemoryOptions& options);

struct RunTimeOptions : study::RunTimeQuestion {
  bool json = false;
  std::string report;  // HTML page to write; empty: none
};

// `stepcast run-time`: how long a whole run takes, with its failures.
Outcome RunTime(const RunTimeOptions& options);

// `timeline`, `no_timeline`: whether the step is drawn; neither: if stdout is a terminal.
void AddSimulate(Command app, ScenarioFiles& files, SimulateOptions& options, bool& timeline,
                 bool& no_timeline);
void AddMemory(Command app, ScenarioFiles& files, MemoryOptions& options);
void AddCompare(Command app, CompareOptions& options);
void AddExplain(Command app, ScenarioFiles& files, ExplainOptions& options);
void AddCollective(Command app, CollectiveOptions& options);
void AddRunTime(Command app, ScenarioFiles& files, RunTimeOptions& options);

struct CalibrateRunsOptions {
  std::string runs;      // a table, or published steps
  std::string scenario;  // of runs of a table that name none
  std::vector<std::string> set;
  std::string profile;  // which profile is written anew; empty: the one that all runs have
  std::string output;   // empty: none is written
  bool json = false;
};

// Learns from measured steps what forecasts leave out, says how well it predicts each run from the
// others, and writes a profile that forecasts use.
Outcome CalibrateRuns(const CalibrateRunsOptions& options);

// The options of commands that measure, or hold forecasts to what was measured.

struct CalibrateImportOptions {
  std::vector<std::string> logs;
  std::string op;                     // empty: as the logs tell
  std::optional<int> ranks;           // likewise
  std::optional<int> ranks_per_node;  // likewise
  bool in_place = false;
  bool keep_noise = false;  // times that fall with the size become means
  std::string gpu;          // the GPU type; empty: as the logs tell
  std::string name;         // empty: that of the first log
  std::string output;       // empty: stdout
};

// Writes a calibration profile whose tables are what nccl-tests measured.
Outcome CalibrateImport(const CalibrateImportOptions& options);

struct ImportAtlasOptions {
  std::string folder;  // of the tables (validate/kernel_tables.h)
  std::string gpu;     // one GPU type alone; empty: all that have a table and a profile
  std::string source;  // whose measurements; empty: the folder's name
  std::string output;  // a folder for the rates, GPU.yaml; empty: none are written
};

// Holds forecasts of kernels to tables of measured ones, and fits rates to the tables. The name is
// that of the command line, "calibrate import atlas".
inline constexpr const char* kImportAtlas = "calibrate-import-atlas";
Outcome ImportAtlas(const ImportAtlasOptions& options);
void AddImportAtlas(Command app, ImportAtlasOptions& options);

struct ValidatePublishedOptions {
  std::string source;  // one source alone; empty: all
  bool json = false;
  bool csv = false;
  std::string html;    // a page to write; empty: none
  std::string update;  // a document whose section is written anew; empty: none
};

// Published training steps against forecasts. The answer is no when check rows miss what is aimed
// at (validate/published.h).
Outcome ValidatePublished(const ValidatePublishedOptions& options);

struct ValidateCollectivesOptions {
  bool json = false;
  bool csv = false;
  std::string update;  // a document whose section is written anew; empty: none
};

// Published measurements of collectives against forecasts. The answer is no when held-back points
// miss what is aimed at (validate/collectives.h).
Outcome ValidateCollectives(const ValidateCollectivesOptions& options);

// What `validate collectives` and `validate published` are called inside.
inline constexpr const char* kValidateCollectives = "validate-collectives";
inline constexpr const char* kValidatePublished = "validate-published";

void AddExecute(Command app, ExecuteOptions& options);
void AddValidate(Command app, ValidateOptions& options);
void AddValidateCollectives(Command app, ValidateCollectivesOptions& options);
void AddValidatePublished(Command app, ValidatePublishedOptions& options);
// --backend is required, but not by `import` and `runs`: RunCommandLine sees to it.
void AddCalibrate(Command app, CalibrateOptions& options, CalibrateImportOptions& import_options,
                  CalibrateRunsOptions& runs_options);

// The options of commands about models and topologies.

struct TopologyImportOptions {
  std::string file;       // NCCL's XML, or what nvidia-smi topo -m printed
  std::string gpu;        // empty: as the file tells
  std::string nic_speed;  // empty: as the file tells
  std::string nics;       // names with commas between them, or "all"; empty: by rule
  std::string nvlink;     // "assume" or "none", where the file lists none; empty: refuse
  std::string name;       // empty: the file's
  std::string output;     // empty: stdout
};

// Writes a topology file; what the input did not tell is said on stderr, and in the file.
Outcome TopologyImport(const TopologyImportOptions& options);

struct TopologyShowOptions {
  std::string file;                   // topologies/*.yaml
  std::optional<std::int64_t> nodes;  // default: two with a fabric, else one
  bool dot = false;                   // Graphviz instead of text
  bool json = false;                  // one JSON document instead of text
  bool links = false;                 // what a collective puts on each link
  std::string op = "all_reduce";      // that collective
  std::string size = "1 GiB";         // and its size
};

Outcome TopologyShow(const TopologyShowOptions& options);

struct ModelImportOptions {
  std::string kineto;                // a trace of torch.profiler
  std::optional<std::int64_t> step;  // nothing: the one of median duration
  std::string model;                 // the one that was traced; empty: the trace has shapes
  std::string name;                  // empty: the file's
  std::string output;                // empty: stdout
};

// Writes a layer list; what the trace did not tell is said on stderr, and in the file.
Outcome ModelImport(const ModelImportOptions& options);

void AddModel(Command app, ModelImportOptions& options);
void AddTopology(Command app, TopologyShowOptions& options, TopologyImportOptions& import_options);

// The options of commands that print what other programs read of the pages of help.

// A command's page for man(1), section 1, in the macros of man(7): what its page of help says.
// `pages`: of all commands, the program's first.
std::string ManualPage(const CommandPage& page, const std::vector<CommandPage>& pages,
                       const std::string& version);

// "stepcast-calibrate-import" of "calibrate import".
std::string ManualName(const std::string& command);

struct CompletionOptions {
  std::string shell;
};

struct ManualOptions {
  std::vector<std::string> command;  // "calibrate", "import"; empty: the program itself
  bool list = false;                 // the names of all pages, instead of one
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
  std::optional<int> group;           // micro-batches that a chunk runs before the next one does
  std::string csv;                    // a file of actions in the place of these five; empty: none
  int forward = 1, backward_input = 1, backward_weight = 1;  // slots of a pass
  std::string print = "drawing";                             // or list, csv
  bool json = false;
  report::TerminalStyle style;
};

Outcome DrawSchedule(const ScheduleOptions& options);

void AddSchedule(Command app, ScheduleOptions& options);

// The options of commands that forecast many plans.

struct PlanOptions : study::PlanQuestion {
  std::string why_not;  // of `why` or `why_layout`, whichever it is
  bool port = false;    // carries the scenario's plan over to the topology `to`
  std::string to;
  std::optional<std::int64_t> to_nodes;  // how many nodes it has there
  std::string store;  // a file that keeps bounds and forecasts from run to run; empty: none
  bool json = false;
  bool csv = false;
  std::string report;                     // HTML page to write; empty: none
  EmitOptions emit;                       // the best plan
  std::optional<double> fit_probability;  // the best plan's; below it the status is kMayNotFit
};

// Exits with "the answer is no" when no plan fits and meets the deadline. Wrong input is what no
// plan cures, as with sweep. Under mpirun all ranks work, and rank 0 decides, keeps the store and
// has the output (hardware_commands.h).
Outcome Plan(const PlanOptions& options, const RunWork& run_work);

struct SweepOptions : study::SweepQuestion {
  std::string store;  // a file that keeps results from run to run; empty: none
  int threads = 0;    // of each process; 0: one for each core that it may use
  bool json = false;
  bool jsonl = false;
  bool csv = false;
  std::string report;  // HTML page to write; empty: none
};

// Wrong input is what no combination cures: a file that cannot be read, a mistake that is there
// without --vary too, a key that does not exist. Combinations that are illegal by themselves are
// rows. Under mpirun all ranks work, and rank 0 keeps the store and has the output
// (hardware_commands.h).
Outcome Sweep(const SweepOptions& options, const RunWork& run_work);

void AddSweep(Command app, SweepOptions& options);
void AddPlan(Command app, ScenarioFiles& files, PlanOptions& options);

struct ListOptions {
  std::string what;  // models, topologies, gpus, frameworks, settings
  bool json = false;
};

// `stepcast list`: what can be named in a scenario, and on the command line.
Outcome List(const ListOptions& options);

// What shells offer for values, by the type of the option (completion.h): keys with an equals sign
// behind them, and the models and topologies that come along.
std::map<std::string, std::vector<std::string>> NamesByType();

// Answers questions (formats/question.h) that come on stdin, a line each, on stdout, in their
// order, until stdin ends. Each is written as soon as it is known: this command alone prints by
// itself.
Outcome Serve();

}  // namespace stepcast::cli
