#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/emit/target.h"

namespace stepcast::emit {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
// torch/nn/parallel/distributed.py: buckets of 25 MiB, the first of 1 MiB
// (torch/distributed/__init__.py: _DEFAULT_FIRST_BUCKET_BYTES).
constexpr Bytes kDefaultBucket(25 * kMiB);
constexpr Bytes kDefaultFirstBucket(kMiB);

const char* Boolean(bool value) { return value ? "True" : "False"; }

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
      break;
  }
  return "";
}

// What every module says of the training loop, which is the user's.
std::string Training(const plan::Training& training, const plan::Plan& plan) {
  std::string text;
  text += fmt::format("SEQUENCE_LENGTH = {}\n", training.sequence_length);
  text += fmt::format("MICRO_BATCH_SIZE = {}  # sequences per GPU\n", training.micro_batch_size);
  text += fmt::format("GRADIENT_ACCUMULATION = {}  # micro-batches per step\n",
                      training.gradient_accumulation);
  text += fmt::format("WORLD_SIZE = {}\n", plan.parallelism.data);
  text += fmt::format("COMPUTE_DTYPE = \"{}\"\n", TorchType(plan::ComputeType(training.precision)));
  text += fmt::format("PARAMETER_DTYPE = \"{}\"\n", TorchType(training.parameter_dtype));
  text += fmt::format("COMPILE = {}\n", Boolean(training.compile));
  text += fmt::format("ACTIVATION_CHECKPOINTING = \"{}\"\n",
                      model::Name(training.activation_checkpointing));
  text += training.optimizer == plan::Optimizer::kAdamW ? "OPTIMIZER = \"AdamW\"\n"
                                                        : "OPTIMIZER = \"SGD\"  # with momentum\n";
  text += fmt::format("OPTIMIZER_SETTINGS = {{\"{}\": True}}\n",
                      plan::Name(training.optimizer_implementation));
  return text;
}

std::string Head(const char* what) {
  return fmt::format(
      "\"\"\"{}\n\nWritten by `stepcast`; plan.json beside it is the whole plan. Constants are the "
      "plan, functions\napply them; the training loop is yours.\n\"\"\"\n\n",
      what);
}

Target Ddp(const scenario::Scenario& scenario) {
  const plan::Plan& plan = scenario.plan;
  const plan::DataParallel& data_parallel = plan.data_parallel;
  const Bytes bucket = data_parallel.bucket_size.value_or(kDefaultBucket);
  const Bytes first = data_parallel.first_bucket_size.value_or(kDefaultFirstBucket);
  // Since torch 2.0 a bucket size that is given is that of the first bucket, too.
  const bool one_size = plan.software.torch >= plan::Version{2, 0};
  bool give_size = bucket != kDefaultBucket;
  bool give_first = first != kDefaultFirstBucket;
  if (one_size) {
    if (give_size && first != bucket) {
      return CannotRun(fmt::format(
          "torch {}.{} has one size for the first and all other buckets where it is not 25 MiB: "
          "first_bucket_size {}, bucket_size {}",
          plan.software.torch.major, plan.software.torch.minor, ExactBytes(first),
          ExactBytes(bucket)));
    }
    if (first == bucket) {
      give_size = true;
      give_first = false;
    }
  }
  std::string text = Head("DistributedDataParallel as planned.");
  text += Training(plan.training, plan);
  text += "\n# Arguments of torch.nn.parallel.DistributedDataParallel.\nDDP = {\n";
  if (give_size) {
    // A power of two of bytes in MiB has an exact decimal form; others are cut by int() as torch
    // does it.
    text += fmt::format("    \"bucket_cap_mb\": {} / 2**20,\n", bucket.count());
  }
  text += fmt::format("    \"gradient_as_bucket_view\": {},\n",
                      Boolean(data_parallel.gradient_as_bucket_view));
  text += fmt::format("    \"find_unused_parameters\": {},\n",
                      Boolean(data_parallel.find_unused_parameters));
  text += "    \"static_graph\": False,\n}\n";
  text += fmt::format(
      "# Of torch.distributed, a private name that its own code tells users to set; None: as it "
      "is.\nFIRST_BUCKET_BYTES = {}\n\n\n",
      give_first ? std::to_string(first.count()) : "None");
  text +=
      "def parallelize(model, device_ids=None):\n"
      "    \"\"\"The model, on its device and in PARAMETER_DTYPE, as "
      "DistributedDataParallel.\"\"\"\n"
      "    import torch.distributed as dist\n"
      "    from torch.nn.parallel import DistributedDataParallel\n"
      "\n"
      "    if FIRST_BUCKET_BYTES is not None:\n"
      "        dist._DEFAULT_FIRST_BUCKET_BYTES = FIRST_BUCKET_BYTES\n"
      "    return DistributedDataParallel(model, device_ids=device_ids, **DDP)\n"
      "\n"
      "\n"
      "def micro_batch(model, index):\n"
      "    \"\"\"The context for micro-batch `index`: gradients are reduced in the last "
      "one.\"\"\"\n"
      "    import contextlib\n"
      "\n"
      "    last = index == GRADIENT_ACCUMULATION - 1\n"
      "    return contextlib.nullcontext() if last else model.no_sync()\n";
  return text;
}

Target Fsdp1(const scenario::Scenario& scenario) {
  const plan::Plan& plan = scenario.plan;
  const plan::DataParallel& data_parallel = plan.data_parallel;
  const bool hybrid = data_parallel.shard_group_size < plan.parallelism.data;
  const bool full = data_parallel.zero_stage == 3;
  if (hybrid && plan.software.torch < plan::Version{2, 0}) {
    return CannotRun("hybrid sharding came with torch 2.0");
  }
  if (hybrid && !scenario.cluster->flat() &&
      data_parallel.shard_group_size != scenario.cluster->gpus_per_node() &&
      plan.software.torch < plan::Version{2, 2}) {
    return CannotRun(
        "hybrid sharding over groups other than a node's GPUs needs a device mesh, which came "
        "with torch 2.2");
  }
  if (data_parallel.use_orig_params && plan.software.torch < plan::Version{2, 0}) {
    return CannotRun("use_orig_params came with torch 2.0");
  }
  const char* strategy = hybrid ? (full ? "HYBRID_SHARD" : "_HYBRID_SHARD_ZERO2")
                                : (full ? "FULL_SHARD" : "SHARD_GRAD_OP");
  const char* backward =
      data_parallel.backward_prefetch == plan::BackwardPrefetch::kPre    ? "\"BACKWARD_PRE\""
      : data_parallel.backward_prefetch == plan::BackwardPrefetch::kPost ? "\"BACKWARD_POST\""
                                                                         : "None";
  std::string text = Head("FullyShardedDataParallel as planned.");
  text += Training(plan.training, plan);
  text += fmt::format("SHARD_GROUP_SIZE = {}  # ranks that share one copy of the states\n",
                      data_parallel.shard_group_size);
  text +=
      "\n# Arguments of torch.distributed.fsdp.FullyShardedDataParallel, enumerations by name.\n";
  text += "FSDP = {\n";
  text += fmt::format("    \"sharding_strategy\": \"{}\",\n", strategy);
  text += fmt::format("    \"backward_prefetch\": {},\n", backward);
  // Settings that a release does not have yet are at what it does without them.
  if (plan.software.torch >= plan::Version{1, 13}) {
    text += fmt::format("    \"forward_prefetch\": {},\n", Boolean(data_parallel.forward_prefetch));
    text +=
        fmt::format("    \"limit_all_gathers\": {},\n", Boolean(data_parallel.limit_all_gathers));
  }
  if (plan.software.torch >= plan::Version{2, 0}) {
    text += fmt::format("    \"use_orig_params\": {},\n", Boolean(data_parallel.use_orig_params));
  }
  text += "}\n";
  text += fmt::format("MIXED_PRECISION = {{\"param_dtype\": \"{}\", \"reduce_dtype\": \"{}\"}}\n",
                      TorchType(plan::ComputeType(plan.training.precision)),
                      TorchType(plan.training.reduce_dtype));
  text += fmt::format("ACCUMULATE_UNSHARDED = {}  # gradients are reduced once a step\n\n\n",
                      Boolean(data_parallel.accumulate_unsharded));
  text +=
      "def parallelize(model, block_classes):\n"
      "    \"\"\"The model with a unit for each block of these classes, and one for the "
      "rest.\"\"\"\n"
      "    import functools\n"
      "\n"
      "    import torch\n"
      "    from torch.distributed.fsdp import (\n"
      "        BackwardPrefetch,\n"
      "        FullyShardedDataParallel,\n"
      "        MixedPrecision,\n"
      "        ShardingStrategy,\n"
      "    )\n"
      "    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy\n"
      "\n"
      "    settings = dict(FSDP)\n"
      "    settings[\"sharding_strategy\"] = ShardingStrategy[settings[\"sharding_strategy\"]]\n"
      "    if settings[\"backward_prefetch\"] is not None:\n"
      "        settings[\"backward_prefetch\"] = "
      "BackwardPrefetch[settings[\"backward_prefetch\"]]\n"
      "    settings[\"mixed_precision\"] = MixedPrecision(\n"
      "        **{key: getattr(torch, name) for key, name in MIXED_PRECISION.items()}\n"
      "    )\n"
      "    if SHARD_GROUP_SIZE < WORLD_SIZE and SHARD_GROUP_SIZE != torch.cuda.device_count():\n"
      "        from torch.distributed.device_mesh import init_device_mesh\n"
      "\n"
      "        settings[\"device_mesh\"] = init_device_mesh(\n"
      "            \"cuda\", (WORLD_SIZE // SHARD_GROUP_SIZE, SHARD_GROUP_SIZE)\n"
      "        )\n"
      "    policy = functools.partial(\n"
      "        transformer_auto_wrap_policy, transformer_layer_cls=set(block_classes)\n"
      "    )\n"
      "    return FullyShardedDataParallel(model, auto_wrap_policy=policy, **settings)\n"
      "\n"
      "\n"
      "def micro_batch(model, index):\n"
      "    \"\"\"The context for micro-batch `index` of a step.\"\"\"\n"
      "    import contextlib\n"
      "\n"
      "    last = index == GRADIENT_ACCUMULATION - 1\n"
      "    if last or not ACCUMULATE_UNSHARDED:\n"
      "        return contextlib.nullcontext()\n"
      "    return model.no_sync()\n";
  return text;
}

Target Fsdp2(const scenario::Scenario& scenario) {
  const plan::Plan& plan = scenario.plan;
  const plan::DataParallel& data_parallel = plan.data_parallel;
  if (data_parallel.prefetch == 0) {
    return CannotRun(
        "fully_shard cannot be kept from gathering the next unit of backward: prefetch 0");
  }
  std::string reshard;
  if (const auto* ranks = std::get_if<std::int64_t>(&data_parallel.reshard_after_forward)) {
    reshard = std::to_string(*ranks);
  } else {
    reshard = Boolean(std::get<bool>(data_parallel.reshard_after_forward));
  }
  std::string text = Head("FSDP2 (fully_shard) as planned.");
  text += Training(plan.training, plan);
  text += fmt::format("SHARD_GROUP_SIZE = {}  # ranks that share one copy of the states\n",
                      data_parallel.shard_group_size);
  text += "\n# Arguments of fully_shard, for every block and for the root.\n";
  text += fmt::format("FULLY_SHARD = {{\"reshard_after_forward\": {}}}\n", reshard);
  text += fmt::format("MIXED_PRECISION = {{\"param_dtype\": \"{}\", \"reduce_dtype\": \"{}\"}}\n",
                      TorchType(plan::ComputeType(plan.training.precision)),
                      TorchType(plan.training.reduce_dtype));
  text += fmt::format("PREFETCH = {}  # units gathered ahead; 1 is what fully_shard does itself\n",
                      data_parallel.prefetch);
  text += fmt::format("ACCUMULATE_UNSHARDED = {}  # gradients are reduced once a step\n\n\n",
                      Boolean(data_parallel.accumulate_unsharded));
  // `torch.distributed.fsdp` has fully_shard since torch 2.6.
  const char* module = plan.software.torch >= plan::Version{2, 6}
                           ? "torch.distributed.fsdp"
                           : "torch.distributed._composable.fsdp";
  text += fmt::format(
      "def parallelize(model, blocks):\n"
      "    \"\"\"Shards the model in place: a unit for each block in order, one for the "
      "rest.\"\"\"\n"
      "    import torch\n"
      "    from torch.distributed.device_mesh import init_device_mesh\n"
      "    from {} import MixedPrecisionPolicy, fully_shard\n"
      "\n"
      "    if SHARD_GROUP_SIZE < WORLD_SIZE:\n"
      "        mesh = init_device_mesh(\n"
      "            \"cuda\",\n"
      "            (WORLD_SIZE // SHARD_GROUP_SIZE, SHARD_GROUP_SIZE),\n"
      "            mesh_dim_names=(\"replicate\", \"shard\"),\n"
      "        )\n"
      "    else:\n"
      "        mesh = init_device_mesh(\"cuda\", (WORLD_SIZE,))\n"
      "    policy = MixedPrecisionPolicy(\n"
      "        **{{key: getattr(torch, name) for key, name in MIXED_PRECISION.items()}}\n"
      "    )\n"
      "    blocks = list(blocks)\n"
      "    for block in blocks:\n"
      "        fully_shard(block, mesh=mesh, mp_policy=policy, **FULLY_SHARD)\n"
      "    fully_shard(model, mesh=mesh, mp_policy=policy, **FULLY_SHARD)\n"
      "    if PREFETCH > 1:\n"
      "        for i, block in enumerate(blocks):\n"
      "            block.set_modules_to_forward_prefetch(blocks[i + 1 : i + 1 + PREFETCH])\n"
      "            block.set_modules_to_backward_prefetch(blocks[max(i - PREFETCH, 0) : i][::-1])\n"
      "    return model\n"
      "\n"
      "\n"
      "def begin_micro_batch(model, index):\n"
      "    \"\"\"To be called before the forward of micro-batch `index` of a step.\"\"\"\n"
      "    last = index == GRADIENT_ACCUMULATION - 1\n"
      "    model.set_requires_gradient_sync(last or not ACCUMULATE_UNSHARDED)\n"
      "    model.set_is_last_backward(last)\n",
      module);
  return text;
}

}  // namespace

Target PytorchSettings(const scenario::Scenario& scenario) {
  switch (scenario.plan.data_parallel.framework) {
    case plan::Framework::kDdp:
      return Ddp(scenario);
    case plan::Framework::kFsdp1:
      return Fsdp1(scenario);
    case plan::Framework::kFsdp2:
      return Fsdp2(scenario);
    case plan::Framework::kReference:
    case plan::Framework::kDeepSpeed:
    case plan::Framework::kMegatron:
    case plan::Framework::kInternEvo:
      break;
  }
  return CannotRun("the plan's framework is not ddp, fsdp1 or fsdp2");
}

}  // namespace stepcast::emit
