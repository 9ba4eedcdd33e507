#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/forecast/forecast.h"
#include "src/validate/step_causes.h"

namespace stepcast::study {

// One step of each traced rank.
struct TracedSteps {
  std::int64_t number = 0;                // of ProfilerStep#
  std::vector<validate::RankStep> ranks;  // by rank, at least one
  std::vector<std::string> notes;         // what is missing in the traces
};

// Reads a trace of PyTorch's profiler or of stepcast (.json, .json.gz), or a folder with one for
// each rank. Takes the step of median duration among the steps that every trace holds completely.
// `run` is the forecast: kernels and groups get its names. `devices` is the GPU count of its job.
//
// Mistakes: those of formats::ReadKinetoTrace, kineto.no-step, kineto.no-kernels, and
// traced.no-traces, traced.same-rank, traced.other-cluster, traced.several-ranks,
// traced.other-model, traced.no-common-step.
Result<TracedSteps> ReadTracedSteps(const std::string& path, const forecast::Run& run, int devices);

// Returns the activity of a PyTorch kernel, by its name: "ampere_bf16_s16816gemm_bf16_128x128" is a
// product.
validate::Activity ActivityOf(std::string_view kernel);

}  // namespace stepcast::study
