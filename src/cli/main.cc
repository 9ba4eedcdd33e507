#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "src/base/collective_kind.h"
#include "src/base/diagnostic.h"
#include "src/cli/calibrate_command.h"
#include "src/cli/calibrate_import_command.h"
#include "src/cli/collective_command.h"
#include "src/cli/compare_command.h"
#include "src/cli/emit_plan.h"
#include "src/cli/execute_command.h"
#include "src/cli/explain_command.h"
#include "src/cli/kept_note.h"
#include "src/cli/memory_command.h"
#include "src/cli/model_import_command.h"
#include "src/cli/outcome.h"
#include "src/cli/output_paths.h"
#include "src/cli/plan_command.h"
#include "src/cli/progress_line.h"
#include "src/cli/simulate_command.h"
#include "src/cli/sweep_command.h"
#include "src/cli/terminal.h"
#include "src/cli/topology_command.h"
#include "src/cli/topology_import_command.h"
#include "src/cli/validate_collectives_command.h"
#include "src/cli/validate_command.h"
#include "src/cli/validate_published_command.h"
#include "src/report/output_file.h"
#include "src/runtime/watch.h"

namespace stepcast::cli {
namespace {

constexpr const char* kVersion = "stepcast 0.1.0";

constexpr const char* kAbout =
    "Forecasts one step of distributed training: how long it takes, where the time goes, and\n"
    "whether it fits in memory. A scenario file names a model, a cluster and a plan.";

constexpr const char* kExitStatus =
    "Exit status:\n"
    "  0  done\n"
    "  1  failed (a file cannot be written, a rank died, a bug)\n"
    "  2  the input or the command line is wrong: see stderr; nothing is on stdout\n"
    "  3  done, and the answer is no: it does not fit in memory, the forecast is too far off\n";

constexpr const char* kMainFooter =
    "Example:\n"
    "  stepcast simulate scenarios/llama3-8b-fsdp/scenario.yaml\n"
    "  stepcast simulate scenarios/llama3-8b-fsdp/scenario.yaml --set cluster.nodes=4 \\\n"
    "      --set parallelism.data=32\n"
    "\n"
    "Paths are looked up as they are, beside the file that names them, and in the data that\n"
    "stepcast was built with (models/, topologies/, calibration/, scenarios/), or in\n"
    "$STEPCAST_DATA. Each command has its own page: stepcast COMMAND --help\n"
    "\n";

constexpr const char* kSimulateAbout =
    "Forecasts one training step: its time in the steady state, what computes and what waits in\n"
    "it, every collective, and the memory of the fullest rank.";

constexpr const char* kSimulateFooter =
    "Example:\n"
    "  stepcast simulate scenarios/gpt2-ddp/scenario.yaml\n"
    "  stepcast simulate scenarios/gpt2-ddp/scenario.yaml --set training.micro_batch_size=1\n"
    "  stepcast simulate scenarios/gpt2-ddp/scenario.yaml --trace step.json\n"
    "  stepcast simulate scenarios/gpt2-ddp/scenario.yaml --report step.html\n"
    "  stepcast simulate scenarios/gpt2-ddp/scenario.yaml --network flow\n"
    "  stepcast simulate scenarios/gpt2-ddp/scenario.yaml --emit gpt2-plan\n"
    "\n"
    "--emit writes what others need to run the plan (docs/plans.md): plan.json, which every\n"
    "command takes in the place of a scenario; DeepSpeed's JSON, a Python module for DDP or FSDP,\n"
    "torchtitan's or Megatron-LM's arguments, whichever the framework is; launch.sh (torchrun) "
    "and\n"
    "job.sbatch (Slurm). All files appear together or none does.\n"
    "\n"
    "--network, or cluster.network in the scenario, says how collectives are followed:\n"
    "  analytic  each by itself, in closed form, on one rank that stands for all\n"
    "  flow      on every rank; collectives that meet on links share them\n"
    "  message   on every rank, every message of every collective\n"
    "All take the same times where nothing contends; the last two see spines that are too narrow\n"
    "and groups that are in each other's way.\n"
    "\n"
    "Open a trace at https://ui.perfetto.dev: one track per stream, arrows where a stream waits\n"
    "for another, counters of memory by category. --trace-dir writes it as rank-N.json of the "
    "rank\n"
    "that the timeline is of, which Holistic Trace Analysis reads.\n"
    "\n"
    "A report is one page for a browser: where the time goes, the timeline with zoom, memory over "
    "the\n"
    "step. On a terminal the step is also drawn below the forecast, without colours where NO_COLOR "
    "is\n"
    "set.\n"
    "\n";

constexpr const char* kMemoryAbout =
    "The memory of one rank at each ZeRO stage, by category: the textbook formula beside the\n"
    "peak of the simulated step. A stage that the framework does not have shows the formula\n"
    "alone and the reason.";

constexpr const char* kMemoryFooter =
    "--max-micro-batch finds the largest micro-batch of each stage, with the scenario's number of\n"
    "micro-batches, what it leaves free, and what one sequence more would lack. It is exact: "
    "larger\n"
    "ones need more than there is.\n"
    "\n"
    "Exits 3 when the scenario does not fit; with --max-micro-batch, when not even one sequence\n"
    "does at the scenario's stage.\n"
    "\n"
    "Example:\n"
    "  stepcast memory scenarios/gpt2-ddp/scenario.yaml --max-micro-batch\n"
    "  stepcast memory scenarios/zero-stages/scenario.yaml\n"
    "\n";

constexpr const char* kCompareAbout =
    "Puts two plans side by side: which settings differ, and where the difference in time and in\n"
    "memory lies, by phase, by collective, by category.";

constexpr const char* kCompareFooter =
    "A and B are scenarios, or plan.json files that --emit wrote. Without B both are A: then\n"
    "--set-a and --set-b make them differ. Differences are B less A, per cent are of A.\n"
    "\n"
    "Exits 3 when one of the two does not fit.\n"
    "\n"
    "Example:\n"
    "  stepcast compare scenarios/gpt2-ddp/scenario.yaml --set-b training.micro_batch_size=8\n"
    "  stepcast compare plan-a/plan.json plan-b/plan.json --json\n"
    "\n";

constexpr const char* kExplainAbout =
    "Says why a step takes as long as it does: what its critical path consists of, which\n"
    "communication is exposed and how fast links would have to be to hide it, what each resource\n"
    "would bring if it were faster, and what is in memory at the peak.";

constexpr const char* kExplainFooter =
    "The critical path is the chain of operations that each waited for the one before; only "
    "making\n"
    "something on it shorter can make the step shorter. The part of an operation that passes "
    "before\n"
    "it uses any bandwidth is bound by latency. Steps at other speeds are simulated anew.\n"
    "\n"
    "Example:\n"
    "  stepcast explain scenarios/llama3-8b-fsdp/scenario.yaml\n"
    "  stepcast explain scenarios/gpt2-ddp/scenario.yaml --set cluster.nodes=4 \\\n"
    "      --set parallelism.data=32\n"
    "\n";

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
    "  mpirun -n 16 stepcast sweep scenario.yaml --vary ... --store sweep.sqlite --jsonl\n"
    "\n"
    "Exits 0 whenever it printed its table, whatever the rows say.\n"
    "\n";

constexpr const char* kPlanAbout =
    "Searches the plans for a scenario's model, cluster and global batch: micro-batch,\n"
    "recomputation, ZeRO stage, and every setting of the frameworks that does something. What\n"
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
    "Prints the best plans, the Pareto front of step time, memory and GPUs, what 10 % more of\n"
    "each resource or one step along each setting would change, and what became of all the\n"
    "others. docs/planning.md lists the values that are tried and how the bounds are proved.\n"
    "\n"
    "--vary replaces the values of a setting, or adds one (VALUES as for sweep); --fix keeps it "
    "as\n"
    "the scenario has it, or at its default. What a framework does not have is searched without,\n"
    "and said on stderr. --framework all is all but reference, whose kernels "
    "cost nothing to "
    "start,\n"
    "and internevo.\n"
    "\n"
    "Of plans that are as good as one before them only that one is ranked, with the settings that\n"
    "make no difference: their steps take as long to within 0.05 %, and they need no less memory "
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
    "Exits 3 when no plan fits and meets the deadline; those that come nearest are printed.\n"
    "\n"
    "Example:\n"
    "  stepcast plan scenarios/llama3-8b-fsdp/scenario.yaml\n"
    "  stepcast plan scenarios/llama3-8b-fsdp/scenario.yaml --framework all --target memory\n"
    "  stepcast plan scenarios/llama3-8b-fsdp/scenario.yaml --target gpus --deadline '40 d' \\\n"
    "      --tokens 1e12 --fix training.activation_checkpointing --why 10\n"
    "\n";

constexpr const char* kCollectiveAbout =
    "Forecasts one collective alone on the scenario's cluster over a range of sizes: the table "
    "that\n"
    "nccl-tests would print there, with the algorithm and where the figure comes from.";

constexpr const char* kCollectiveFooter =
    "Sizes double from first to last. Size and bandwidths are those of nccl-tests: size is the\n"
    "buffer of a rank for all_reduce, broadcast, reduce and send_recv, and the parts of all ranks\n"
    "together for the others, which are dealt out in whole units (a size of 0 is too small to "
    "be);\n"
    "algbw is size over time; busbw is algbw times 2 (N - 1) / N for all_reduce, times (N - 1) / "
    "N\n"
    "for those with parts, and algbw itself for the rest. Times are those of the collective "
    "alone,\n"
    "without any framework.\n"
    "\n"
    "Without --group, --ranks and --nodes all ranks of the cluster take part. With --ranks and\n"
    "--nodes the first GPUs of the first nodes do, as many on each.\n"
    "\n"
    "--network flow and message put it on the cluster's links: cluster.slow_links and spines that\n"
    "are too narrow then show.\n"
    "\n"
    "Example:\n"
    "  stepcast collective scenarios/llama3-8b-fsdp/scenario.yaml --op all_gather --to 1GiB\n"
    "  stepcast collective scenarios/llama3-8b-fsdp/scenario.yaml --ranks 8 --nodes 1 --csv\n"
    "\n";

constexpr const char* kExecuteAbout =
    "Runs the scenario's step program on hardware: allocates its buffers, submits its kernels,\n"
    "copies and collectives, and measures each of them on every rank. Parameters, gradients and\n"
    "optimizer states are real, so what runs is a training step; activations are stand-ins of the\n"
    "right size.";

constexpr const char* kExecuteFooter =
    "Without a launcher this process runs all ranks as threads. Under mpirun, srun (with PMI) or\n"
    "torchrun each process is one rank, and there must be as many as the plan has devices.\n"
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
    "ranks that mpirun, srun or torchrun started take part; without a launcher the ranks are\n"
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
    "  stepcast validate collectives --update docs/accuracy.md\n"
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
    "Exits 3 when check rows miss what is aimed at; the table says which.\n"
    "\n"
    "Example:\n"
    "  stepcast validate published --update docs/accuracy.md\n"
    "  stepcast validate published --source llm-foundry --csv > cases.csv\n"
    "  stepcast validate published --report accuracy.html\n"
    "\n";

// What `validate collectives` and `validate published` are called inside.
constexpr const char* kValidateCollectives = "validate-collectives";
constexpr const char* kValidatePublished = "validate-published";

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

constexpr const char* kModelAbout = "Writes model files from what other tools measured.";

constexpr const char* kModelImportAbout =
    "Writes a model file, a list of layers with their times, from one traced training step of one\n"
    "rank: what torch.profiler's export_chrome_trace wrote, plain or compressed.";

constexpr const char* kModelImportFooter =
    "Layers, the sizes of their gradients and the order in which these become ready come from\n"
    "autograd's events; times are those of the slower of host and device, without communication,\n"
    "which a forecast adds: for other numbers of ranks, bucket sizes and networks. The traced\n"
    "collectives are listed in the file.\n"
    "\n"
    "Trace with CPU and CUDA activities, record_shapes=True, a schedule and step(), see\n"
    "docs/traces.md. Of the steps traced the one of median duration is taken.\n"
    "\n"
    "Example:\n"
    "  stepcast model import --kineto rank0.json.gz --output my-model.yaml\n"
    "  stepcast simulate scenario.yaml --set model=my-model.yaml --set cluster.nodes=16\n"
    "\n";

constexpr const char* kTopologyAbout =
    "Shows what a topology file describes, or writes one from what other tools say of a machine.";

constexpr const char* kTopologyShowAbout =
    "Draws a topology: the devices of a node, the fabric, and every kind of link with its latency\n"
    "and its bandwidth in one direction.";

constexpr const char* kTopologyShowFooter =
    "Example:\n"
    "  stepcast topology show topologies/dgx-h100.yaml\n"
    "  stepcast topology show topologies/dgx-h100.yaml --nodes 4 --dot | dot -Tsvg > h100.svg\n"
    "  stepcast topology show topologies/dgx-h100.yaml --nodes 64 --links --op all_gather\n"
    "\n";

constexpr const char* kTopologyImportAbout =
    "Writes a topology file from what NCCL or nvidia-smi says of a machine: the XML that a job "
    "with\n"
    "NCCL_TOPO_DUMP_FILE=node.xml writes, or what `nvidia-smi topo -m` prints.";

constexpr const char* kTopologyImportFooter =
    "NCCL's XML is the better one: it has NVLinks one by one, the speed of PCIe and of NICs, and\n"
    "mostly the GPU type. nvidia-smi tells which devices are near each other and no speeds, so it\n"
    "needs --gpu, and --nic-speed where there are NICs. Neither tells latencies or what joins\n"
    "nodes; every such figure that is not from the input is named on stderr and in the file, to "
    "be\n"
    "corrected there.\n"
    "\n"
    "Example:\n"
    "  stepcast topology import node.xml --output my-node.yaml\n"
    "  nvidia-smi topo -m > matrix.txt\n"
    "  stepcast topology import matrix.txt --gpu h100-sxm --nic-speed 400Gbps > my-node.yaml\n"
    "\n";

// An empty name is a script's variable that was not set; without this it would mean no file.
CLI::Validator NamesAFile() {
  return {[](const std::string& name) {
            return name.empty() ? std::string("the name of a file is due: ''") : std::string();
          },
          ""};
}

// An option that also writes a page for people to look at.
CLI::Option* AddReport(CLI::App& command, std::string& report) {
  return command
      .add_option("--report", report, "Also write a page with charts, which needs no other file")
      ->type_name("FILE")
      ->check(NamesAFile());
}

// An option that also writes a folder of traces, one of each rank that has a timeline.
CLI::Option* AddTraceFolder(CLI::App& command, std::string& folder) {
  return command
      .add_option("--trace-dir", folder,
                  "Also write traces by rank into a folder, for Holistic Trace Analysis")
      ->type_name("FOLDER")
      ->check(NamesAFile());
}

// What the command line asks for, filled by the parser.
struct Request {
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
  CollectiveOptions collective;
  ExecuteOptions execute;
  ValidateOptions validate;
  ValidateCollectivesOptions validate_collectives;
  ValidatePublishedOptions validate_published;
  TopologyShowOptions topology_show;
  TopologyImportOptions topology_import;
};

// What the user writes: commands of two words that have a page of their own, such as `validate
// collectives`, are one word with a hyphen inside, and in no group.
std::string NameOf(const CLI::App& command) {
  std::string name = command.get_name();
  if (command.get_group().empty()) std::replace(name.begin(), name.end(), '-', ' ');
  return name;
}

// CLI11's page without what it says twice: types of positionals, what excludes what, and whole
// descriptions in the list of commands.
class HelpPage : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    name.erase(name.find_last_not_of(' ') + 1);
    if (name.ends_with(app->get_name())) {
      name.replace(name.size() - app->get_name().size(), std::string::npos, NameOf(*app));
    }
    std::string usage = "\nUsage: " + name;
    if (!app->get_subcommands(nullptr).empty()) {
      return usage + (app->get_require_subcommand_min() > 0 ? " COMMAND ...\n"
                                                            : " [COMMAND ...] [OPTIONS]\n");
    }
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_positional()) usage += " " + option->get_name(true);
    }
    return usage + " [OPTIONS]\n";
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_positional() || option->get_type_name().empty()) return "";
    return " " + option->get_type_name();
  }
  std::string make_subcommand(const CLI::App* command) const override {
    const std::string& text = command->get_description();
    std::string line = text.substr(0, text.find_first_of(".:"));
    std::replace(line.begin(), line.end(), '\n', ' ');
    return fmt::format("  {:<{}}{}\n", command->get_name(), get_column_width() - 2, line);
  }
};

std::string CollectiveNames() {
  std::vector<std::string_view> names;
  for (const CollectiveKind kind : kCollectiveKinds) names.push_back(Name(kind));
  return fmt::format("{}", fmt::join(names, ", "));
}

void AddScenario(CLI::App& command, std::string& scenario, std::vector<std::string>& set) {
  command.add_option("SCENARIO", scenario, "Scenario file (YAML; docs/formats.md)")->required();
  command
      .add_option("--set", set,
                  "Override a key of the scenario by its dotted path, as often as needed")
      ->type_name("KEY=VALUE")
      ->type_size(1)
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
}

void AddCompare(CLI::App& app, CompareOptions& options) {
  CLI::App& command = *app.add_subcommand("compare", kCompareAbout)->group("Commands");
  command.add_option("A", options.a, "Scenario or plan.json")->required();
  command.add_option("B", options.b, "Another (the same)");
  const auto set = [&](const char* name, std::vector<std::string>& values, const char* help) {
    command.add_option(name, values, help)
        ->type_name("KEY=VALUE")
        ->type_size(1)
        ->expected(1)
        ->allow_extra_args(false)
        ->take_all();
  };
  set("--set", options.set, "Override a key of both, as often as needed");
  set("--set-a", options.set_a, "Override a key of A");
  set("--set-b", options.set_b, "Override a key of B");
  command.add_flag("--json", options.json, "Print one JSON document");
  command.footer(std::string(kCompareFooter) + kExitStatus);
}

void AddEmit(CLI::App& command, EmitOptions& options) {
  CLI::Option* folder =
      command
          .add_option("--emit", options.folder,
                      "Also write the plan into DIR: plan.json, files of the framework, scripts")
          ->type_name("DIR")
          ->check(NamesAFile());
  command.add_flag("--force", options.force, "Replace the plan that DIR holds")->needs(folder);
}

void AddPlan(CLI::App& app, PlanOptions& plan) {
  CLI::App& command = *app.add_subcommand("plan", kPlanAbout)->group("Commands");
  AddScenario(command, plan.scenario, plan.set);
  command.add_option("--target", plan.target, "What the best plan has (step_time)")
      ->type_name("NAME");
  command
      .add_option("--framework", plan.framework,
                  "Frameworks to choose from (the scenario's), or all")
      ->type_name("NAME,...");
  command
      .add_option("--vary", plan.vary, "The values of a setting to choose from, as often as needed")
      ->type_name("KEY=VALUES")
      ->type_size(1)
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  command.add_option("--fix", plan.fix, "A setting that stays as the scenario has it")
      ->type_name("KEY")
      ->type_size(1)
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  command.add_flag("--fewer-nodes", plan.fewer_nodes,
                   "Try powers of two of nodes, up to the cluster's (target gpus always does)");
  command
      .add_option("--deadline", plan.deadline,
                  "How long the training may take, up to 100 d: '30 d', '12 h'")
      ->type_name("TIME");
  command.add_option("--tokens", plan.tokens, "How many tokens the training sees: 300e9")
      ->type_name("N");
  command.add_option("--price", plan.price, "What a GPU costs in an hour, in any currency")
      ->type_name("MONEY");
  command
      .add_option("--headroom", plan.headroom,
                  "Memory that must stay free on each device, beside what the plan needs (none): "
                  "'4 GiB', '5%'")
      ->type_name("SIZE|PERCENT");
  constexpr int kMostRows = 1000;
  command.add_option("--best", plan.best, "How many plans to rank (5)")
      ->type_name("N")
      ->check(CLI::Range(1, kMostRows));
  command.add_flag("--no-front", plan.no_front,
                   "Leave out the Pareto front, which takes most of the time");
  command.add_option("--why", plan.why, "Name so many of the nearest losers, and why they lost")
      ->type_name("N")
      ->check(CLI::Range(1, kMostRows));
  command
      .add_option("--store", plan.store,
                  "Keep bounds and forecasts in FILE, and go on from those that are there")
      ->type_name("FILE")
      ->check(NamesAFile());
  constexpr int kMostThreads = 1024;
  command
      .add_option("--threads", plan.threads,
                  "How many threads each process uses (one for each core)")
      ->type_name("N")
      ->check(CLI::Range(1, kMostThreads));
  CLI::Option* json = command.add_flag("--json", plan.json, "Print one JSON document");
  command.add_flag("--csv", plan.csv, "Print CSV (RFC 4180)")->excludes(json);
  AddReport(command, plan.report);
  AddEmit(command, plan.emit);
  command.footer(std::string(kPlanFooter) + kExitStatus);
}

void AddHardware(CLI::App& command, HardwareOptions& hardware) {
  AddScenario(command, hardware.scenario, hardware.set);
  constexpr int kMostSteps = 100'000;
  command.add_option("--backend", hardware.backend, "What to run on: host or cuda")
      ->type_name("NAME")
      ->required();
  command.add_option("--steps", hardware.steps, "How many steps to measure (5)")
      ->type_name("N")
      ->check(CLI::Range(1, kMostSteps));
  command.add_option("--warmup", hardware.warmup, "How many steps to run before (2)")
      ->type_name("N")
      ->check(CLI::Range(0, kMostSteps));
  command.add_flag("--barrier", hardware.barrier,
                   "Let every rank wait for all others between steps (training.step_barrier)");
  command.add_flag("--graph", hardware.graph, "Capture the step once and replay it");
  command
      .add_option("--timeout", hardware.timeout,
                  "End the run when no operation finishes for this long (60 s)")
      ->type_name("TIME");
}

// `validate published`, likewise out of the overview.
void AddValidatePublished(CLI::App& app, ValidatePublishedOptions& options) {
  CLI::App& command = *app.add_subcommand(kValidatePublished, kValidatePublishedAbout)->group("");
  CLI::Option* source =
      command.add_option("--source", options.source, "One source alone (all)")->type_name("NAME");
  CLI::Option* json =
      command.add_flag("--json", options.json, "Print one JSON document, every case in it");
  command.add_flag("--csv", options.csv, "Print every case as CSV")->excludes(json);
  command
      .add_option("--report,--html", options.html,
                  "Also write a page with charts, which needs no other file")
      ->type_name("FILE");
  command
      .add_option("--update", options.update,
                  "Also write the section of a document like docs/accuracy.md anew")
      ->type_name("FILE")
      ->excludes(source);
  command.footer(std::string(kValidatePublishedFooter) + kExitStatus);
}

void AddCalibrateImport(CLI::App& calibrate, CalibrateImportOptions& options) {
  CLI::App& import = *calibrate.add_subcommand("import", kCalibrateImportAbout)->group("Commands");
  import.add_option("LOG", options.logs, "What nccl-tests printed, or wrote with -J")->required();
  import
      .add_option("--op", options.op,
                  fmt::format("Which collective (as the logs tell): {}", CollectiveNames()))
      ->type_name("NAME");
  constexpr int kMost = 1'000'000;
  import
      .add_option("--ranks", options.ranks, "How many ranks took part, where a log does not tell")
      ->type_name("N")
      ->check(CLI::Range(2, kMost));
  import
      .add_option("--ranks-per-node", options.ranks_per_node,
                  "How many on a node (as the hosts in the logs have it)")
      ->type_name("N")
      ->check(CLI::Range(1, kMost));
  import.add_flag("--in-place", options.in_place, "Take the in-place times, not out-of-place");
  import.add_option("--name", options.name, "Name of the profile (that of the first log)")
      ->type_name("TEXT");
  import.add_option("--output", options.output, "Write to FILE instead of stdout")
      ->type_name("FILE")
      ->check(NamesAFile());
  import.footer(std::string(kCalibrateImportFooter) + kExitStatus);
}

void AddCalibrate(CLI::App& app, CalibrateOptions& options,
                  CalibrateImportOptions& import_options) {
  CLI::App& command = *app.add_subcommand("calibrate", kCalibrateAbout)->group("Commands");
  constexpr int kMostRanks = 4096;
  // Required, but not by `import`: Run() sees to it.
  command.add_option("--backend", options.backend, "What to measure: host or cuda")
      ->type_name("NAME");
  command.add_flag("--quick", options.quick, "Coarser, less often repeated, under two minutes");
  command.add_option("--time", options.time, "Measure for about so long (20 min; quick: 90 s)")
      ->type_name("TIME");
  const auto words = [&](const char* name, std::vector<std::string>& values, const char* help,
                         const char* type) {
    command.add_option(name, values, help)
        ->type_name(type)
        ->delimiter(',')
        ->allow_extra_args(false);
  };
  words("--only", options.only, "Measure these parts alone (all)", "PART,...");
  words("--types", options.types, "Data types of matrix products and attention (fp32,bf16)",
        "TYPE,...");
  words("--collectives", options.collectives,
        "Kinds of collectives (all; quick: all but broadcast)", "KIND,...");
  command
      .add_option("--groups", options.groups,
                  "Collectives on groups of so many ranks alone (all ranks, and their divisors)")
      ->type_name("N,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(2, kMostRanks));
  command.add_option("--from", options.from, "Smallest size of collectives (1 KiB)")
      ->type_name("BYTES");
  command.add_option("--to", options.to, "Largest size of collectives (256 MiB; quick: 64 MiB)")
      ->type_name("BYTES");
  command
      .add_option("--ranks", options.ranks,
                  "Ranks, as threads, where no launcher started any (one for each core or GPU)")
      ->type_name("N")
      ->check(CLI::Range(1, kMostRanks));
  command.add_option("--output", options.output, "The profile (HOST.yaml)")
      ->type_name("FILE")
      ->check(NamesAFile());
  command
      .add_option("--resume", options.resume, "Keep what was measured in FILE, and go on from it")
      ->type_name("FILE")
      ->check(NamesAFile());
  command
      .add_option("--timeout", options.timeout,
                  "End the run when no operation finishes for this long (120 s)")
      ->type_name("TIME");
  command.add_flag("--json", options.json, "Print one JSON document");
  command.footer(std::string(kCalibrateFooter) + kExitStatus);
  AddCalibrateImport(command, import_options);
}

void AddCollective(CLI::App& app, CollectiveOptions& options) {
  CLI::App& command = *app.add_subcommand("collective", kCollectiveAbout)->group("Commands");
  AddScenario(command, options.scenario, options.set);
  command
      .add_option("--op", options.op,
                  fmt::format("Which collective: {} (all_reduce)", CollectiveNames()))
      ->type_name("NAME");
  command.add_option("--from", options.from, "The first size (1 KiB)")->type_name("BYTES");
  command.add_option("--to", options.to, "The last size (8 GiB)")->type_name("BYTES");
  constexpr int kMost = 1'000'000;
  CLI::Option* ranks =
      command.add_option("--ranks", options.ranks, "How many ranks take part (all of the nodes)")
          ->type_name("N")
          ->check(CLI::Range(1, kMost));
  CLI::Option* nodes =
      command.add_option("--nodes", options.nodes, "On how many nodes (as few as possible)")
          ->type_name("N")
          ->check(CLI::Range(1, kMost));
  command
      .add_option("--group", options.group,
                  "A group of the plan instead, that of rank 0: data, shard, replica")
      ->type_name("NAME")
      ->excludes(ranks)
      ->excludes(nodes);
  command
      .add_option("--network", options.network,
                  "How closely it is followed: analytic, flow or message (as the scenario says)")
      ->type_name("HOW")
      ->check(CLI::IsMember({"analytic", "flow", "message"}));
  CLI::Option* json = command.add_flag("--json", options.json, "Print one JSON document");
  command.add_flag("--csv", options.csv, "Print CSV (RFC 4180)")->excludes(json);
  command.footer(std::string(kCollectiveFooter) + kExitStatus);
}

void AddModel(CLI::App& app, ModelImportOptions& options) {
  CLI::App& model = *app.add_subcommand("model", kModelAbout)->group("Commands");
  model.require_subcommand(1);
  model.footer(std::string(kModelImportFooter) + kExitStatus);
  CLI::App& import = *model.add_subcommand("import", kModelImportAbout)->group("Commands");
  import.add_option("--kineto", options.kineto, "The trace: Chrome trace JSON, or that as .gz")
      ->type_name("FILE")
      ->required();
  import.add_option("--step", options.step, "The step ProfilerStep#N (the one of median duration)")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  import.add_option("--name", options.name, "Name of the model (that of FILE)")->type_name("TEXT");
  import.add_option("--output", options.output, "Write to FILE instead of stdout")
      ->type_name("FILE")
      ->check(NamesAFile());
  import.footer(std::string(kModelImportFooter) + kExitStatus);
}

void AddTopologyImport(CLI::App& topology, TopologyImportOptions& options) {
  CLI::App& import = *topology.add_subcommand("import", kTopologyImportAbout)->group("Commands");
  import.add_option("FILE", options.file, "NCCL's XML, or what nvidia-smi topo -m printed")
      ->required();
  import
      .add_option("--gpu", options.gpu, "The GPU type, topologies/gpus/NAME.yaml (as FILE tells)")
      ->type_name("NAME");
  import
      .add_option("--nic-speed", options.nic_speed,
                  "Of each NIC's port, where FILE does not tell, such as 400Gbps")
      ->type_name("RATE");
  import.add_option("--name", options.name, "Name of the topology (that of FILE)")
      ->type_name("TEXT");
  import.add_option("--output", options.output, "Write to FILE instead of stdout")
      ->type_name("FILE")
      ->check(NamesAFile());
  import.footer(std::string(kTopologyImportFooter) + kExitStatus);
}

void Describe(CLI::App& app, Request& request) {
  app.description(kAbout);
  app.footer(std::string(kMainFooter) + kExitStatus);
  app.set_version_flag("--version", kVersion, "Print the version");
  app.require_subcommand(1);
  const auto page = std::make_shared<HelpPage>();
  page->column_width(24);
  page->label("Positionals", "Arguments");
  app.formatter(page);

  CLI::App& simulate = *app.add_subcommand("simulate", kSimulateAbout)->group("Commands");
  AddScenario(simulate, request.simulate.scenario, request.simulate.set);
  CLI::Option* json = simulate.add_flag("--json", request.simulate.json, "Print one JSON document");
  CLI::Option* trace = simulate
                           .add_option("--trace", request.simulate.trace,
                                       "Also write the timeline as Chrome trace JSON")
                           ->type_name("FILE")
                           ->check(NamesAFile());
  CLI::Option* traces = AddTraceFolder(simulate, request.simulate.trace_dir);
  CLI::Option* report = AddReport(simulate, request.simulate.report);
  CLI::Option* timeline =
      simulate
          .add_flag("--timeline", request.timeline,
                    "Draw the step's streams below the forecast, as on a terminal")
          ->excludes(json);
  simulate.add_flag("--no-timeline", request.no_timeline, "Do not draw them, on a terminal either")
      ->excludes(timeline);
  simulate
      .add_option("--network", request.simulate.network,
                  "How closely collectives are followed: analytic, flow or message")
      ->type_name("HOW")
      ->check(CLI::IsMember({"analytic", "flow", "message"}));
  simulate
      .add_flag("--program", request.simulate.program,
                "Print the step program that a rank would submit, and whether it is free of races")
      ->excludes(json)
      ->excludes(trace)
      ->excludes(traces)
      ->excludes(report)
      ->excludes(timeline);
  AddEmit(simulate, request.simulate.emit);
  simulate.footer(std::string(kSimulateFooter) + kExitStatus);

  CLI::App& memory = *app.add_subcommand("memory", kMemoryAbout)->group("Commands");
  AddScenario(memory, request.memory.scenario, request.memory.set);
  memory.add_flag("--json", request.memory.json, "Print one JSON document");
  memory.add_flag("--max-micro-batch", request.memory.max_micro_batch,
                  "Also find the largest micro-batch that fits, at each stage");
  memory.footer(std::string(kMemoryFooter) + kExitStatus);

  AddCompare(app, request.compare);

  CLI::App& explain = *app.add_subcommand("explain", kExplainAbout)->group("Commands");
  AddScenario(explain, request.explain.scenario, request.explain.set);
  explain.add_flag("--json", request.explain.json, "Print one JSON document");
  explain.footer(std::string(kExplainFooter) + kExitStatus);

  CLI::App& sweep = *app.add_subcommand("sweep", kSweepAbout)->group("Commands");
  AddScenario(sweep, request.sweep.scenario, request.sweep.set);
  sweep
      .add_option("--vary", request.sweep.vary,
                  "A key and its values, as often as needed; at most 10^6 combinations")
      ->type_name("KEY=VALUES")
      ->type_size(1)
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  sweep
      .add_option("--store", request.sweep.store,
                  "Keep results in FILE as they come; the same command goes on from there")
      ->type_name("FILE")
      ->check(NamesAFile());
  sweep
      .add_option("--threads", request.sweep.threads,
                  "How many threads forecast (one for each core)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  CLI::Option* sweep_json = sweep.add_flag("--json", request.sweep.json, "Print one JSON document");
  CLI::Option* sweep_jsonl = sweep
                                 .add_flag("--jsonl", request.sweep.jsonl,
                                           "Print a JSON document for each row, a line each")
                                 ->excludes(sweep_json);
  sweep.add_flag("--csv", request.sweep.csv, "Print CSV (RFC 4180)")
      ->excludes(sweep_json)
      ->excludes(sweep_jsonl);
  AddReport(sweep, request.sweep.report);
  sweep.footer(std::string(kSweepFooter) + kExitStatus);
  AddPlan(app, request.plan);

  AddCalibrate(app, request.calibrate, request.calibrate_import);
  AddCollective(app, request.collective);

  CLI::App& execute = *app.add_subcommand("execute", kExecuteAbout)->group("Commands");
  AddHardware(execute, request.execute.hardware);
  execute.add_flag("--check", request.execute.hardware.check,
                   "Compare the parameters with plain data parallelism, computed apart");
  execute.add_flag("--json", request.execute.json, "Print one JSON document");
  execute
      .add_option("--trace", request.execute.trace,
                  "Also write every rank's timeline as Chrome trace JSON")
      ->type_name("FILE")
      ->check(NamesAFile());
  AddTraceFolder(execute, request.execute.trace_dir);
  execute.footer(std::string(kExecuteFooter) + kExitStatus);

  CLI::App& validate = *app.add_subcommand("validate", kValidateAbout)->group("Commands");
  AddHardware(validate, request.validate.hardware);
  validate
      .add_option("--within", request.validate.within,
                  "How far the step time may be off for exit status 0 (10%)")
      ->type_name("PERCENT");
  validate.add_flag("--json", request.validate.json, "Print one JSON document");
  validate
      .add_option("--trace", request.validate.trace,
                  "Also write forecast and measured timelines as one Chrome trace JSON")
      ->type_name("FILE")
      ->check(NamesAFile());
  AddReport(validate, request.validate.report);
  validate.footer(std::string(kValidateFooter) + kExitStatus);

  // `validate collectives`; a group without a name keeps the one word out of the overview.
  CLI::App& collectives =
      *app.add_subcommand(kValidateCollectives, kValidateCollectivesAbout)->group("");
  CLI::Option* collectives_json = collectives.add_flag(
      "--json", request.validate_collectives.json, "Print one JSON document, every point in it");
  collectives.add_flag("--csv", request.validate_collectives.csv, "Print every point as CSV")
      ->excludes(collectives_json);
  collectives
      .add_option("--update", request.validate_collectives.update,
                  "Also write the section of a document like docs/accuracy.md anew")
      ->type_name("FILE")
      ->check(NamesAFile());
  collectives.footer(std::string(kValidateCollectivesFooter) + kExitStatus);
  AddValidatePublished(app, request.validate_published);

  AddModel(app, request.model_import);

  CLI::App& topology = *app.add_subcommand("topology", kTopologyAbout)->group("Commands");
  topology.require_subcommand(1);
  topology.footer(std::string(kTopologyShowFooter) + kExitStatus);
  CLI::App& show = *topology.add_subcommand("show", kTopologyShowAbout)->group("Commands");
  show.add_option("FILE", request.topology_show.file, "Topology file (YAML; docs/formats.md)")
      ->required();
  show.add_option("--nodes", request.topology_show.nodes, "How many nodes to draw")->type_name("N");
  CLI::Option* dot =
      show.add_flag("--dot", request.topology_show.dot, "Print Graphviz instead of text");
  show.add_flag("--json", request.topology_show.json, "Print one JSON document instead of text")
      ->excludes(dot);
  CLI::Option* links = show.add_flag("--links", request.topology_show.links,
                                     "Print what a collective over all ranks puts on each link")
                           ->excludes(dot);
  show.add_option("--op", request.topology_show.op, "That collective (all_reduce)")
      ->type_name("NAME")
      ->needs(links);
  show.add_option("--size", request.topology_show.size, "Its size, as nccl-tests counts it (1 GiB)")
      ->type_name("BYTES")
      ->needs(links);
  show.footer(std::string(kTopologyShowFooter) + kExitStatus);
  AddTopologyImport(topology, request.topology_import);
}

// One page for each command; CLI11's own would list the options of the application with it.
std::string Help(const CLI::App& app) {
  const CLI::App* deepest = &app;
  std::string name = "stepcast";
  while (!deepest->get_subcommands().empty()) {
    deepest = deepest->get_subcommands().front();
    name += " " + deepest->get_name();
  }
  // The page adds the command's own name.
  return deepest->help(deepest == &app ? name : name.substr(0, name.rfind(' ')));
}

Diagnostic WrongUse(const char* code, std::string message, std::string hint) {
  return {code, {"command line", 0, 0}, std::move(message), std::move(hint)};
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& known) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  if (const std::string_view near = NearestWord(word, views); !near.empty()) {
    return fmt::format("did you mean '{}'?", near);
  }
  return fmt::format("there are: {}", fmt::join(known, ", "));
}

std::vector<std::string> Commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> Options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Words that are no command and options that the command does not have, found before the parser
// runs: its own errors name neither the command nor a word that is near.
Diagnostics UnknownWords(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  std::string path = "stepcast";
  Diagnostics faults;
  std::size_t at = 0;
  for (; at < arguments.size() && !arguments[at].starts_with('-'); ++at) {
    const std::vector<const CLI::App*> known = command->get_subcommands(nullptr);
    if (known.empty()) break;
    const std::string& word = arguments[at];
    const auto found = std::find_if(known.begin(), known.end(), [&](const CLI::App* candidate) {
      return candidate->get_name() == word;
    });
    if (found == known.end()) {
      faults.push_back(WrongUse("command.unknown-command",
                                fmt::format("unknown command of {}: {}", path, Quoted(word)),
                                DidYouMean(word, Commands(*command))));
      return faults;
    }
    command = *found;
    path += " " + NameOf(*command);
  }
  for (; at < arguments.size(); ++at) {
    const std::string& argument = arguments[at];
    if (argument == "--") break;
    if (argument.size() < 2 || !argument.starts_with('-')) continue;
    const std::string name = argument.substr(0, argument.find('='));
    if (const CLI::Option* option = command->get_option_no_throw(name); option != nullptr) {
      // The next word belongs to the option, even if it starts with a dash.
      const bool takes_value = option->get_items_expected_max() > 0;
      if (takes_value && name.size() == argument.size()) ++at;
      continue;
    }
    faults.push_back(WrongUse("command.unknown-option",
                              fmt::format("unknown option of {}: {}", path, Quoted(name)),
                              DidYouMean(name, Options(*command))));
  }
  return faults;
}

Outcome RunSweep(SweepOptions& options) {
  ProgressLine line;
  if (ProgressLine::Possible()) {
    options.progress = [&](std::int64_t done, std::int64_t known, std::int64_t rows) {
      line.Show(done, known, rows);
    };
  }
  return Sweep(options);
}

// The same of a search.
class SearchLine {
 public:
  void Show(std::int64_t screened, std::int64_t simulated) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    constexpr std::chrono::milliseconds kPause(100);
    next_ = now + kPause;
    fmt::print(stderr, "\r{} {} bounded, {} simulated", screened, screened == 1 ? "plan" : "plans",
               simulated);
    std::fflush(stderr);
    shown_ = true;
  }
  ~SearchLine() {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }

 private:
  std::chrono::steady_clock::time_point next_;
  bool shown_ = false;
};

Outcome RunPlan(PlanOptions& options) {
  SearchLine line;
  if (::isatty(STDERR_FILENO) == 1) {
    options.progress = [&](std::int64_t screened, std::int64_t simulated) {
      line.Show(screened, simulated);
    };
  }
  return Plan(options);
}

// What holds for options of every command: none has an empty value, as an unset variable of a
// script leaves it, and what is written is not what is read.
Diagnostics WrongValues(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  Diagnostics faults;
  std::vector<NamedPath> inputs, outputs;
  for (const CLI::Option* option : command->get_options()) {
    const std::string name = option->get_positional() ? option->get_name(true) : option->get_name();
    for (const std::string& value : option->results()) {
      if (value.empty()) {
        faults.push_back(WrongUse("command.wrong-use",
                                  fmt::format("the value of {} is empty", name),
                                  "leave the option out, or give it a value"));
      } else if (option->get_positional()) {
        inputs.push_back({name, value});
      } else if (name == "--report" || name == "--trace" || name == "--store") {
        outputs.push_back({name, value});
      }
    }
  }
  const Diagnostics same = CheckOutputPaths(inputs, outputs);
  faults.insert(faults.end(), same.begin(), same.end());
  return faults;
}

Outcome Run(std::vector<std::string> arguments) {
  if (arguments.size() > 1 && arguments[0] == "validate" &&
      (arguments[1] == "collectives" || arguments[1] == "published")) {
    arguments.erase(arguments.begin());
    arguments[0] = arguments[0] == "published" ? kValidatePublished : kValidateCollectives;
  }
  CLI::App app;
  Request request;
  Describe(app, request);
  if (arguments.empty()) return {kWrongInput, "", app.help("stepcast")};
  if (const Diagnostics faults = UnknownWords(app, arguments); !faults.empty()) {
    return WrongInput(faults);
  }
  try {
    // CLI11 takes the words last first.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    return {kDone, Help(app), ""};
  } catch (const CLI::CallForVersion&) {
    return {kDone, fmt::format("{}\n", kVersion), ""};
  } catch (const CLI::ParseError& error) {
    std::string page = "stepcast";
    for (const CLI::App* command = &app; !command->get_subcommands().empty();) {
      command = command->get_subcommands().front();
      page += " " + NameOf(*command);
    }
    return WrongInput(
        {WrongUse("command.wrong-use", error.what(), fmt::format("see {} --help", page))});
  }
  if (const Diagnostics faults = WrongValues(app); !faults.empty()) return WrongInput(faults);
  if (app.got_subcommand("simulate")) {
    std::optional<bool> forced;
    if (request.timeline || request.no_timeline) forced = request.timeline;
    request.simulate.timeline = StdoutStyle(forced);
    return Simulate(request.simulate);
  }
  if (app.got_subcommand("memory")) return Memory(request.memory);
  if (app.got_subcommand("compare")) return Compare(request.compare);
  if (app.got_subcommand("explain")) return Explain(request.explain);
  if (app.got_subcommand("sweep")) return RunSweep(request.sweep);
  if (app.got_subcommand("plan")) return RunPlan(request.plan);
  if (app.got_subcommand("calibrate")) {
    if (app.get_subcommand("calibrate")->got_subcommand("import")) {
      return CalibrateImport(request.calibrate_import);
    }
    if (request.calibrate.backend.empty()) {
      return WrongInput({WrongUse("command.wrong-use", "--backend is required",
                                  "see stepcast calibrate --help")});
    }
    request.calibrate.version = kVersion;
    request.calibrate.command = "stepcast";
    for (const std::string& argument : arguments) request.calibrate.command += " " + argument;
    return Calibrate(request.calibrate);
  }
  if (app.got_subcommand("model")) return ModelImport(request.model_import);
  if (app.got_subcommand("collective")) return Collective(request.collective);
  if (app.got_subcommand("execute")) return Execute(request.execute);
  if (app.got_subcommand(kValidateCollectives)) {
    return ValidateCollectives(request.validate_collectives);
  }
  if (app.got_subcommand(kValidatePublished)) {
    return ValidatePublished(request.validate_published);
  }
  if (app.got_subcommand("validate")) return Validate(request.validate);
  if (app.get_subcommand("topology")->got_subcommand("import")) {
    return TopologyImport(request.topology_import);
  }
  return TopologyShow(request.topology_show);
}

extern "C" void StopAtSignal(int signal) {
  // Several ranks end together, and the cause of the signal may be another rank's death.
  if (runtime::Watch::TakeSignal(signal)) return;
  report::RemoveUnfinishedFiles();
  constexpr std::string_view kLine = "\nstepcast: interrupted\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kLine.data(), kLine.size());
  SayWhatIsKept();
  ::_exit(128 + signal);
}

void SetSignals() {
  // A reader that goes away is an error of writing, with a message, and not the end at once.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // so is a limit on file sizes
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    ::sigaction(number, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;  // as nohup wants it
    struct sigaction action = {};
    action.sa_handler = StopAtSignal;
    action.sa_flags = SA_RESTART;
    ::sigfillset(&action.sa_mask);
    ::sigaction(number, &action, nullptr);
  }
}

// A closed stdin, stdout or stderr would give its number to the next file that is opened.
void FillStandardDescriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) {
      // Written to, it fails as a closed one would.
      [[maybe_unused]] const int opened = ::open("/dev/null", O_RDONLY);
    }
  }
}

bool WriteAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// A search makes and drops step programs of some megabytes by the thousand. glibc gives such blocks
// back at once and takes them anew, zeroed page by page: a fifth of the time of `plan`.
void KeepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

int Main(int count, char** words) {
  KeepFreedMemory();
  FillStandardDescriptors();
  SetSignals();
  Outcome outcome;
  try {
    outcome = Run(std::vector<std::string>(words + std::min(count, 1), words + count));
  } catch (const std::bad_alloc&) {
    report::RemoveUnfinishedFiles();
    outcome = {.status = kFailed, .output = "", .messages = "stepcast: out of memory\n"};
  }
  WriteAll(STDERR_FILENO, outcome.messages);
  // Some file systems tell only at the end that there was no room.
  const bool complete = WriteAll(STDOUT_FILENO, outcome.output) &&
                        (outcome.output.empty() || ::close(STDOUT_FILENO) == 0);
  if (!complete) {
    WriteAll(STDERR_FILENO,
             fmt::format("stepcast: cannot write the output: {}\n", std::strerror(errno)));
    outcome.status = kFailed;
  }
  return outcome.end ? outcome.end(outcome.status) : outcome.status;
}

}  // namespace
}  // namespace stepcast::cli

int main(int count, char** words) { return stepcast::cli::Main(count, words); }
