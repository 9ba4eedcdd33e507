#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/question.h"
#include "src/forecast/long_run.h"
#include "src/scenario/scenario.h"

// How long a whole run takes, with its failures: what `run-time` is asked and what it answers.
namespace stepcast::study {

// As text; empty: the default. Times as LongTime reads them.
struct RunTimeQuestion {
  std::string scenario;
  std::vector<std::string> set;     // "KEY=VALUE"
  std::string tokens, price;        // as TrainingQuestion has them
  std::string node_mtbf, job_mtbf;  // or "none"
  std::string restarts;             // "automatic", "manual": people notice failures and restart
  std::string detection, restart;
  std::string checkpoint;  // "sync", "async"
  std::string checkpoint_interval, checkpoint_cost;
  std::string storage;                 // "50 GB/s", of the whole job
  std::optional<std::int64_t> spares;  // none: a failed node is replaced at once
  std::string repair;                  // of a node
  bool elastic = false;
  std::optional<double> pue;
  std::optional<double> node_watts;  // that a node draws beside its GPUs

  void Describe(Question& question) {
    question
        .Option("--tokens", &tokens, "N",
                "Number of tokens that the run trains: 15T, 300B, "
                "300e9")
        .Required();
    question.Option("--price", &price, "MONEY", "Price of a GPU hour: 2.5, '$2.5'");
    question.Option("--node-mtbf", &node_mtbf, "TIME",
                    "Mean time between failures of one node, or none: '338 d' (338 d for 8 GPUs)");
    question.Option(
        "--job-mtbf", &job_mtbf, "TIME",
        "Mean time between job failures that are not caused by a node, or none: '11 h' (9.3 h)");
    question
        .Option("--restarts", &restarts, "HOW",
                "How a job restarts after a failure: automatic, or manual if people notice and "
                "restart it (automatic)")
        .OneOf({"automatic", "manual"});
    question.Option("--detection", &detection, "TIME",
                    "Time from a failure until it is noticed (part of --restart; manual: 80 min)");
    question.Option(
        "--restart", &restart, "TIME",
        "Time from then until the checkpoint is loaded: scheduling, start, compilation (10 min)");
    question
        .Option("--spares", &spares, "N",
                "Number of spare nodes; if none is left, the job waits for a repair (as many as "
                "needed)")
        .NotNegative();
    question.Option("--repair", &repair, "TIME", "Time until a failed node is repaired")
        .Needs({"--spares"});
    question.Flag("--elastic", &elastic, "Continue with fewer replicas if no spare node is left")
        .Needs({"--spares"});
    question
        .Option("--checkpoint", &checkpoint, "HOW",
                "How checkpoints are saved: sync, or async during training (the scenario's "
                "setting, or async)")
        .OneOf({"sync", "async"});
    question.Option(
        "--checkpoint-interval", &checkpoint_interval, "TIME",
        "Training time from one save to the next (the scenario's setting, or the best)");
    question.Option("--checkpoint-cost", &checkpoint_cost, "TIME",
                    "Time for which a save stops training (computed from the bytes)");
    question.Option("--storage", &storage, "BANDWIDTH",
                    "Storage bandwidth of the whole job (the scenario's setting, or 1.2 GB/s per "
                    "node, at most 57.5 GB/s)");
    question.Option("--pue", &pue, "X", "Power usage effectiveness of the data center (1.2)")
        .NotNegative();
    question
        .Option("--node-watts", &node_watts, "W", "Power of a node without its GPUs, in watts (0)")
        .NotNegative();
  }
};

struct RunTimeAnswer {
  scenario::Scenario scenario;  // its warnings
  forecast::WholeRun run;
};

Result<RunTimeAnswer> AnswerRunTime(const RunTimeQuestion& question);

}  // namespace stepcast::study
