#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/study/plan_question.h"
#include "tl/expected.hpp"

// stepcast as a library. Each function returns the answer of the command with the same name as
// plain values. `json` is the document that the command prints with --json. All functions are
// thread-safe and do not write to stdout or stderr. Times are in seconds, sizes in bytes.
namespace stepcast::library {

// A mistake in the input: a message, its position, and a hint on how to correct it. Lines and
// columns are counted from 1; 0: no position. Codes: docs/errors/README.md.
struct Mistake {
  std::string code, file;
  int line = 0, column = 0;
  std::string message, hint;
};

// The reason why there is no answer: mistakes in the input, or a sentence that describes a failure.
struct Failure {
  std::vector<Mistake> mistakes;
  std::string reason;
};

template <typename T>
using Answer = tl::expected<T, Failure>;

// A scenario or a plan.json: a file at `path` or, if `path` is empty, the text itself. Positions in
// errors then name the text by `title`. `set` changes settings, like --set.
struct Input {
  std::string path;
  std::string text{};
  std::string title = "scenario";
  std::vector<std::string> set{};  // "KEY=VALUE"
};

struct MemoryFigures {
  std::int64_t peak = 0, reserved = 0, outside = 0, capacity = 0;
  bool fits = true;
  std::string verdict;         // "fits", "may_not_fit", "does_not_fit"
  double fit_probability = 1;  // from the error of memory forecasts (docs/uncertainty.md)
};

struct Simulation {
  double step_time = 0;
  double tokens_per_second = 0, tokens_per_second_per_gpu = 0;
  std::optional<double> mfu, hfu;  // not set for layer lists
  MemoryFigures memory;
  std::vector<std::string> warnings;
  std::string json;
};
Answer<Simulation> Simulate(const Input& input);

struct SweepRow {
  std::vector<std::pair<std::string, std::string>> set;
  std::string status;  // "ok", "illegal", "does_not_fit"
  std::string reason;
  // The result for this combination of settings; not set if the combination is illegal.
  std::optional<double> step_time, tokens_per_second_per_gpu;
  std::optional<std::int64_t> peak, reserved, outside, capacity;
  std::string verdict{};  // as in MemoryFigures; empty if illegal
  std::optional<double> fit_probability{};
};
struct Sweeping {
  std::vector<SweepRow> rows;
  std::string json;
};
// Answers `sweep`. `vary` has the syntax of --vary: "KEY=V1,V2,...".
Answer<Sweeping> Sweep(const Input& input, const std::vector<std::string>& vary);

// The question of a search, with the options of the command `plan`. The function Plan ignores
// `scenario` and `set`, because the function's input contains both.
using study::PlanQuestion;
struct Planning {
  std::vector<SweepRow> best;  // empty if no plan fits
  std::string json;
};
Answer<Planning> Plan(const Input& input, const PlanQuestion& question = {});

struct StageMemory {
  int stage = 0;
  std::optional<MemoryFigures> simulated;  // not set if the framework does not support the stage
  // The size of the largest micro-batch that fits, if it was requested; 0 if no micro-batch fits.
  std::optional<std::int64_t> max_micro_batch;
};
struct StagesMemory {
  std::vector<StageMemory> stages;
  std::string json;
};
Answer<StagesMemory> Memory(const Input& input, bool max_micro_batch = false);

struct Document {
  std::string json;
};
Answer<Document> Compare(const Input& a, const Input& b);
Answer<Document> Explain(const Input& input);

// Writes the plan into a folder, as the command `simulate --emit` does.
Answer<Document> Emit(const Input& input, const std::string& folder, bool force);

}  // namespace stepcast::library
