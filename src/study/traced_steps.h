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
  std::int64_t number = 0;                // of ProfilerStep#
  std::vector<validate::RankStep> ranks;  // by rank, at least one
  std::vector<std::string> notes;         // what is missing in the traces
};

// Reads a trace of PyTorch's profiler or of stepcast (.json, .json.gz), or a folder with one trace
// for each rank. Takes the step of median duration among the steps that every trace contains
// completely. `run` is the forecast; kernels and groups get its names. `devices` is the number of
// GPUs of its job. Mistakes: those of formats::ReadKinetoTrace, kineto.no-step, kineto.no-kernels,
// traced.no-traces, traced.same-rank, traced.other-cluster, traced.several-ranks,
// traced.other-model, and traced.no-common-step.
Result<TracedSteps> ReadTracedSteps(const std::string& path, const forecast::Run& run, int devices);

// Returns the activity of a PyTorch kernel, judged by its name. For example,
// "ampere_bf16_s16816gemm_bf16_128x128" is a matrix product.
validate::Activity ActivityOf(std::string_view kernel);

}  // namespace stepcast::study
