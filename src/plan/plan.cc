#include "src/plan/plan.h"

namespace stepcast::plan {

const char* Name(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::kAdamW:
      return "adamw";
    case Optimizer::kSgd:
      return "sgd";
  }
  return "";
}

const char* Name(OptimizerImplementation implementation) {
  switch (implementation) {
    case OptimizerImplementation::kFused:
      return "fused";
    case OptimizerImplementation::kForeach:
      return "foreach";
    case OptimizerImplementation::kSingle:
      return "single";
  }
  return "";
}

const char* Name(HostWaits waits) {
  switch (waits) {
    case HostWaits::kNever:
      return "never";
    case HostWaits::kStep:
      return "step";
    case HostWaits::kUpdate:
      return "update";
    case HostWaits::kMicroBatch:
      return "micro_batch";
    case HostWaits::kPhase:
      return "phase";
  }
  return "";
}

const char* Name(CheckpointMode mode) {
  switch (mode) {
    case CheckpointMode::kSync:
      return "sync";
    case CheckpointMode::kAsync:
      return "async";
  }
  return "";
}

std::int64_t OptimizerBytesPerParameter(const Training& training) {
  const std::int64_t moments = training.optimizer == Optimizer::kAdamW ? 2 : 1;
  const std::int64_t master = SizeOf(training.parameter_dtype) < SizeOf(DataType::kFp32) ? 1 : 0;
  return (moments + master) * SizeOf(DataType::kFp32);
}

model::WorkOptions WorkOptionsOf(const Plan& plan) {
  const Training& training = plan.training;
  return {.micro_batch_size = training.micro_batch_size,
          .sequence_length = training.sequence_length,
          .compute = training.precision,
          .checkpointing = training.activation_checkpointing,
          .checkpointed_blocks = training.checkpointed_blocks,
          .attention = training.attention,
          .recompute_stops_early = training.checkpoint_early_stop,
          .loss = training.loss,
          .compiled = training.compile,
          .norm = training.norm,
          .rotary = training.rotary,
          .activation_function = training.activation_function,
          .repeat_kv = training.repeat_kv,
          .autocast = training.autocast,
          .tensor = plan.parallelism.tensor,
          .sequence_parallel = plan.parallelism.sequence_parallel,
          .regathers = TraitsOf(plan.data_parallel.framework).megatron_layers,
          .adds_up_parts = plan.parallelism.sequence_parallel &&
                           !TraitsOf(plan.data_parallel.framework).megatron_layers,
          .splits_backward = plan.parallelism.splits_backward};
}

DataType WrittenGradientType(const Training& training) {
  return SizeOf(training.gradient_dtype) < SizeOf(training.parameter_dtype)
             ? training.gradient_dtype
             : training.parameter_dtype;
}

bool AccumulatesApart(const Training& training) {
  return SizeOf(training.gradient_dtype) > SizeOf(WrittenGradientType(training));
}

}  // namespace stepcast::plan
