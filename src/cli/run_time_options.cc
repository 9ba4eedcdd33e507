#include "src/cli/command_options.h"
#include "src/cli/option_parts.h"
#include "src/cli/outcome.h"
#include "src/cli/outputs.h"
#include "src/cli/progress.h"
#include "src/report/answers.h"

namespace stepcast::cli {
namespace {

constexpr const char* kRunTimeAbout =
    "Forecasts a whole run with its failures: how long it takes, what it costs, how much energy "
    "it\n"
    "needs, and which part of the time is training.";

constexpr const char* kRunTimeFooter =
    "Failures come at a constant rate: one for each node and one for the job as a whole. After a\n"
    "failure the job is restarted, loads its checkpoint, and does again what came behind it. The\n"
    "effective time is exact for this process, and so is the best interval between checkpoints.\n"
    "Without options the figures are those of published runs, and the range is that of these\n"
    "figures (docs/run-time.md).\n"
    "\n"
    "Other commands take the effective time as --availability.\n"
    "\n"
    "Example:\n"
    "  stepcast run-time scenarios/llama3-405b/scenario.yaml --tokens 15T --price '$2.5'\n"
    "  stepcast run-time scenarios/llama3-8b-fsdp/scenario.yaml --tokens 1T --checkpoint sync \\\n"
    "      --storage '20 GB/s' --checkpoint-interval '1 h'\n"
    "  stepcast run-time scenarios/llama3-405b/scenario.yaml --tokens 15T --spares 16 \\\n"
    "      --repair '2 d' --elastic\n"
    "\n";

void AddFailures(Command command, study::RunTimeQuestion& question) {
  const auto add = [&](const char* name, std::string& text, const char* type, const char* help) {
    return command.AddOption(name, text, help).Type(type);
  };
  add("--node-mtbf", question.node_mtbf, "TIME",
      "Mean time between failures of one node: '338 d', none (338 d for 8 GPUs)");
  add("--job-mtbf", question.job_mtbf, "TIME",
      "Mean time between failures of the job that no node causes: '11 h', none (9.3 h)");
  add("--restarts", question.restarts, "HOW",
      "Who notices a failure and restarts the job: automatic, or manual for people (automatic)")
      .OneOf({"automatic", "manual"});
  add("--detection", question.detection, "TIME",
      "From a failure until it is noticed (part of --restart; manual: 80 min)");
  add("--restart", question.restart, "TIME",
      "From there until the checkpoint is loaded: scheduling, start, compilation (10 min)");
  Option spares = command
                      .AddOption("--spares", question.spares,
                                 "Spare nodes; where they have run out the job waits for a repair "
                                 "(as many as needed)")
                      .Type("N")
                      .NotNegative();
  add("--repair", question.repair, "TIME", "How long a failed node is away").Needs(spares);
  command
      .AddFlag("--elastic", question.elastic, "Go on with fewer replicas where spares have run out")
      .Needs(spares);
}

void AddCheckpoints(Command command, study::RunTimeQuestion& question) {
  command
      .AddOption("--checkpoint", question.checkpoint,
                 "How checkpoints are saved: sync, or async beside the training (as the scenario "
                 "says, else async)")
      .Type("HOW")
      .OneOf({"sync", "async"});
  command
      .AddOption("--checkpoint-interval", question.checkpoint_interval,
                 "Time of training from one save to the next (as the scenario says, else the best)")
      .Type("TIME");
  command
      .AddOption("--checkpoint-cost", question.checkpoint_cost,
                 "How long a save holds the training up (by its bytes)")
      .Type("TIME");
  command
      .AddOption("--storage", question.storage,
                 "Bandwidth of the whole job to its storage (as the scenario says, else "
                 "1.2 GB/s a node, at most 57.5 GB/s)")
      .Type("BANDWIDTH");
}

}  // namespace

void AddRunTime(Command app, ScenarioFiles& files, RunTimeOptions& options) {
  Command command = app.Add("run-time", kRunTimeAbout, kRunTimeFooter);
  AddScenarioFiles(command, files, options.set);
  command.AddOption("--tokens", options.tokens, "How many tokens the run sees: 15T, 300B, 300e9")
      .Type("N")
      .Required();
  command.AddOption("--price", options.price, "What a GPU costs in an hour: 2.5, '$2.5'")
      .Type("MONEY");
  AddFailures(command, options);
  AddCheckpoints(command, options);
  command.AddOption("--pue", options.pue, "Power usage effectiveness of the data center (1.2)")
      .Type("X")
      .NotNegative();
  command
      .AddOption("--node-watts", options.node_watts,
                 "What a node draws beside its GPUs, in watts (0)")
      .Type("W")
      .NotNegative();
  command.AddFlag("--json", options.json, "Print one JSON document");
  AddReport(command, options.report);
}

Outcome RunTime(const RunTimeOptions& options) {
  const Stopwatch stopwatch;
  OptionalOutput page;
  if (auto failed = page.Create(options.report)) return *failed;
  const auto answer = study::AnswerRunTime(options);
  if (!answer) return WrongInput(answer.error());
  if (auto failed =
          page.Write([&] { return report::RunTimePage(answer->scenario, answer->run); })) {
    return *failed;
  }
  Outcome outcome;
  outcome.output = options.json
                       ? report::RunTimeJson(answer->scenario, answer->run, stopwatch.Seconds())
                       : report::Wrapped(report::RunTimeText(answer->scenario, answer->run));
  outcome.messages = Warnings(answer->scenario);
  return outcome;
}

}  // namespace stepcast::cli
