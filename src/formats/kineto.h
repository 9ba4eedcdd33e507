#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/block_buffer.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/model/layer.h"

// One rank's training step from a PyTorch profiler trace (torch.profiler's export_chrome_trace;
// Kineto's Chrome trace JSON): the layers with their times and gradients, and the step's
// collectives.
//
// These events are read:
//   - user annotations `ProfilerStep#N`: the steps;
//   - operators with `Sequence number`, which links an autograd node to its forward operator;
//   - the engine's `evaluate_function` events. At AccumulateGrad, a parameter's gradient is ready,
//     with `Input Dims` if shapes were recorded;
//   - launches and kernels, linked by `correlation`;
//   - NCCL's kernels with `Collective name`, `In msg nelems`, `dtype` and `Group size`
//     (pytorch/kineto libkineto/src/output_json.cpp, pytorch torch/csrc/profiler/util.cpp).
//
// Each time is the later of the host's time and the end of the previously launched kernels. Layer
// times exclude exposed communication after backward. The rest of the step is the optimizer.
//
// Without step annotations, a step ends with the optimizer's annotation (`Optimizer.step#...`). A
// trace without step and optimizer annotations is one step.
//
// Errors:
//   file.not-json
//   kineto.no-step: there are no steps and no operators
//   kineto.no-such-step
//   kineto.no-backward
//   kineto.no-sizes: neither shapes nor NCCL's sizes were recorded, and `sizes` is empty
//   kineto.other-model: `sizes` has another number of parameters
//   kineto.too-many
//   json.too-deep
namespace stepcast::formats {

struct TracedCollective {
  std::string collective;     // name in the trace, such as "allreduce"
  std::int64_t elements = 0;  // 0: not recorded
  std::string data_type;      // "Float"; empty: not recorded
  std::int64_t ranks = 0;     // 0: not recorded
  Time start;                 // time since the start of the step
  Time duration;
  bool gradients = false;  // launched during backward: a bucket of DDP
};

struct TracedStep {
  std::int64_t number = 0;  // N of ProfilerStep#N
  Time duration;
  Time forward, backward, exposed_communication;
  Time kernels;  // time in which a kernel runs, without NCCL's kernels
  std::int64_t micro_batches = 1;
  model::LayerList layers;                    // in reverse order of gradients
  std::vector<TracedCollective> collectives;  // in order of launch
  std::vector<std::string> notes;             // about data that the trace lacks
};

// Reads step number `step` (by default, the step of median duration among the steps with a backward
// pass). For traces without shapes, `sizes` has the number of elements of each model parameter, in
// registration order. Gradients are then assumed to be ready in reverse order. Stores only the
// current block of the text and the needed event data.
Result<TracedStep> ParseKineto(const TextBlocks& blocks, const std::string& file,
                               std::optional<std::int64_t> step,
                               const std::vector<std::int64_t>& sizes = {});
Result<TracedStep> ParseKineto(std::string_view text, const std::string& file,
                               std::optional<std::int64_t> step,
                               const std::vector<std::int64_t>& sizes = {});

}  // namespace stepcast::formats
