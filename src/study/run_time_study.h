#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/question.h"
#include "src/forecast/long_run.h"
#include "src/scenario/scenario.h"

// Answers `run-time`: the duration of a whole run, with its failures.
namespace stepcast::study {

// The question of `run-time`, as text; an empty member means the default. Times have the form that
// LongTime parses.
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
  std::optional<double> node_watts;  // that a node draws without its GPUs

  void Describe(Question& question) {
    question.Option("--tokens", &tokens, "N").Required();
    question.Option("--price", &price, "MONEY");
    question.Option("--node-mtbf", &node_mtbf, "TIME");
    question.Option("--job-mtbf", &job_mtbf, "TIME");
    question.Option("--restarts", &restarts, "HOW").OneOf({"automatic", "manual"});
    question.Option("--detection", &detection, "TIME");
    question.Option("--restart", &restart, "TIME");
    question.Option("--spares", &spares, "N").NotNegative();
    question.Option("--repair", &repair, "TIME").Needs({"--spares"});
    question.Flag("--elastic", &elastic).Needs({"--spares"});
    question.Option("--checkpoint", &checkpoint, "HOW").OneOf({"sync", "async"});
    question.Option("--checkpoint-interval", &checkpoint_interval, "TIME");
    question.Option("--checkpoint-cost", &checkpoint_cost, "TIME");
    question.Option("--storage", &storage, "BANDWIDTH");
    question.Option("--pue", &pue, "X").NotNegative();
    question.Option("--node-watts", &node_watts, "W").NotNegative();
  }
};

struct RunTimeAnswer {
  scenario::Scenario scenario;  // its warnings
  forecast::WholeRun run;
};

Result<RunTimeAnswer> AnswerRunTime(const RunTimeQuestion& question);

}  // namespace stepcast::study
