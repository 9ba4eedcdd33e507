#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/forecast/forecast.h"
#include "src/validate/step_causes.h"

namespace stepcast::study {

// One step of each traced rank, with the same step number on all ranks.
struct TracedSteps {
  std::int64_t number = 0;                // number in "ProfilerStep#"
  std::vector<validate::RankStep> ranks;  // ordered by rank; at least one
  std::vector<std::string> notes;         // data that the traces lack
};

// Reads a trace of PyTorch's profiler or of stepcast (.json, .json.gz), or a folder with one trace
// for each rank. Selects the step of median duration among the steps that every trace contains
// completely. `run` is the forecast, from which kernels and groups get their names. `devices` is
// the number of GPUs of the forecast job. Mistakes: the mistakes of formats::ReadKinetoTrace,
// kineto.no-step, kineto.no-kernels, traced.no-traces, traced.same-rank, traced.other-cluster,
// traced.several-ranks, traced.other-model, and traced.no-common-step.
Result<TracedSteps> ReadTracedSteps(const std::string& path, const forecast::Run& run, int devices);

// Returns the activity of a PyTorch kernel, judged by its name. For example,
// "ampere_bf16_s16816gemm_bf16_128x128" is a GEMM.
validate::Activity ActivityOf(std::string_view kernel);

}  // namespace stepcast::study
