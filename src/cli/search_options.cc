#include "src/cli/search_options.h"

#include <string>

#include "src/cli/option_parts.h"

namespace stepcast::cli {
namespace {

constexpr int kMostThreads = 4096;

constexpr const char* kSweepAbout =
    "Forecasts every combination of the values given with --vary, on all cores. The first key\n"
    "varies slowest. A combination that cannot exist is a row with the reason, one that does\n"
    "not fit is a row with its figures.";

constexpr const char* kSweepFooter =
    "VALUES are a list, and each of its members a value or a range:\n"
    "  1 MiB,25 MiB         two values\n"
    "  1..64 x2             1, 2, 4, ... 64: each the one before times 2\n"
    "  5 MiB..100 MiB x2    5, 10, 20, 40 and 80 MiB\n"
    "  1..9 +2              1, 3, 5, 7, 9: each the one before plus 2\n"
    "  all                  every value of a key that has few: words, true and false\n"
    "  null                 the key's default, as if the scenario did not have it\n"
    "\n"
    "A value that no combination could have, such as a misspelled word, ends the command before\n"
    "it begins (exit status 2). Combinations that rules refuse are rows.\n"
    "\n"
    "With --store the results go into FILE as they come. After an interruption of any kind the\n"
    "same command goes on from there, and prints what it would have printed without one. A store\n"
    "that another program, other files or other options have made is refused; two processes "
    "cannot\n"
    "use one at the same time.\n"
    "\n"
    "Under mpirun, or srun with PMI, all ranks work; rank 0 hands out the combinations, keeps the\n"
    "store and prints. A rank that dies ends all of them.\n"
    "\n"
    "Example:\n"
    "  stepcast sweep scenarios/bucket-sweep/scenario.yaml \\\n"
    "      --vary 'data_parallel.bucket_size=1 MiB..512 MiB x2'\n"
    "  stepcast sweep scenarios/four-million-tokens/scenario.yaml \\\n"
    "      --vary 'cluster.nodes=8..64 x2' --vary training.activation_checkpointing=all \\\n"
    "      --report sweep.html\n"
    "  stepcast sweep scenarios/four-million-tokens/scenario.yaml \\\n"
    "      --vary 'cluster.nodes=8..64 x2' --tokens 15T --price '$2.5' --availability 0.9\n"
    "  mpirun -n 16 stepcast sweep scenario.yaml --vary ... --store sweep.sqlite --jsonl\n"
    "\n"
    "Where combinations use several numbers of GPUs, the best of each stands in a table of its\n"
    "own. --tokens, --deadline and --price say of each row how long the training takes and what\n"
    "it costs.\n"
    "\n"
    "Exits 0 whenever it printed its table, whatever the rows say.\n"
    "\n";

constexpr const char* kPlanAbout =
    "Searches the plans for a scenario's model, cluster and global batch: tensor, pipeline,\n"
    "context, expert and data parallelism, schedules, virtual stages, micro-batches,\n"
    "recomputation, ZeRO stages, and every setting of the frameworks that does something. What\n"
    "cannot be best is left out by bounds that are proved; what is left is simulated. The answer\n"
    "is the one that simulating all of them would give.";

constexpr const char* kPlanFooter =
    "Targets:\n"
    "  step_time   the shortest step; where --vary gives steps unequal numbers of tokens, the\n"
    "              least time for a token\n"
    "  throughput  the most tokens per second and GPU\n"
    "  gpus        the fewest GPUs that meet --deadline with --tokens\n"
    "  cost        the least money for a token, at --price for a GPU hour\n"
    "  memory      the lowest peak\n"
    "\n"
    "Prints the best plan of each framework and of what it divides, the best plans of all, the\n"
    "Pareto front of step time, memory and GPUs, what 10 % more of each resource or the\n"
    "neighbouring values of each setting would change, and the verdicts on the other plans.\n"
    "docs/planning.md lists the values that are tried and proves the bounds.\n"
    "\n"
    "With --port the scenario's plan keeps every setting that the rules allow on the cluster of\n"
    "--to. The answer says which settings had to change and why, forecasts the plan there and\n"
    "here, and says what it loses against the best plan of the search.\n"
    "\n"
    "--only names what is divided beside the batch. --vary replaces the values of a setting, or "
    "adds one (VALUES as for sweep); --fix keeps it "
    "as\n"
    "the scenario has it, or at its default. What a framework does not have is searched without,\n"
    "and said on stderr. Without --framework all are tried but reference, whose "
    "kernels\n"
    "cost nothing to start, and nanotron.\n"
    "\n"
    "Of plans that tie only the first is ranked, with the settings that make no difference:\n"
    "their steps take as long to within 0.05 %, and the others need no less memory "
    "to\n"
    "within 1 %.\n"
    "\n"
    "With --store bounds and forecasts go into FILE as they come. After an interruption of any "
    "kind\n"
    "the same command goes on from there; other goals, values and spaces use what is in it, too. "
    "A\n"
    "store that another program, other files or other --set options have made is refused. Under\n"
    "mpirun, or srun with PMI, all ranks work; rank 0 decides, keeps the store and prints.\n"
    "\n"
    "The scenario's own plan is simulated first, and is the row 'yours' of every table. A "
    "scenario\n"
    "needs a model, a cluster, a sequence length and a global batch; the rest is assumed and "
    "listed.\n"
    "\n"
    "Exits 3 when no plan fits and meets the deadline; those that come nearest are printed. "
    "Ctrl-C\n"
    "prints the best plan so far and exits 130.\n"
    "\n"
    "Example:\n"
    "  stepcast plan scenarios/llama3-8b-fsdp/scenario.yaml\n"
    "  stepcast plan scenarios/llama3-8b-fsdp/scenario.yaml --only data,tensor --target memory\n"
    "  stepcast plan --port scenarios/llama3-8b-fsdp/scenario.yaml --to dgx-a100 --only data\n"
    "  stepcast plan scenarios/llama3-8b-fsdp/scenario.yaml --within 10s --why tensor=8\n"
    "  stepcast plan scenarios/llama3-8b-fsdp/scenario.yaml --target gpus --deadline '40 d' \\\n"
    "      --tokens 1T --fix training.activation_checkpointing --why 10\n"
    "\n";

}  // namespace

void AddSweep(Command app, SweepOptions& options) {
  Command sweep = app.Add("sweep", kSweepAbout, kSweepFooter);
  AddScenario(sweep, options.scenario, options.set);
  AddRepeated(sweep, "--vary", options.vary, "KEY=VALUES",
              "A key and its values, as often as needed; at most 10^6 combinations");
  AddOutput(sweep, "--store", options.store,
            "Keep results in FILE as they come; the same command goes on from there");
  AddCount(sweep, "--threads", options.threads, 1, kMostThreads,
           "How many threads forecast (one for each core)");
  Option json = AddJsonAndCsv(sweep, options.json, options.csv);
  sweep.AddFlag("--jsonl", options.jsonl, "Print a JSON document for each row, a line each")
      .Excludes(json)
      .Excludes(sweep.At("--csv"));
  AddTraining(sweep, options.training);
  AddReport(sweep, options.report);
}

void AddPlan(Command app, ScenarioFiles& files, PlanOptions& plan) {
  Command command = app.Add("plan", kPlanAbout, kPlanFooter);
  AddScenarioFiles(command, files, plan.set);
  command.AddOption("--target", plan.target, "What the best plan has (step_time)").Type("NAME");
  command
      .AddOption("--framework", plan.framework,
                 "Frameworks to choose from (all, but reference and nanotron)")
      .Type("NAME,...");
  command
      .AddOption("--only", plan.only,
                 "What is divided, of data, tensor, pipeline, context, expert (all)")
      .Type("KIND,...");
  AddRepeated(command, "--vary", plan.vary, "KEY=VALUES",
              "The values of a setting to choose from, as often as needed");
  AddRepeated(command, "--fix", plan.fix, "KEY", "A setting that stays as the scenario has it");
  command.AddFlag("--fewer-nodes", plan.fewer_nodes,
                  "Try parts of a node, and powers of two of nodes (target gpus always does)");
  AddTraining(command, plan.training);
  command
      .AddOption(
          "--headroom", plan.headroom,
          "Memory that must stay free on each device, beside what the plan needs (the error of "
          "the forecast's memory, see docs/uncertainty.md): '4 GiB', '5%', 0")
      .Type("SIZE|PERCENT");
  Option port = command.AddFlag("--port", plan.port,
                                "Carry SCENARIO's own plan over to the cluster of --to, too");
  Option to = command
                  .AddOption("--to", plan.to,
                             "With --port: the topology, a file or a name (stepcast list "
                             "topologies)")
                  .Type("TOPOLOGY")
                  .Needs(port);
  port.Needs(to);
  command
      .AddOption("--to-nodes", plan.to_nodes,
                 "How many nodes it has there (as many as have no more GPUs than the plan)")
      .Type("N")
      .Needs(port);
  constexpr int kMostRows = 1000;
  AddCount(command, "--best", plan.best, 1, kMostRows,
           "How many plans to rank and prove (5; of more than 20,000 only the first is proved)");
  command.AddFlag("--front", plan.front,
                  "Find the Pareto front among more than 20,000 plans, too: most of the time");
  command.AddFlag("--no-front", plan.no_front, "Leave out the Pareto front");
  command
      .AddOption("--why", plan.why_not,
                 "Name so many runners-up, or say where a layout stands (tensor=8,pipeline=16), "
                 "with the reason of each")
      .Type("N|LAYOUT");
  command
      .AddOption("--within", plan.within,
                 "End with what was found after TIME (10s), and say what is not proved")
      .Type("TIME");
  command.AddFlag("--sensitivity", plan.sensitivity,
                  "Find what would change the best of more than 20,000 plans, too");
  command.AddFlag("--no-sensitivity", plan.no_sensitivity,
                  "Leave out what more of each resource or another setting would change");
  AddOutput(command, "--store", plan.store,
            "Keep bounds and forecasts in FILE, and go on from those that are there");
  AddCount(command, "--threads", plan.threads, 1, kMostThreads,
           "How many threads each process uses (one for each core)");
  AddJsonAndCsv(command, plan.json, plan.csv);
  AddReport(command, plan.report);
  AddFitProbability(command, plan.fit_probability);
  AddEmit(command, plan.emit);
}

}  // namespace stepcast::cli
