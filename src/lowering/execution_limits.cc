#include "src/lowering/execution_limits.h"

namespace stepcast::lowering {
namespace {

constexpr ExecutionLimit kLimits[] = {
    {"training.optimizer", "all optimizers except adamw, sgd and lamb",
     "the backends have no kernels for this optimizer", "write optimizer: adamw, sgd or lamb",
     [](const plan::Plan& plan) {
       return plan::HasOwnKernels(plan.training.optimizer) ||
              plan.training.optimizer == plan::Optimizer::kMuon;
     }},
    {"training.optimizer_state_dtype, training.master_weights",
     "fp16_remainder, and optimizer states in a different data type than the weights that the "
     "optimizer updates",
     "the optimizer states and the weights that the optimizer updates have different data types",
     "remove optimizer_state_dtype, and remove master_weights: fp16_remainder",
     [](const plan::Plan& plan) {
       // Other optimizers are refused by a check of their own.
       return !plan::HasOwnKernels(plan.training.optimizer) &&
              plan.training.optimizer != plan::Optimizer::kMuon &&
              !plan::HasStatesOfUpdatedType(plan.training);
     }},
    {"training.lengths", "all",
     "execution requires that all micro-batches and documents have the "
     "same length",
     "remove lengths, and set document_length if samples are packed",
     [](const plan::Plan& plan) { return plan.training.lengths.has_value(); }},
    {"data_parallel.comm_hook", "powerSGD", "gradients are sent as low-rank factors",
     "remove comm_hook: powerSGD",
     [](const plan::Plan& plan) {
       return plan.data_parallel.comm_hook == plan::CommHook::kPowerSgd;
     }},
    {"data_parallel.deepspeed.offload_optimizer, .offload_param", "cpu and nvme",
     "states are offloaded to the host", "remove offload_optimizer and offload_param",
     [](const plan::Plan& plan) { return plan.data_parallel.deepspeed.offloads(); }},
    {"data_parallel.cpu_offload", "true", "states are offloaded to the host", "remove cpu_offload",
     [](const plan::Plan& plan) { return plan.data_parallel.cpu_offload; }},
    {"data_parallel.optimizer_cpu_offload", "true", "the optimizer runs on the host",
     "remove optimizer_cpu_offload",
     [](const plan::Plan& plan) { return plan.data_parallel.optimizer_cpu_offload; }},
    {"data_parallel.deepspeed.zero_quantized_weights, .zero_quantized_gradients", "true",
     "communication is quantized", "remove zero_quantized_weights and zero_quantized_gradients",
     [](const plan::Plan& plan) {
       const plan::DeepSpeed& deepspeed = plan.data_parallel.deepspeed;
       return deepspeed.quantized_weights || deepspeed.quantized_gradients;
     }},
};

}  // namespace

std::span<const ExecutionLimit> ExecutionLimits() { return kLimits; }

std::vector<const ExecutionLimit*> LimitsOf(const plan::Plan& plan) {
  std::vector<const ExecutionLimit*> limits;
  for (const ExecutionLimit& limit : kLimits) {
    if (limit.refuses(plan)) limits.push_back(&limit);
  }
  return limits;
}

}  // namespace stepcast::lowering
