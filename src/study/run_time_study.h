#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/question.h"
#include "src/forecast/long_run.h"
#include "src/forecast/training_run.h"
#include "src/scenario/scenario.h"

// Answers `run-time`: the duration of a complete run, including failures.
namespace stepcast::study {

// The question of `run-time`, as text. An empty member means the default. LongTime parses the
// times.
struct RunTimeQuestion {
  std::string scenario;
  std::vector<std::string> set;     // "KEY=VALUE"
  std::string tokens, price;        // "15T"; price of a GPU hour: "2.5"
  std::string node_mtbf, job_mtbf;  // times, or "none"
  std::string restarts;             // "automatic", or "manual": by operators
  std::string detection, restart;
  std::string checkpoint;  // "sync", "async"
  std::string checkpoint_interval, checkpoint_cost;
  std::string storage;                 // "50 GB/s": total bandwidth for the job
  std::optional<std::int64_t> spares;  // not set: failed nodes are replaced at once
  std::string repair;                  // repair time of a node
  bool elastic = false;
  std::optional<double> pue;
  std::optional<double> node_watts;  // power of a node without its GPUs

  void Describe(Question& question) {
    question
        .Option("--tokens", &tokens, "N", "Number of training tokens of the run: 15T, 300B, 300e9")
        .Required();
    question.Option("--price", &price, "MONEY", "Price of one GPU for one hour: 2.5, '$2.5'");
    question.Option("--node-mtbf", &node_mtbf, "TIME",
                    "Mean time between failures of one node, for example '338 d', or none "
                    "(default: 338 d for 8 GPUs)");
    question.Option("--job-mtbf", &job_mtbf, "TIME",
                    "Mean time between job failures that are not node failures, for example '11 "
                    "h', or none (default: 9.3 h)");
    question
        .Option("--restarts", &restarts, "HOW",
                "How failures are detected and the job is restarted: automatic, or manual (by "
                "people) (default: automatic)")
        .OneOf({"automatic", "manual"});
    question.Option("--detection", &detection, "TIME",
                    "Time from a failure to its detection (default: included in --restart; with "
                    "manual recovery: 80 min)");
    question.Option("--restart", &restart, "TIME",
                    "Time from the detection of a failure to the load of the checkpoint: "
                    "scheduling, start, compilation (default: 10 min)");
    question
        .Option("--spares", &spares, "N",
                "Number of spare nodes; if no spare node is free, the job waits for a repair "
                "(default: unlimited)")
        .NotNegative();
    question.Option("--repair", &repair, "TIME", "Time to repair a failed node")
        .Needs({"--spares"});
    question
        .Flag("--elastic", &elastic,
              "If no spare node is free, continue with fewer data-parallel replicas")
        .Needs({"--spares"});
    question
        .Option("--checkpoint", &checkpoint, "HOW",
                "How checkpoints are saved: sync (training stops) or async (training continues) "
                "(default: the value in the scenario, or async)")
        .OneOf({"sync", "async"});
    question.Option("--checkpoint-interval", &checkpoint_interval, "TIME",
                    "Training time between two checkpoints (default: the value in the scenario, or "
                    "the best interval)");
    question.Option("--checkpoint-cost", &checkpoint_cost, "TIME",
                    "Time for which the save of a checkpoint stops the training (default: computed "
                    "from the checkpoint's size)");
    question.Option("--storage", &storage, "BANDWIDTH",
                    "Total storage bandwidth of all nodes of the job (default: the value in the "
                    "scenario, or 1.2 GB/s per node, at most 57.5 GB/s)");
    question
        .Option("--pue", &pue, "X", "Power usage effectiveness of the data center (default: 1.2)")
        .NotNegative();
    question
        .Option("--node-watts", &node_watts, "W",
                "Power of a node, excluding its GPUs, in watts (default: 0)")
        .NotNegative();
  }
};

struct RunTimeAnswer {
  scenario::Scenario scenario;  // the scenario's warnings are part of the answer
  forecast::WholeRun run;
};

Result<RunTimeAnswer> AnswerRunTime(const RunTimeQuestion& question);

// Returns a function that computes how a long run on `gpus` GPUs uses its time, with the default
// failures and checkpoints of `run-time` (forecast/long_run.h). Checkpoints have the state of the
// scenario's model and plan. The function is thread-safe.
std::function<forecast::UsedTime(std::int64_t gpus)> EffectiveTraining(
    const scenario::Scenario& scenario);

}  // namespace stepcast::study
