#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
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
};

struct RunTimeAnswer {
  scenario::Scenario scenario;  // its warnings
  forecast::WholeRun run;
};

Result<RunTimeAnswer> AnswerRunTime(const RunTimeQuestion& question);

}  // namespace stepcast::study
