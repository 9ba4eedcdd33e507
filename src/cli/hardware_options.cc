#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/base/files.h"
#include "src/cli/collective_words.h"
#include "src/cli/command_options.h"
#include "src/cli/option_parts.h"
#include "src/cli/outcome.h"
#include "src/cli/outputs.h"
#include "src/formats/nccl_tests.h"
#include "src/report/accuracy.h"
#include "src/report/answers.h"
#include "src/report/table.h"
#include "src/validate/collectives.h"
#include "src/validate/published.h"

namespace stepcast::cli {
namespace {

// "h100" for "logs/h100.txt".

}  // namespace

Outcome CalibrateImport(const CalibrateImportOptions& options) {
  Diagnostics faults;
  formats::NcclTestsOptions import;
  if (!options.op.empty()) import.collective = ReadCollective("--op", options.op, faults);
  import.ranks = options.ranks;
  import.ranks_per_node = options.ranks_per_node;
  import.in_place = options.in_place;
  import.keep_noise = options.keep_noise;
  import.gpu = options.gpu;
  import.name = options.name.empty() ? std::filesystem::path(options.logs.front()).stem().string()
                                     : options.name;
  std::vector<formats::NcclTestsRun> runs;
  for (const std::string& log : options.logs) {
    const auto text = ReadTextFile(log, faults);
    if (!text) continue;
    auto found = formats::ParseNcclTests(*text, log);
    if (found) {
      std::move(found->begin(), found->end(), std::back_inserter(runs));
    } else {
      faults.insert(faults.end(), found.error().begin(), found.error().end());
    }
  }
  if (!faults.empty()) return WrongInput(faults);
  const auto imported = formats::ProfileOf(runs, import);
  if (!imported) return WrongInput(imported.error());
  Outcome outcome = PutText(options.output, report::CalibrationYaml(imported->profile));
  if (outcome.status == kDone) {
    for (const std::string& note : imported->notes) outcome.messages += "note: " + note + "\n";
  }
  return outcome;
}

// The optional section of a document that --update names: the text between the lines '<!-- NAME:
// begin -->' and '<!-- NAME: end -->'.
class DocumentSection {
 public:
  // Call this before the work, so that a document without the section is reported at once. An
  // outcome is a failure.
  std::optional<Outcome> Open(const std::string& path, const std::string& name);
  // Rewrites the section; the rest stays as it was when the document was opened. Calls `content`
  // only if a document is requested.
  std::optional<Outcome> Write(const std::function<std::string()>& content);

 private:
  std::string before_, after_;
  OptionalOutput file_;
};

std::optional<Outcome> DocumentSection::Open(const std::string& path, const std::string& name) {
  if (path.empty()) return std::nullopt;
  const std::string begin_line = fmt::format("<!-- {}: begin -->\n", name);
  const std::string end_line = fmt::format("<!-- {}: end -->\n", name);
  std::ifstream file(path, std::ios::binary);
  std::stringstream read;
  read << file.rdbuf();
  const std::string text = read.str();
  const std::size_t begin = text.find(begin_line);
  const std::size_t end = begin == std::string::npos ? begin : text.find(end_line, begin);
  if (!file || end == std::string::npos) {
    return WrongInput(
        {{file ? "command.no-section" : "file.not-found",
          {path, 0, 0},
          file ? fmt::format("the document has no section for {}", name) : "there is no such file",
          fmt::format("write the lines '<!-- {0}: begin -->' and '<!-- {0}: end "
                      "-->' where it is to stand",
                      name)}});
  }
  before_ = text.substr(0, begin + begin_line.size());
  after_ = text.substr(end);
  return file_.Create(path);
}

std::optional<Outcome> DocumentSection::Write(const std::function<std::string()>& content) {
  return file_.Write([&] { return before_ + content() + after_; });
}

Outcome ValidatePublished(const ValidatePublishedOptions& options) {
  OptionalOutput page;
  if (auto failed = page.Create(options.html)) return *failed;
  DocumentSection section;
  if (auto failed = section.Open(options.update, "published steps")) return *failed;
  const auto accuracy = validate::ComparePublished(options.source);
  if (!accuracy) return WrongInput(accuracy.error());
  if (auto failed = section.Write([&] { return report::PublishedAccuracyMarkdown(*accuracy); })) {
    return *failed;
  }
  if (auto failed = page.Write([&] { return report::PublishedAccuracyHtml(*accuracy); })) {
    return *failed;
  }
  Outcome outcome;
  outcome.status = accuracy->MeetsAims() ? kDone : kAnswerIsNo;
  outcome.output = options.json  ? report::PublishedAccuracyJson(*accuracy)
                   : options.csv ? report::PublishedAccuracyCsv(*accuracy)
                                 : report::Wrapped(report::PublishedAccuracyText(*accuracy));
  return outcome;
}

Outcome ValidateCollectives(const ValidateCollectivesOptions& options) {
  DocumentSection section;
  if (auto failed = section.Open(options.update, "collectives")) return *failed;
  const auto accuracy = validate::CompareCollectives();
  if (!accuracy) return WrongInput(accuracy.error());
  if (auto failed = section.Write([&] { return report::CollectiveAccuracyMarkdown(*accuracy); })) {
    return *failed;
  }
  Outcome outcome;
  outcome.status = accuracy->MeetsTargets() ? kDone : kAnswerIsNo;
  outcome.output = options.json  ? report::CollectiveAccuracyJson(*accuracy)
                   : options.csv ? report::CollectiveAccuracyCsv(*accuracy)
                                 : report::Wrapped(report::CollectiveAccuracyText(*accuracy));
  return outcome;
}

namespace {

constexpr const char* kExecuteAbout =
    "Runs the scenario's step program on hardware: allocates its buffers, submits its kernels,\n"
    "copies and collectives, and measures each of them on every rank. Parameters, gradients and\n"
    "optimizer states are real, so what runs is a training step; activations are stand-ins of the\n"
    "right size.";

constexpr const char* kExecuteFooter =
    "Without a launcher this process runs all ranks as threads. Under mpirun or srun (with PMI)\n"
    "each process is one rank, and there must be as many as the plan has devices.\n"
    "\n"
    "The step time is the median over the measured steps; what stands below it describes that\n"
    "step on the rank that finished it last. Without --barrier steps follow one another as in\n"
    "training, and one more runs before and after those that are measured.\n"
    "\n"
    "The host backend computes on CPUs, matrix products in FP32 by OpenBLAS, layers with given\n"
    "times as sleeps, and communicates by MPI or between threads. The cuda backend needs a\n"
    "stepcast that was built with --config=cuda.\n"
    "\n"
    "With --check gradients are small integers made from the bits of the parameters, and the\n"
    "parameters of all ranks must end as plain data parallelism leaves them, computed apart by a\n"
    "few loops: bit by bit where ranks times micro-batches is a power of two up to 64. For small\n"
    "models. Exits 1 when they do not.\n"
    "\n"
    "A rank that dies, hangs, fails or runs out of memory ends the whole run with status 1 and\n"
    "one sentence that names the rank, its host and the operation. Steps in such sentences count\n"
    "from 1, warm-up included.\n"
    "\n"
    "Example:\n"
    "  stepcast execute scenarios/zero-stages/scenario.yaml --backend cuda\n"
    "  mpirun -n 4 stepcast execute scenario.yaml --backend host --steps 20\n"
    "\n";

constexpr const char* kValidateAbout =
    "Forecasts a scenario and executes it: step time, where it goes, every kind of operation, and\n"
    "the memory at its peak side by side, with the largest differences named one by one.";

constexpr const char* kValidateFooter =
    "The forecast is the one that `stepcast simulate` prints; how the run is done and measured is\n"
    "said in `stepcast execute --help`. Differences are forecast minus measured, per cent are of\n"
    "what was measured. An operation's measured time is its median over the measured steps.\n"
    "\n"
    "`stepcast validate collectives` and `stepcast validate published` do the same with published\n"
    "measurements of collectives and of whole steps, and need no hardware: see their own --help.\n"
    "\n"
    "Exits 3 when the forecast step time is not within --within of the measured one.\n"
    "\n"
    "Example:\n"
    "  stepcast validate scenario.yaml --backend cuda --trace both.json\n"
    "  mpirun -n 4 stepcast validate scenario.yaml --backend host --within 8%\n"
    "\n";

constexpr const char* kCalibrateAbout =
    "Measures this machine or cluster and writes a calibration profile that forecasts use: "
    "kernels,\n"
    "copies and collectives as `stepcast execute` runs them, in step programs of their own.";

constexpr const char* kCalibrateFooter =
    "Example:\n"
    "  stepcast calibrate --backend cuda --quick\n"
    "  mpirun -n 4 stepcast calibrate --backend host --only collectives --output cluster.yaml\n"
    "  mpirun -n 64 stepcast calibrate --backend cuda --time 1h --groups 64,8\n"
    "  stepcast simulate scenario.yaml --set calibration=cluster.yaml\n"
    "\n"
    "Parts: launch, memory, gemm, attention, optimizer, copies, collectives, interference. All\n"
    "ranks that mpirun or srun started take part; without a launcher the ranks are\n"
    "threads of this process. Measure with as many ranks on as many nodes as will train: a table\n"
    "of collectives holds for its number of ranks and nodes. Everything is repeated until the\n"
    "median is known well enough.\n"
    "\n"
    "Time that kernels, copies and interference leave is for collectives. Each table begins with\n"
    "its smallest sizes, goes on with the largest that fits in its part of the time, and fills "
    "the\n"
    "gaps between them down to steps of sqrt(2) above 64 KiB; beyond the largest its bandwidth\n"
    "holds. A warning says which tables ended early: --time gives them more, --groups,\n"
    "--collectives and --to leave out what is not needed. Kernels are measured as with --quick\n"
    "when there are less than 10 minutes.\n"
    "\n"
    "With --resume FILE what was measured is kept in FILE, and taken from it when the same\n"
    "calibration is run again after an interruption.\n"
    "\n";

constexpr const char* kValidateCollectivesAbout =
    "Holds every published measurement of a collective that is in calibration/collectives against\n"
    "the forecast of the same machine, by source and size, points that were fitted apart from\n"
    "those that were held back.";

constexpr const char* kValidateCollectivesFooter =
    "Exits 3 when held-back points from 32 KiB to 16 GiB have a median error above 5 %, or more\n"
    "than a tenth of them one above 15 %, or NCCL is documented to choose another algorithm.\n"
    "\n"
    "Example:\n"
    "  stepcast validate collectives --update docs/accuracy/collectives.md\n"
    "  stepcast validate collectives --csv > points.csv\n"
    "\n";

constexpr const char* kValidatePublishedAbout =
    "Holds every published measurement of a training step that is in calibration/published "
    "against\n"
    "the forecast of the same run, by source, rows that may be fitted apart from those that check.";

constexpr const char* kValidatePublishedFooter =
    "The command is written in two words: stepcast validate published.\n"
    "\n"
    "Beside the errors stand those of the obvious rival: the MFU of the nearest row that may be\n"
    "fitted, with no simulation. Runs that cannot be simulated are counted by reason.\n"
    "\n"
    "Exits with 3 if check rows miss a target; a table shows which.\n"
    "\n"
    "Example:\n"
    "  stepcast validate published --update docs/accuracy/published-steps.md\n"
    "  stepcast validate published --source llm-foundry --csv > cases.csv\n"
    "  stepcast validate published --report accuracy.html\n"
    "\n";

constexpr const char* kCalibrateImportAbout =
    "Writes a calibration profile from what nccl-tests measured: its printed tables, of old and "
    "new\n"
    "releases, or the JSON that it writes with -J.";

constexpr const char* kCalibrateImportFooter =
    "One table for each collective, number of ranks and number of nodes; the time of a size is "
    "the\n"
    "mean over all logs and cycles that have it. A log with wrong results, failed or cut rows is\n"
    "refused. Everything but collectives comes from the profile of the GPU type when the file is\n"
    "used. Of the environment that the JSON records nothing is kept.\n"
    "\n"
    "Example:\n"
    "  mpirun -n 16 all_reduce_perf -b 1K -e 8G -f 2 | tee all_reduce.log\n"
    "  stepcast calibrate import all_reduce.log --output my-cluster.yaml\n"
    "  stepcast simulate scenario.yaml --set calibration=my-cluster.yaml\n"
    "\n";

void AddHardware(Command command, HardwareOptions& hardware) {
  AddScenario(command, hardware.scenario, hardware.set);
  constexpr int kMostSteps = 100'000;
  command.AddOption("--backend", hardware.backend, "What to run on: host or cuda")
      .Type("NAME")
      .Required();
  AddCount(command, "--steps", hardware.steps, 1, kMostSteps, "How many steps to measure (5)");
  AddCount(command, "--warmup", hardware.warmup, 0, kMostSteps, "How many steps to run before (2)");
  command.AddFlag("--barrier", hardware.barrier,
                  "Let every rank wait for all others between steps (training.step_barrier)");
  command.AddFlag("--graph", hardware.graph, "Capture the step once and replay it");
  command.AddFlag("--caching-pool", hardware.caching_pool,
                  "Buffers as PyTorch's caching allocator places them, not by cudaMallocAsync");
  command
      .AddOption("--timeout", hardware.timeout,
                 "End the run when no operation finishes for this long (60 s)")
      .Type("TIME");
}

Option AddUpdate(Command command, std::string& update) {
  return AddOutput(command, "--update", update,
                   "Also write the section of a document like docs/accuracy/collectives.md anew");
}

constexpr const char* kCalibrateRunsAbout =
    "Learns from training steps that were measured: what forecasts of such runs leave out, and\n"
    "which settings it goes with. Writes a calibration profile whose forecasts use it.";

constexpr const char* kCalibrateRunsFooter =
    "RUNS is a table with a line for each run (CSV), or a file of published steps (YAML). Columns\n"
    "are step_time (with a unit) or step_time_s, or tokens_per_s_per_gpu; settings by their keys,\n"
    "as --set takes them (training.micro_batch_size), or the short keys of published steps\n"
    "(nodes, micro_batch_size); scenario, if runs have different ones; and if you like name,\n"
    "allocated, reserved, driver (peaks of memory) and split: runs marked check are not learned\n"
    "from, and errors on them are printed.\n"
    "\n"
    "Every run is simulated. A forecast is then corrected by what runs like it took longer or\n"
    "shorter than forecast: the more alike, the more; far from all runs nothing changes. Each\n"
    "configuration is left out in turn to say how well the others predict it; a single one teaches\n"
    "one factor, which is printed with its range. Exit status 3: not\n"
    "better than the forecast without them, and nothing is written.\n"
    "\n"
    "Example:\n"
    "  stepcast calibrate runs runs.csv --scenario train.yaml --output mine.yaml\n"
    "  stepcast simulate train.yaml --set calibration=mine.yaml --set cluster.nodes=64\n"
    "  stepcast calibrate runs calibration/published/llm-foundry.yaml\n"
    "\n";

void AddCalibrateRuns(Command calibrate, CalibrateRunsOptions& options) {
  Command runs = calibrate.Add("runs", kCalibrateRunsAbout, kCalibrateRunsFooter);
  runs.AddOption("RUNS", options.runs, "The measured steps: CSV, or published steps (YAML)")
      .Required();
  runs.AddOption("--scenario", options.scenario, "What ran, where the table has no such column")
      .Type("SCENARIO");
  AddRepeated(runs, "--set", options.set, "KEY=VALUE",
              "Override a key of every run's scenario, as often as needed");
  runs.AddOption("--profile", options.profile,
                 "The profile to write anew, where runs have several (theirs)")
      .Type("PROFILE");
  AddOutput(runs, "--output", options.output, "Write the profile to FILE (none is written)");
  runs.AddFlag("--json", options.json, "Print one JSON document");
  AddColumns(runs);
}

constexpr const char* kCalibrateTraceAbout =
    "Learns from a traced training step how fast this machine's kernels, launches and collectives\n"
    "are. Writes a calibration profile whose forecasts use it, for other plans and more nodes.";

constexpr const char* kCalibrateTraceFooter =
    "TRACE is what PyTorch's profiler wrote (.json, .json.gz), or a folder with one for each rank\n"
    "(docs/traces.md says how to trace). The scenario is forecast, and its products, attention and\n"
    "memory-bound kernels are matched with the trace's by kind, collectives call by call. The\n"
    "profile is the scenario's with these rates, and says what it was learned from. The forecast\n"
    "with it is printed beside the traced step.\n"
    "\n"
    "Example:\n"
    "  stepcast calibrate trace rank0.pt.trace.json.gz --scenario train.yaml --output mine.yaml\n"
    "  stepcast simulate train.yaml --set calibration=mine.yaml --set cluster.nodes=64\n"
    "\n";

void AddCalibrateTrace(Command calibrate, CalibrateTraceOptions& options) {
  Command trace = calibrate.Add("trace", kCalibrateTraceAbout, kCalibrateTraceFooter);
  trace.AddOption("TRACE", options.traces, "A trace, or a folder with one for each rank")
      .Required();
  trace.AddOption("--scenario", options.scenario, "What ran").Type("SCENARIO").Required();
  AddRepeated(trace, "--set", options.set, "KEY=VALUE",
              "Override a key of the scenario, as often as needed");
  AddOutput(trace, "--output", options.output, "Write the profile to FILE (none is written)");
  trace.AddFlag("--json", options.json, "Print one JSON document");
}

void AddCalibrateImport(Command calibrate, CalibrateImportOptions& options) {
  Command import = calibrate.Add("import", kCalibrateImportAbout, kCalibrateImportFooter);
  import.AddOption("LOG", options.logs, "What nccl-tests printed, or wrote with -J").Required();
  import
      .AddOption("--op", options.op,
                 fmt::format("Which collective (as the logs tell): {}", CollectiveNames()))
      .Type("NAME");
  constexpr int kMost = 1'000'000;
  AddCount(import, "--ranks", options.ranks, 2, kMost,
           "How many ranks took part, where a log does not tell");
  AddCount(import, "--ranks-per-node", options.ranks_per_node, 1, kMost,
           "How many on a node (as the hosts in the logs have it)");
  import.AddFlag("--in-place", options.in_place, "Take the in-place times, not out-of-place");
  import.AddFlag("--keep-noise", options.keep_noise,
                 "Take the mean of times that fall with the size, in the place of an error");
  import
      .AddOption("--gpu", options.gpu, "The GPU type, topologies/gpus/NAME.yaml (as the logs tell)")
      .Type("NAME");
  import.AddOption("--name", options.name, "Name of the profile (that of the first log)")
      .Type("TEXT");
  AddOutput(import, options.output);
}

}  // namespace

void AddExecute(Command app, ExecuteOptions& options) {
  Command execute = app.Add("execute", kExecuteAbout, kExecuteFooter);
  AddHardware(execute, options.hardware);
  execute.AddFlag("--check", options.hardware.check,
                  "Compare the parameters with plain data parallelism, computed apart");
  execute.AddFlag("--json", options.json, "Print one JSON document");
  AddColumns(execute);
  AddOutput(execute, "--trace", options.trace,
            "Also write every rank's timeline as Chrome trace JSON");
  AddTraceFolder(execute, options.trace_dir);
}

void AddValidate(Command app, ValidateOptions& options) {
  Command validate = app.Add("validate", kValidateAbout, kValidateFooter);
  AddHardware(validate, options.hardware);
  validate
      .AddOption("--within", options.within,
                 "How far the step time may be off for exit status 0 (10%)")
      .Type("PERCENT");
  validate.AddFlag("--json", options.json, "Print one JSON document");
  AddColumns(validate);
  AddOutput(validate, "--trace", options.trace,
            "Also write forecast and measured timelines as one Chrome trace JSON");
  AddReport(validate, options.report);
}

void AddValidateCollectives(Command app, ValidateCollectivesOptions& options) {
  // An empty group name hides the hyphenated command from the overview.
  Command collectives =
      app.AddUnlisted(kValidateCollectives, kValidateCollectivesAbout, kValidateCollectivesFooter);
  Option collectives_json =
      collectives.AddFlag("--json", options.json, "Print one JSON document, every point in it");
  collectives.AddFlag("--csv", options.csv, "Print every point as CSV").Excludes(collectives_json);
  AddColumns(collectives);
  AddUpdate(collectives, options.update);
}

void AddValidatePublished(Command app, ValidatePublishedOptions& options) {
  Command command =
      app.AddUnlisted(kValidatePublished, kValidatePublishedAbout, kValidatePublishedFooter);
  Option source =
      command.AddOption("--source", options.source, "One source alone (all)").Type("NAME");
  Option json =
      command.AddFlag("--json", options.json, "Print one JSON document, every case in it");
  AddColumns(command);
  command.AddFlag("--csv", options.csv, "Print every case as CSV").Excludes(json);
  AddOutput(command, "--report,--html", options.html,
            "Also write a page with charts, which needs no other file");
  AddUpdate(command, options.update).Excludes(source);
}

void AddCalibrate(Command app, CalibrateOptions& options, CalibrateImportOptions& import_options,
                  CalibrateRunsOptions& runs_options, CalibrateTraceOptions& trace_options) {
  Command command = app.Add("calibrate", kCalibrateAbout, kCalibrateFooter);
  constexpr int kMostRanks = 4096;
  // Required, except by `import`, `runs` and `trace`; RunCommandLine checks this.
  command.AddOption("--backend", options.backend, "What to measure: host or cuda").Type("NAME");
  command.AddFlag("--quick", options.quick, "Coarser, less often repeated, under two minutes");
  command.AddOption("--time", options.time, "Measure for about so long (20 min; quick: 90 s)")
      .Type("TIME");
  const auto list = [&](const char* name, auto& values, const char* help, const char* type) {
    return command.AddOption(name, values, help).Type(type).Commas();
  };
  list("--only", options.only, "Measure these parts alone (all)", "PART,...");
  list("--types", options.types, "Data types of matrix products and attention (fp32,bf16)",
       "TYPE,...");
  list("--collectives", options.collectives, "Kinds of collectives (all; quick: all but broadcast)",
       "KIND,...");
  list("--groups", options.groups,
       "Collectives on groups of so many ranks alone (all ranks, and their divisors)", "N,...")
      .Between(2, kMostRanks);
  command.AddOption("--from", options.from, "Smallest size of collectives (1 KiB)").Type("BYTES");
  command.AddOption("--to", options.to, "Largest size of collectives (256 MiB; quick: 64 MiB)")
      .Type("BYTES");
  AddCount(command, "--ranks", options.ranks, 1, kMostRanks,
           "Ranks, as threads, where no launcher started any (one for each core or GPU)");
  command
      .AddOption("--gpu", options.gpu,
                 "The GPU type, topologies/gpus/NAME.yaml (as the device's name tells)")
      .Type("NAME");
  AddOutput(command, "--output", options.output, "The profile (HOST.yaml)");
  AddOutput(command, "--resume", options.resume,
            "Keep what was measured in FILE, and go on from it");
  command
      .AddOption("--timeout", options.timeout,
                 "End the run when no operation finishes for this long (120 s)")
      .Type("TIME");
  command.AddFlag("--json", options.json, "Print one JSON document");
  AddColumns(command);
  AddCalibrateImport(command, import_options);
  AddCalibrateRuns(command, runs_options);
  AddCalibrateTrace(command, trace_options);
}

}  // namespace stepcast::cli
