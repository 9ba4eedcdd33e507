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

// One rank's training step out of a PyTorch profiler trace (torch.profiler's
// export_chrome_trace; Kineto's Chrome trace JSON): the layers with their times and gradients, and
// the collectives of the step.
//
// Events that are read: user annotations `ProfilerStep#N` (the steps); operators with `Sequence
// number`, which ties an autograd node to the operator of forward that made it; the engine's
// `evaluate_function` events, among them AccumulateGrad, which is where a parameter's gradient is
// ready, with `Input Dims` where shapes were recorded; launches and kernels, tied by `correlation`;
// NCCL's kernels with `Collective name`, `In msg nelems`, `dtype` and `Group size` (pytorch/kineto
// libkineto/src/output_json.cpp, pytorch torch/csrc/profiler/util.cpp).
//
// Times are those of the slower of host and device: at a moment of the host, the later of that
// moment and the end of the kernels that were launched before it. Communication is left out; what
// of it was exposed after the backward is in no layer, and the rest of the step is the optimizer's.
//
// Without such annotations a step ends where the optimizer's (`Optimizer.step#...`) does, and where
// there is none the whole trace is one.
//
// Mistakes: file.not-json, kineto.no-step (it has no operators either), kineto.no-such-step,
// kineto.no-backward, kineto.no-sizes (neither shapes nor NCCL's sizes were recorded, and `sizes`
// are empty), kineto.other-model (`sizes` are not as many), kineto.too-many, json.too-deep.
namespace stepcast::formats {

struct TracedCollective {
  std::string collective;     // "allreduce", as the trace names it
  std::int64_t elements = 0;  // 0: not recorded
  std::string data_type;      // "Float"; empty: not recorded
  std::int64_t ranks = 0;     // 0: not recorded
  Time start;                 // from the start of the step
  Time duration;
  bool gradients = false;  // launched while backward ran: a bucket of DDP
};

struct TracedStep {
  std::int64_t number = 0;  // of ProfilerStep#
  Time duration;
  Time forward, backward, exposed_communication;
  Time kernels;  // when a kernel that is not NCCL's ran
  std::int64_t micro_batches = 1;
  model::LayerList layers;                    // in the reverse order of their gradients
  std::vector<TracedCollective> collectives;  // in the order of their launches
  std::vector<std::string> notes;             // what the trace does not tell
};

// `step`: which one; nothing: of those that have a backward, the one of median duration. `sizes`:
// the elements of the model's parameters in registration order, for traces without shapes:
// gradients are taken to become ready in the reverse of that order. Of the text no more than the
// present block is kept, and of its events what is needed.
Result<TracedStep> ParseKineto(const TextBlocks& blocks, const std::string& file,
                               std::optional<std::int64_t> step,
                               const std::vector<std::int64_t>& sizes = {});
Result<TracedStep> ParseKineto(std::string_view text, const std::string& file,
                               std::optional<std::int64_t> step,
                               const std::vector<std::int64_t>& sizes = {});

}  // namespace stepcast::formats
