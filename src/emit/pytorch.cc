#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/emit/trainers.h"
#include "src/plan/framework_style.h"

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

// The optimizer's name, its package, and its keyword arguments.
std::string OptimizerText(const plan::Plan& plan) {
  const plan::Training& training = plan.training;
  const bool distributed = plan::StyleOf(plan.data_parallel.framework).distributed_tensors;
  const char* name = "\"AdamW\"";
  const char* settings = "{}";
  switch (training.optimizer) {
    case plan::Optimizer::kAdamW:
      settings = OptimizerSettings(training.optimizer_implementation);
      break;
    case plan::Optimizer::kSgd:
      name = "\"SGD\"  # with momentum";
      settings = OptimizerSettings(training.optimizer_implementation);
      break;
    case plan::Optimizer::kLamb:
      name = "\"FusedLAMB\"  # apex.optimizers";
      break;
    case plan::Optimizer::kAdamW8bit:
      name = distributed ? "\"AdamW8bit\"  # torchao.optim"
                         : "\"AdamW8bit\"  # bitsandbytes.optim; embeddings in 32 bits";
      break;
    case plan::Optimizer::kLion:
      name = "\"Lion32bit\"  # bitsandbytes.optim";
      break;
    case plan::Optimizer::kAdafactor:
      name = "\"Adafactor\"  # transformers.optimization";
      settings = "{\"scale_parameter\": False, \"relative_step\": False}";
      break;
    case plan::Optimizer::kMuon:
      name = distributed
                 ? "\"Muon\"  # dion, for the matrices of blocks; AdamW for all other parameters"
                 : "\"Muon\"  # torch.optim, for the matrices of blocks; AdamW for all other "
                   "parameters";
      break;
  }
  std::string text = fmt::format("OPTIMIZER = {}\nOPTIMIZER_SETTINGS = {}\n", name, settings);
  if (training.optimizer == plan::Optimizer::kMuon) {
    text +=
        fmt::format("ADAMW_SETTINGS = {}\n", OptimizerSettings(training.optimizer_implementation));
  }
  if (training.optimizer_in_backward) {
    text += "OPTIMIZER_IN_BACKWARD = True  # a post-accumulate-grad hook updates each parameter\n";
  }
  return text;
}

// The comment in every module about the user's training loop.
std::string Training(const scenario::Scenario& scenario) {
  const plan::Plan& plan = scenario.plan;
  const plan::Training& training = plan.training;
  std::string text;
  text += fmt::format("SEQUENCE_LENGTH = {}\n", training.sequence_length);
  text += fmt::format("MICRO_BATCH_SIZE = {}  # sequences per GPU\n", training.micro_batch_size);
  text += fmt::format("GRADIENT_ACCUMULATION = {}  # micro-batches per step\n",
                      training.gradient_accumulation);
  text += fmt::format("WORLD_SIZE = {}\n", plan.parallelism.data);
  text += fmt::format("COMPUTE_DTYPE = \"{}\"\n", TorchType(plan::ComputeType(training.precision)));
  text += fmt::format("PARAMETER_DTYPE = \"{}\"\n", TorchType(training.parameter_dtype));
  text += fmt::format("ALLOW_TF32 = {}  # in multiplications of 32-bit matrices\n",
                      Boolean(training.precision == DataType::kTf32));
  if (std::holds_alternative<model::Architecture>(scenario.model->source)) {
    text += fmt::format("ATTENTION = \"{}\"\n", model::Name(training.attention));
    text += fmt::format("LOSS = \"{}\"\n", model::Name(training.loss));
  }
  text += fmt::format("COMPILE = {}\n", Boolean(training.compile));
  text += fmt::format("ACTIVATION_CHECKPOINTING = \"{}\"\n",
                      model::Name(training.activation_checkpointing));
  if (training.activation_checkpointing != model::Checkpointing::kNone) {
    const model::Share& blocks = training.checkpointed_blocks;
    text += blocks.first > 0
                ? fmt::format("CHECKPOINTED_BLOCKS = {}  # the first blocks of the model\n",
                              blocks.first)
                : fmt::format(
                      "CHECKPOINTED_BLOCKS = ({}, {})  # (part, total): this part of the blocks, "
                      "evenly spaced\n",
                      blocks.part, blocks.of);
    if (training.blocks_per_checkpoint > 1) {
      text += fmt::format(
          "BLOCKS_PER_CHECKPOINT = {}  # blocks under one reentrant checkpoint, as in "
          "torch.utils.checkpoint.checkpoint_sequential\n",
          training.blocks_per_checkpoint);
    }
  }
  text += fmt::format("ACTIVATION_OFFLOAD = {}\n", Boolean(training.activation_offload));
  text += fmt::format(
      "GRADIENT_CLIPPING = {}  # the largest norm of all gradients together\n",
      training.gradient_clipping ? fmt::format("{}", *training.gradient_clipping) : "None");
  return text + OptimizerText(scenario.plan);
}

std::string AccumulateUnsharded(const plan::DataParallel& data_parallel) {
  return data_parallel.accumulate_unsharded
             ? "ACCUMULATE_UNSHARDED = True  # gradients are reduced once a step\n\n\n"
             : "ACCUMULATE_UNSHARDED = False  # gradients are reduced in every micro-batch\n\n\n";
}

// The functions of every module for the plan's settings of loop and blocks.
std::string Functions(const plan::Plan& plan) {
  const plan::Training& training = plan.training;
  std::string text = "\n\n";
  text +=
      "def clip_gradients(model):\n"
      "    \"\"\"Call this after the last backward of a step, before the update.\"\"\"\n"
      "    if GRADIENT_CLIPPING is None:\n"
      "        return\n";
  if (plan::TraitsOf(plan.data_parallel.framework).clipping == plan::ClippingKernels::kFsdp1) {
    text += "    model.clip_grad_norm_(GRADIENT_CLIPPING)\n";
  } else {
    text +=
        "    import torch\n"
        "\n"
        "    torch.nn.utils.clip_grad_norm_(model.parameters(), GRADIENT_CLIPPING)\n";
  }
  if (training.activation_checkpointing != model::Checkpointing::kNone) {
    text +=
        "\n\n"
        "def recomputes(block):\n"
        "    \"\"\"Whether the block with this number, from 0, is checkpointed.\"\"\"\n";
    if (training.checkpointed_blocks.first > 0) {
      text += "    return block < CHECKPOINTED_BLOCKS\n";
    } else {
      text +=
          "    part, of = CHECKPOINTED_BLOCKS\n"
          "\n"
          "    def before(number):\n"
          "        return (2 * number * part + of) // (2 * of)\n"
          "\n"
          "    return before(block + 1) > before(block)\n";
    }
  }
  if (training.activation_offload) {
    // torch.autograd.graph.save_on_cpu would also save parameters, which the module holds anyway.
    text += fmt::format(
        "\n\n"
        "def keep_on_host(block):\n"
        "    \"\"\"The context for the forward of each block except the last.\n"
        "\n"
        "    The tensors that the block saves for backward, except parameters, stay in host "
        "memory. In the\n"
        "    plan, their copies overlap the next block's kernels. torch copies them between "
        "kernels.\n"
        "    \"\"\"\n"
        "    import torch\n"
        "\n"
        "    host = torch.autograd.graph.save_on_cpu(pin_memory=True)\n"
        "\n"
        "    def address(tensor):\n"
        "        return tensor.{}().data_ptr()\n"
        "\n"
        "    def pack(tensor):\n"
        "        if address(tensor) in [address(parameter) for parameter in block.parameters()]:\n"
        "            return True, tensor\n"
        "        return False, host.pack_hook(tensor)\n"
        "\n"
        "    def unpack(kept):\n"
        "        stays, tensor = kept\n"
        "        return tensor if stays else host.unpack_hook(tensor)\n"
        "\n"
        "    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)\n",
        plan.software.torch >= Version{2, 0} ? "untyped_storage" : "storage");
  }
  return text;
}

constexpr const char* kSetTf32 = "    torch.backends.cuda.matmul.allow_tf32 = ALLOW_TF32\n";

std::string Head(const char* what) {
  return fmt::format(
      "\"\"\"{}\n\n"
      "Written by `stepcast`. plan.json in this folder is the complete plan. The constants are the "
      "settings\n"
      "of the plan, and the functions apply the settings. You write the training loop.\n"
      "\"\"\"\n\n",
      what);
}

// The functions that wrap a model and begin a micro-batch with DistributedDataParallel.
std::string DdpFunctions(const plan::DataParallel& data_parallel) {
  std::string text =
      "def parallelize(model, device_ids=None):\n"
      "    \"\"\"The model, on its device and in PARAMETER_DTYPE, as "
      "DistributedDataParallel.\"\"\"\n"
      "    import torch\n"
      "    import torch.distributed as dist\n"
      "    from torch.nn.parallel import DistributedDataParallel\n"
      "\n";
  text += kSetTf32;
  text +=
      "    if FIRST_BUCKET_BYTES is not None:\n"
      "        dist._DEFAULT_FIRST_BUCKET_BYTES = FIRST_BUCKET_BYTES\n"
      "    model = DistributedDataParallel(model, device_ids=device_ids, **DDP)\n";
  if (data_parallel.comm_hook == plan::CommHook::kPowerSgd) {
    text +=
        "    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook\n"
        "\n"
        "    state = powerSGD_hook.PowerSGDState(process_group=None, **POWERSGD)\n"
        "    model.register_comm_hook(state, getattr(powerSGD_hook, COMM_HOOK))\n";
  } else if (data_parallel.comm_hook != plan::CommHook::kNone) {
    text +=
        "    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
        "\n"
        "    model.register_comm_hook(None, getattr(default_hooks, COMM_HOOK))\n";
  }
  text +=
      "    return model\n"
      "\n"
      "\n"
      "def micro_batch(model, index):\n";
  text += data_parallel.no_sync
              ? "    \"\"\"The context for micro-batch `index`: the last micro-batch reduces the "
                "gradients.\"\"\"\n"
                "    import contextlib\n\n"
                "    last = index == GRADIENT_ACCUMULATION - 1\n"
                "    return contextlib.nullcontext() if last else model.no_sync()\n"
              : "    \"\"\"The context for micro-batch `index`: each micro-batch reduces its "
                "gradients.\"\"\"\n"
                "    import contextlib\n\n"
                "    return contextlib.nullcontext()\n";
  return text;
}

// The functions that wrap a model and begin a micro-batch with FullyShardedDataParallel.
std::string FullyShardedFunctions(const plan::DataParallel& data_parallel) {
  const bool layers = data_parallel.units == plan::WrappedUnits::kLayer;
  const bool whole = data_parallel.units == plan::WrappedUnits::kModel;
  std::string text =
      layers  ? "def parallelize(model, block_classes, embedding, head):\n"
                "    \"\"\"The model with a unit for each block of these classes, and a unit for "
                "the other layers.\n\n"
                "    The embedding and the head are also units, unless they share a tensor.\n"
                "    \"\"\"\n"
      : whole ? "def parallelize(model, block_classes):\n"
                "    \"\"\"The model as one FSDP unit.\"\"\"\n"
              : "def parallelize(model, block_classes):\n"
                "    \"\"\"The model with a unit for each block of these classes, and a unit for "
                "the other layers.\"\"\"\n"
                "    import functools\n\n";
  text +=
      "    import torch\n"
      "    from torch.distributed.fsdp import (\n"
      "        BackwardPrefetch,\n"
      "        FullyShardedDataParallel,\n"
      "        MixedPrecision,\n"
      "        ShardingStrategy,\n"
      "    )\n";
  if (!layers && !whole) {
    text += "    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy\n";
  }
  if (data_parallel.cpu_offload) text += "    from torch.distributed.fsdp import CPUOffload\n";
  text += "\n";
  text += kSetTf32;
  text +=
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
      "        )\n";
  if (data_parallel.cpu_offload) {
    text += "    settings[\"cpu_offload\"] = CPUOffload(offload_params=True)\n";
  }
  text += whole ? "    policy = None\n"
          : layers
              ? "    layers = [] if embedding.weight is head.weight else [embedding, head]\n"
                "\n"
                "    def policy(module, recurse, **sizes):\n"
                "        if recurse or isinstance(module, tuple(block_classes)):\n"
                "            return True\n"
                "        return any(module is layer for layer in layers)\n"
                "\n"
              : "    policy = functools.partial(\n"
                "        transformer_auto_wrap_policy, transformer_layer_cls=set(block_classes)\n"
                "    )\n";
  text +=
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

// The functions that shard a model and begin a micro-batch with fully_shard.
std::string FullyShardFunctions(const plan::Plan& plan) {
  const plan::DataParallel& data_parallel = plan.data_parallel;
  const bool layers = data_parallel.units == plan::WrappedUnits::kLayer;
  const bool whole = data_parallel.units == plan::WrappedUnits::kModel;
  const bool several = data_parallel.unit_blocks > 1;
  // fully_shard is in `torch.distributed.fsdp` since torch 2.6.
  const char* module = plan.software.torch >= Version{2, 6} ? "torch.distributed.fsdp"
                                                            : "torch.distributed._composable.fsdp";
  std::string text =
      layers    ? "def parallelize(model, embedding, blocks, head):\n"
                  "    \"\"\"Shards the model in place: a unit for each block, and a unit for the "
                  "other layers.\n\n"
                  "    The embedding and the head are also units, unless they share a tensor.\n"
                  "    \"\"\"\n"
      : whole   ? "def parallelize(model, blocks):\n"
                  "    \"\"\"Shards the model in place, as one unit.\"\"\"\n"
      : several ? "def parallelize(model, blocks):\n"
                  "    \"\"\"Shards the model in place: units of UNIT_BLOCKS blocks, and a unit "
                  "for the other layers.\"\"\"\n"
                : "def parallelize(model, blocks):\n"
                  "    \"\"\"Shards the model in place: a unit for each block, and a unit for the "
                  "other layers.\"\"\"\n";
  text += fmt::format(
      "    import torch\n"
      "    from torch.distributed.device_mesh import init_device_mesh\n"
      "    from {} import {}MixedPrecisionPolicy, fully_shard\n"
      "\n",
      module, data_parallel.cpu_offload ? "CPUOffloadPolicy, " : "");
  text += kSetTf32;
  text +=
      "    if SHARD_GROUP_SIZE < WORLD_SIZE:\n"
      "        mesh = init_device_mesh(\n"
      "            \"cuda\",\n"
      "            (WORLD_SIZE // SHARD_GROUP_SIZE, SHARD_GROUP_SIZE),\n"
      "            mesh_dim_names=(\"replicate\", \"shard\"),\n"
      "        )\n"
      "    else:\n"
      "        mesh = init_device_mesh(\"cuda\", (WORLD_SIZE,))\n"
      "    policy = MixedPrecisionPolicy(\n"
      "        **{key: getattr(torch, name) for key, name in MIXED_PRECISION.items()}\n"
      "    )\n";
  text += whole     ? "    units = []\n"
          : several ? "    blocks = list(blocks)\n"
                      "    units = [\n"
                      "        blocks[i : i + UNIT_BLOCKS] for i in range(0, len(blocks), "
                      "UNIT_BLOCKS)\n"
                      "    ]\n"
                    : "    units = list(blocks)\n";
  if (layers) {
    text += "    if embedding.weight is not head.weight:\n";
    text += several ? "        units = [[embedding], *units, [head]]\n"
                    : "        units = [embedding, *units, head]\n";
  }
  const char* offload = "";
  if (data_parallel.cpu_offload) {
    text += "    offload = CPUOffloadPolicy()\n";
    offload = "offload_policy=offload, ";
  }
  text += fmt::format(
      "    for unit in units:\n"
      "        fully_shard(unit, mesh=mesh, mp_policy=policy, {0}**FULLY_SHARD)\n"
      "    fully_shard(model, mesh=mesh, mp_policy=policy, {0}**FULLY_SHARD)\n",
      offload);
  if (several)
    text +=
        "    units = [unit[0] for unit in units]  # the first module of a unit has the complete "
        "unit\n";
  text +=
      "    if PREFETCH > 1:\n"
      "        for i, unit in enumerate(units):\n"
      "            unit.set_modules_to_forward_prefetch(units[i + 1 : i + 1 + PREFETCH])\n"
      "            unit.set_modules_to_backward_prefetch(units[max(i - PREFETCH, 0) : i][::-1])\n"
      "    return model\n"
      "\n"
      "\n"
      "def begin_micro_batch(model, index):\n"
      "    \"\"\"Call this before the forward of micro-batch `index` of a step.\"\"\"\n"
      "    last = index == GRADIENT_ACCUMULATION - 1\n"
      "    model.set_requires_gradient_sync(last or not ACCUMULATE_UNSHARDED)\n"
      "    model.set_is_last_backward(last)\n";
  return text;
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
  std::string text = Head("The DistributedDataParallel settings of the plan.");
  text += Training(scenario);
  text += "\n# Arguments of torch.nn.parallel.DistributedDataParallel.\nDDP = {\n";
  if (give_size) {
    // Bytes divided by a power of two have an exact decimal form in MiB; torch truncates others
    // with int().
    text += fmt::format("    \"bucket_cap_mb\": {} / 2**20,\n", bucket.count());
  }
  text += fmt::format("    \"gradient_as_bucket_view\": {},\n",
                      Boolean(data_parallel.gradient_as_bucket_view));
  text += fmt::format("    \"find_unused_parameters\": {},\n",
                      Boolean(data_parallel.find_unused_parameters));
  text += "    \"static_graph\": False,\n}\n";
  const bool powersgd = data_parallel.comm_hook == plan::CommHook::kPowerSgd;
  text +=
      "# A hook of torch.distributed.algorithms.ddp_comm_hooks, or None for the default "
      "all-reduce.\n";
  text += data_parallel.comm_hook == plan::CommHook::kNone
              ? "COMM_HOOK = None\n"
              : fmt::format("COMM_HOOK = \"{}_hook\"\n", plan::Name(data_parallel.comm_hook));
  if (powersgd) {
    const plan::PowerSgd& state = data_parallel.powersgd;
    text += fmt::format(
        "# Arguments of PowerSGDState in "
        "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook.\n"
        "POWERSGD = {{\n"
        "    \"matrix_approximation_rank\": {},\n"
        "    \"start_powerSGD_iter\": {},\n"
        "    \"min_compression_rate\": {},\n"
        "    \"use_error_feedback\": {},\n"
        "    \"warm_start\": {},\n"
        "}}\n",
        state.rank, state.start_iteration, state.min_compression_rate,
        Boolean(state.error_feedback), Boolean(state.warm_start));
  }
  text += fmt::format(
      "# The value for torch.distributed._DEFAULT_FIRST_BUCKET_BYTES, or None for torch's "
      "default.\n"
      "FIRST_BUCKET_BYTES = {}\n\n\n",
      give_first ? std::to_string(first.count()) : "None");
  text += DdpFunctions(data_parallel);
  text += Functions(plan);
  return text;
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
  std::string text = Head("The FullyShardedDataParallel settings of the plan.");
  text += Training(scenario);
  text += fmt::format("SHARD_GROUP_SIZE = {}  # ranks that share one copy of the states\n",
                      data_parallel.shard_group_size);
  text +=
      "\n# Arguments of torch.distributed.fsdp.FullyShardedDataParallel, enumerations by name.\n";
  text += "FSDP = {\n";
  text += fmt::format("    \"sharding_strategy\": \"{}\",\n", strategy);
  text += fmt::format("    \"backward_prefetch\": {},\n", backward);
  // Settings missing in a release have the value of its fixed behavior.
  if (plan.software.torch >= Version{1, 13}) {
    text += fmt::format("    \"forward_prefetch\": {},\n", Boolean(data_parallel.forward_prefetch));
    text +=
        fmt::format("    \"limit_all_gathers\": {},\n", Boolean(data_parallel.limit_all_gathers));
  }
  if (plan.software.torch >= Version{2, 0}) {
    text += fmt::format("    \"use_orig_params\": {},\n", Boolean(data_parallel.use_orig_params));
  }
  text += "}\n";
  text +=
      fmt::format("MIXED_PRECISION = {{\"param_dtype\": \"{}\", \"reduce_dtype\": \"{}\"}}\n",
                  TorchType(plan.training.autocast ? plan.training.parameter_dtype
                                                   : plan::ComputeType(plan.training.precision)),
                  TorchType(plan.training.reduce_dtype));
  text += AccumulateUnsharded(data_parallel);
  text += FullyShardedFunctions(data_parallel);
  text += Functions(plan);
  return text;
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
  std::string text = Head("The FSDP2 settings (fully_shard) of the plan.");
  text += Training(scenario);
  text += fmt::format("SHARD_GROUP_SIZE = {}  # ranks that share one copy of the states\n",
                      data_parallel.shard_group_size);
  text += "\n# Arguments of fully_shard, for every unit and for the root.\n";
  text += fmt::format("FULLY_SHARD = {{\"reshard_after_forward\": {}}}\n", reshard);
  text += fmt::format("MIXED_PRECISION = {{\"param_dtype\": \"{}\", \"reduce_dtype\": \"{}\"}}\n",
                      TorchType(plan::ComputeType(plan.training.precision)),
                      TorchType(plan.training.reduce_dtype));
  text += fmt::format(
      "PREFETCH = {}  # units that are gathered ahead; 1 is the default of fully_shard\n",
      data_parallel.prefetch);
  if (several) {
    text += fmt::format("UNIT_BLOCKS = {}  # blocks per unit\n", data_parallel.unit_blocks);
  }
  text += AccumulateUnsharded(data_parallel);
  text += FullyShardFunctions(plan);
  text += Functions(plan);
  return text;
}

Target PytorchSettings(const scenario::Scenario& scenario) {
  if (IsQuantized(scenario.plan.training.precision)) {
    return CannotRun("the emitted module computes only in 16 or 32 bits (training.precision)");
  }
  const plan::Training& training = scenario.plan.training;
  const bool of_torch =
      training.optimizer == plan::Optimizer::kAdamW || training.optimizer == plan::Optimizer::kSgd;
  if (of_torch && (plan::KeepsMasterWeights(training) || !plan::HasStatesOfUpdatedType(training))) {
    return CannotRun(
        "torch.optim has no master weights, and stores moments in the data type of the parameters "
        "(training.master_weights, training.optimizer_state_dtype)");
  }
  if (scenario.plan.parallelism.pipeline > 1) {
    return CannotRun("the emitted module does not support pipeline stages (parallelism.pipeline)");
  }
  if (scenario.plan.parallelism.tensor > 1) {
    return CannotRun("the emitted module shards only over data-parallel ranks "
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
