#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/emit/templates.h"
#include "src/emit/trainers.h"
#include "src/plan/framework_style.h"

namespace stepcast::emit {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
// torch/nn/parallel/distributed.py: buckets of 25 MiB, the first of 1 MiB
// (torch/distributed/__init__.py: _DEFAULT_FIRST_BUCKET_BYTES).
constexpr Bytes kDefaultBucket(25 * kMiB);
constexpr Bytes kDefaultFirstBucket(kMiB);

// Values of pytorch_module.txt, by name. An empty value, or none, makes a condition false.
using Values = std::map<std::string, std::string, std::less<>>;

const char* Boolean(bool value) { return value ? "True" : "False"; }
const char* If(bool condition) { return condition ? "true" : ""; }
std::string Number(std::int64_t number) { return fmt::format("{}", number); }
std::string Above(std::int64_t least, std::int64_t number) {
  return number > least ? Number(number) : "";
}

const char* TorchType(DataType type) {
  switch (type) {
    case DataType::kFp32:
      return "float32";
    case DataType::kBf16:
      return "bfloat16";
    case DataType::kFp16:
      return "float16";
    case DataType::kTf32:
    case DataType::kFp8:
    case DataType::kMxfp8:
    case DataType::kNvfp4:
      break;
  }
  return "";
}

// Keyword arguments of torch.optim's AdamW and SGD.
const char* OptimizerSettings(plan::OptimizerImplementation implementation) {
  switch (implementation) {
    case plan::OptimizerImplementation::kFused:
      return "{\"fused\": True}";
    case plan::OptimizerImplementation::kForeach:
      return "{\"foreach\": True}";
    case plan::OptimizerImplementation::kSingle:
      break;
  }
  return "{\"foreach\": False}";
}

bool IsOfTorch(plan::Optimizer optimizer) {
  return optimizer == plan::Optimizer::kAdamW || optimizer == plan::Optimizer::kSgd;
}

// The values that all three modules have: the training loop, recomputation and the optimizer.
Values TrainingValues(const scenario::Scenario& scenario) {
  const plan::Plan& plan = scenario.plan;
  const plan::Training& training = plan.training;
  const plan::DataParallel& data_parallel = plan.data_parallel;
  const model::Share& blocks = training.checkpointed_blocks;
  const bool recomputes = training.activation_checkpointing != model::Checkpointing::kNone;
  return {
      {plan::Name(data_parallel.framework), "true"},
      {plan::Name(training.optimizer), "true"},
      {"sequence_length", Number(training.sequence_length)},
      {"micro_batch_size", Number(training.micro_batch_size)},
      {"gradient_accumulation", Number(training.gradient_accumulation)},
      {"world_size", Number(plan.parallelism.data)},
      {"compute_dtype", TorchType(plan::ComputeType(training.precision))},
      {"parameter_dtype", TorchType(training.parameter_dtype)},
      {"reduce_dtype", TorchType(training.reduce_dtype)},
      {"allow_tf32", Boolean(training.precision == DataType::kTf32)},
      {"architecture", If(std::holds_alternative<model::Architecture>(scenario.model->source))},
      {"attention", model::Name(training.attention)},
      {"loss", model::Name(training.loss)},
      {"compile", Boolean(training.compile)},
      {"activation_checkpointing", model::Name(training.activation_checkpointing)},
      {"recomputes", If(recomputes)},
      {"first_blocks", Above(0, blocks.first)},
      {"part", Number(blocks.part)},
      {"of", Number(blocks.of)},
      {"blocks_per_checkpoint", Above(1, training.blocks_per_checkpoint)},
      {"activation_offload", Boolean(training.activation_offload)},
      // torch.autograd.graph.save_on_cpu would also save parameters, which the module holds anyway.
      {"offloads", !training.activation_offload           ? ""
                   : plan.software.torch >= Version{2, 0} ? "untyped_storage"
                                                          : "storage"},
      {"gradient_clipping",
       training.gradient_clipping ? fmt::format("{}", *training.gradient_clipping) : "None"},
      {"clips_itself",
       If(plan::TraitsOf(data_parallel.framework).clipping == plan::ClippingKernels::kFsdp1)},
      {"distributed", If(plan::StyleOf(data_parallel.framework).distributed_tensors)},
      {"of_torch", If(IsOfTorch(training.optimizer))},
      {"torch_settings", OptimizerSettings(training.optimizer_implementation)},
      {"optimizer_in_backward", If(training.optimizer_in_backward)},
  };
}

// The values that both modules of sharded parameters have.
void AddUnits(const plan::Plan& plan, DataType gathered, Values& values) {
  const plan::DataParallel& data_parallel = plan.data_parallel;
  values.merge(Values{
      {"shard_group_size", Number(data_parallel.shard_group_size)},
      {"gathered_dtype", TorchType(gathered)},
      {"accumulate_unsharded", If(data_parallel.accumulate_unsharded)},
      {"cpu_offload", If(data_parallel.cpu_offload)},
      {"layer_units", If(data_parallel.units == plan::WrappedUnits::kLayer)},
      {"one_unit", If(data_parallel.units == plan::WrappedUnits::kModel)},
      {"block_units", If(data_parallel.units == plan::WrappedUnits::kBlock)},
  });
}

}  // namespace

Target DdpModule(const scenario::Scenario& scenario) {
  const plan::Plan& plan = scenario.plan;
  const plan::DataParallel& data_parallel = plan.data_parallel;
  const Bytes bucket = data_parallel.bucket_size.value_or(kDefaultBucket);
  const Bytes first = data_parallel.first_bucket_size.value_or(kDefaultFirstBucket);
  // Since torch 2.0 a given bucket size also applies to the first bucket.
  const bool one_size = plan.software.torch >= Version{2, 0};
  bool give_size = bucket != kDefaultBucket;
  bool give_first = first != kDefaultFirstBucket;
  if (one_size) {
    if (give_size && first != bucket) {
      return CannotRun(
          fmt::format("torch {}.{} uses one size for all buckets, unless bucket_size is 25 MiB: "
                      "first_bucket_size is {}, and bucket_size is {}",
                      plan.software.torch.major, plan.software.torch.minor, ExactBytes(first),
                      ExactBytes(bucket)));
    }
    if (first == bucket) {
      give_size = true;
      give_first = false;
    }
  }
  const bool powersgd = data_parallel.comm_hook == plan::CommHook::kPowerSgd;
  const bool hook = data_parallel.comm_hook != plan::CommHook::kNone;
  const plan::PowerSgd& state = data_parallel.powersgd;
  Values values = TrainingValues(scenario);
  values.merge(Values{
      // Bytes divided by a power of two have an exact decimal form in MiB; torch truncates others
      // with int().
      {"bucket_bytes", give_size ? Number(bucket.count()) : ""},
      {"first_bucket_bytes", give_first ? Number(first.count()) : "None"},
      {"gradient_as_bucket_view", Boolean(data_parallel.gradient_as_bucket_view)},
      {"find_unused_parameters", Boolean(data_parallel.find_unused_parameters)},
      {"comm_hook", hook ? plan::Name(data_parallel.comm_hook) : ""},
      {"powersgd", powersgd ? Number(state.rank) : ""},
      {"start_iteration", Number(state.start_iteration)},
      {"min_compression_rate", fmt::format("{}", state.min_compression_rate)},
      {"error_feedback", Boolean(state.error_feedback)},
      {"warm_start", Boolean(state.warm_start)},
      {"no_sync", If(data_parallel.no_sync)},
  });
  return Filled(PytorchModule(), values);
}

Target FullyShardedModule(const scenario::Scenario& scenario) {
  const plan::Plan& plan = scenario.plan;
  const plan::DataParallel& data_parallel = plan.data_parallel;
  const bool hybrid = data_parallel.shard_group_size < plan.parallelism.data;
  const bool full = data_parallel.zero_stage == 3;
  if (hybrid && plan.software.torch < Version{2, 0}) {
    return CannotRun("hybrid sharding needs torch 2.0 or later");
  }
  if (hybrid && !scenario.cluster->flat() &&
      data_parallel.shard_group_size != scenario.cluster->gpus_per_node() &&
      plan.software.torch < Version{2, 2}) {
    return CannotRun(
        "hybrid sharding over groups other than the GPUs of a node needs a device mesh, and torch "
        "2.2 or later");
  }
  if (data_parallel.use_orig_params && plan.software.torch < Version{2, 0}) {
    return CannotRun("use_orig_params needs torch 2.0 or later");
  }
  const char* strategy = hybrid ? (full ? "HYBRID_SHARD" : "_HYBRID_SHARD_ZERO2")
                                : (full ? "FULL_SHARD" : "SHARD_GRAD_OP");
  const char* backward =
      data_parallel.backward_prefetch == plan::BackwardPrefetch::kPre    ? "\"BACKWARD_PRE\""
      : data_parallel.backward_prefetch == plan::BackwardPrefetch::kPost ? "\"BACKWARD_POST\""
                                                                         : "None";
  if (data_parallel.unit_blocks > 1) {
    return CannotRun(
        "with FSDP, several blocks form a unit only if the model's code has a module with these "
        "blocks (data_parallel.unit_blocks)");
  }
  Values values = TrainingValues(scenario);
  AddUnits(plan,
           plan.training.autocast ? plan.training.parameter_dtype
                                  : plan::ComputeType(plan.training.precision),
           values);
  // Settings missing in a release have the value of its fixed behavior.
  values.merge(Values{
      {"sharding_strategy", strategy},
      {"backward_prefetch", backward},
      {"has_forward_prefetch", If(plan.software.torch >= Version{1, 13})},
      {"forward_prefetch", Boolean(data_parallel.forward_prefetch)},
      {"limit_all_gathers", Boolean(data_parallel.limit_all_gathers)},
      {"has_orig_params", If(plan.software.torch >= Version{2, 0})},
      {"use_orig_params", Boolean(data_parallel.use_orig_params)},
  });
  return Filled(PytorchModule(), values);
}

Target FullyShardModule(const scenario::Scenario& scenario) {
  const plan::Plan& plan = scenario.plan;
  const plan::DataParallel& data_parallel = plan.data_parallel;
  if (data_parallel.prefetch == 0) {
    return CannotRun(
        "fully_shard always prefetches the next unit in backward (data_parallel.prefetch is 0)");
  }
  std::string reshard;
  if (const auto* ranks = std::get_if<std::int64_t>(&data_parallel.reshard_after_forward)) {
    reshard = std::to_string(*ranks);
  } else {
    reshard = Boolean(std::get<bool>(data_parallel.reshard_after_forward));
  }
  const bool several = data_parallel.unit_blocks > 1;
  // torch/distributed/_composable/fsdp/fully_shard.py: accepts lists of modules since 2.5.
  if (several && plan.software.torch < Version{2, 5}) {
    return CannotRun(
        "a unit of several blocks needs fully_shard of torch 2.5 or later "
        "(data_parallel.unit_blocks)");
  }
  Values values = TrainingValues(scenario);
  AddUnits(plan, plan::ComputeType(plan.training.precision), values);
  values.merge(Values{
      {"reshard_after_forward", std::move(reshard)},
      {"prefetch", Number(data_parallel.prefetch)},
      {"unit_blocks", Above(1, data_parallel.unit_blocks)},
      // fully_shard is in `torch.distributed.fsdp` since torch 2.6.
      {"fully_shard_module", plan.software.torch >= Version{2, 6}
                                 ? "torch.distributed.fsdp"
                                 : "torch.distributed._composable.fsdp"},
  });
  return Filled(PytorchModule(), values);
}

Target PytorchSettings(const scenario::Scenario& scenario) {
  if (IsQuantized(scenario.plan.training.precision)) {
    return CannotRun("the emitted module computes only in 16 or 32 bits (training.precision)");
  }
  const plan::Training& training = scenario.plan.training;
  if (IsOfTorch(training.optimizer) &&
      (plan::KeepsMasterWeights(training) || !plan::HasStatesOfUpdatedType(training))) {
    return CannotRun(
        "torch.optim has no master weights, and stores moments in the data type of the parameters "
        "(training.master_weights, training.optimizer_state_dtype)");
  }
  if (scenario.plan.parallelism.pipeline > 1) {
    return CannotRun("the emitted module does not support pipeline stages (parallelism.pipeline)");
  }
  if (scenario.plan.parallelism.tensor > 1) {
    return CannotRun(
        "the emitted module shards only over data-parallel ranks "
        "(parallelism.tensor)");
  }
  if (scenario.plan.parallelism.context > 1) {
    return CannotRun(
        "the emitted module does not divide sequences among ranks (parallelism.context)");
  }
  if (const auto module = TrainerOf(scenario.plan).module) return module(scenario);
  return CannotRun("the plan's framework is not ddp, fsdp1 or fsdp2");
}

Target LaunchPytorch(const scenario::Scenario& scenario,
                     const model::NumericalConstants& constants) {
  if (TorchtitanConfig(scenario, constants)) {
    return "if [ -n \"${TRAIN:-}\" ]; then\n"
           "  set -- \"$TRAIN\" \"$@\"\n"
           "else  # torchtitan must be installed, or its checkout must be the working directory\n"
           "  set -- -m torchtitan.train --job.config_file \"$here/torchtitan.toml\" \"$@\"\n"
           "fi\n";
  }
  if (const Target settings = PytorchSettings(scenario); !settings) {
    return CannotRun(settings.error());
  }
  return "# TRAIN is your training script, which imports the settings in this folder.\n"
         "export PYTHONPATH=\"$here${PYTHONPATH:+:$PYTHONPATH}\"\n"
         "set -- \"${TRAIN:?set TRAIN to your training script}\" \"$@\"\n";
}

}  // namespace stepcast::emit
