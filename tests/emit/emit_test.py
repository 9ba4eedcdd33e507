#!/usr/bin/python3
"""What `simulate --emit` writes: plan.json gives the same forecast, and every file is one that the
program which reads it takes.

Where that program is at hand it is asked: torch.nn.parallel.DistributedDataParallel is constructed
with the emitted arguments (Debian's python3-torch), the shell reads the scripts, tomllib the TOML.
Elsewhere keys and options are held against those that the program documents.
"""

import ast
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))
import test_report

STEPCAST = os.path.abspath("src/cli/stepcast")

# deepspeedai/DeepSpeed@088be892 deepspeed/runtime/constants.py, config.py.
DEEPSPEED_KEYS = {
    "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps",
    "optimizer", "bf16", "fp16", "data_types", "communication_data_type", "zero_optimization",
    "zero_allow_untested_optimizer", "gradient_clipping", "prescale_gradients",
    "activation_checkpointing", "expert_parallel",
    "stepcast_settings",  # which DeepSpeed leaves alone
}
# deepspeedai/DeepSpeed@0067b11e deepspeed/module_inject/auto_ep_config.py.
EXPERT_PARALLEL_KEYS = {"enabled", "autoep_size", "use_grouped_mm"}
# deepspeed/runtime/activation_checkpointing/config.py.
ACTIVATION_CHECKPOINTING_KEYS = {
    "partition_activations", "number_checkpoints", "contiguous_memory_optimization",
    "synchronize_checkpoint_boundary", "profile", "cpu_checkpointing",
}
# deepspeedai/DeepSpeed@1b88ac36 deepspeed/runtime/zero/config.py.
ZERO_KEYS = {
    "stage", "contiguous_gradients", "reduce_scatter", "reduce_bucket_size",
    "allgather_partitions", "allgather_bucket_size", "overlap_comm", "offload_param",
    "offload_optimizer", "sub_group_size", "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold", "stage3_max_live_parameters",
    "stage3_max_reuse_distance", "round_robin_gradients", "zero_hpz_partition_size",
    "zero_quantized_weights", "zero_quantized_gradients",
}
# deepspeed/runtime/zero/offload_config.py.
OFFLOAD_KEYS = {"device", "nvme_path", "buffer_count", "buffer_size", "pin_memory"}

# pytorch/torchtitan@000204a4 torchtitan/config/job_config.py: section, key, type.
TORCHTITAN_KEYS = {
    "model": {"name": str, "flavor": str, "converters": list},
    "optimizer": {"name": str, "implementation": str},
    "training": {"local_batch_size": int, "global_batch_size": int, "seq_len": int,
                 "mixed_precision_param": str, "mixed_precision_reduce": str, "compile": bool,
                 "max_norm": (float, int)},
    "parallelism": {"data_parallel_replicate_degree": int, "data_parallel_shard_degree": int,
                    "fsdp_reshard_after_forward": str, "tensor_parallel_degree": int,
                    "enable_async_tensor_parallel": bool,
                    "pipeline_parallel_degree": int, "context_parallel_degree": int,
                    "pipeline_parallel_schedule": str, "pipeline_parallel_microbatch_size": int,
                    "pipeline_parallel_layers_per_stage": int},
    "activation_checkpoint": {"mode": str, "selective_ac_option": str},
    "float8": {"recipe_name": str},
}
TORCHTITAN_WORDS = {
    "implementation": {"for-loop", "foreach", "fused"},
    "mixed_precision_param": {"bfloat16", "float32"},
    "mixed_precision_reduce": {"float32"},
    "fsdp_reshard_after_forward": {"default", "always", "never"},
    "pipeline_parallel_schedule": {"1F1B", "GPipe", "Interleaved1F1B", "LoopedBFS",
                                   "ZBVZeroBubble", "DualPipeV"},
    "mode": {"selective", "full", "none"},
}

# NVIDIA/Megatron-LM@000c4ac2 megatron/training/arguments.py: the type of the value, None for flags.
MEGATRON_OPTIONS = {
    "num-layers": int, "hidden-size": int, "ffn-hidden-size": int, "num-attention-heads": int,
    "kv-channels": int, "group-query-attention": None, "num-query-groups": int,
    "position-embedding-type": {"learned_absolute", "rope", "mrope", "relative", "none"},
    "seq-length": int, "max-position-embeddings": int, "normalization": {"LayerNorm", "RMSNorm"},
    "swiglu": None, "disable-bias-linear": None, "add-qkv-bias": None,
    "untie-embeddings-and-output-weights": None, "window-size": str, "hidden-dropout": float,
    "attention-dropout": float, "micro-batch-size": int, "global-batch-size": int, "bf16": None,
    "fp16": None, "fp8-format": {"e4m3", "hybrid"},
    "fp8-recipe": {"tensorwise", "delayed", "mxfp8", "blockwise"},
    "fp4-format": {"e2m1"}, "fp4-recipe": {"nvfp4"}, "accumulate-allreduce-grads-in-fp32": None,
    "num-experts": int, "moe-router-topk": int, "moe-ffn-hidden-size": int,
    "moe-shared-expert-intermediate-size": int, "moe-layer-freq": str,
    "moe-router-score-function": {"softmax", "sigmoid", "sqrtsoftplus"},
    "moe-router-pre-softmax": None, "moe-router-num-groups": int, "moe-router-group-topk": int,
    "moe-router-enable-expert-bias": None, "expert-model-parallel-size": int,
    "expert-tensor-parallel-size": int,
    "moe-token-dispatcher-type": {"allgather", "alltoall", "flex"},
    "moe-flex-dispatcher-backend": {"deepep", "hybridep", "ncclep"}, "moe-grouped-gemm": None,
    "moe-use-grouped-tensor": None, "moe-router-dtype": {"fp32", "fp64"},
    "moe-router-fusion": None, "moe-permute-fusion": None, "moe-expert-capacity-factor": float,
    "moe-pad-expert-input-to-capacity": None,
    "grad-reduce-in-bf16": None, "optimizer": {"adam", "sgd"},
    "attention-backend": {"flash", "fused", "unfused", "local", "auto"},
    "cross-entropy-loss-fusion": None, "recompute-granularity": {"full", "selective"},
    "recompute-method": {"uniform", "block"}, "recompute-num-layers": int,
    "recompute-modules": str, "optimizer-cpu-offload": None, "optimizer-offload-fraction": float,
    "overlap-cpu-optimizer-d2h-h2d": None, "use-precision-aware-optimizer": None,
    "exp-avg-dtype": {"fp32", "fp16", "bf16", "fp8"},
    "exp-avg-sq-dtype": {"fp32", "fp16", "bf16", "fp8"},
    "tensor-model-parallel-size": int, "pipeline-model-parallel-size": int,
    "context-parallel-size": int, "cp-comm-type": {"p2p", "a2a", "all_gather", "a2a+p2p"},
    "hierarchical-context-parallel-sizes": str, "use-distributed-optimizer": None, "overlap-param-gather": None,
    "num-distributed-optimizer-instances": int, "overlap-grad-reduce": None,
    "no-align-grad-reduce": None, "no-align-param-gather": None,
    "no-overlap-p2p-communication": None, "no-gradient-accumulation-fusion": None,
    "no-async-tensor-model-parallel-allreduce": None, "make-vocab-size-divisible-by": int,
    "overlap-param-gather-with-optimizer-step": None, "sequence-parallel": None,
    "tp-comm-overlap": None,
    "num-virtual-stages-per-pipeline-rank": int, "pipeline-model-parallel-layout": str,
    "ddp-bucket-size": int, "clip-grad": float, "no-masked-softmax-fusion": None,
    "cpu-offloading-num-layers": int, "norm-epsilon": float, "rotary-base": int,
    "use-rope-scaling": None, "rope-scaling-factor": float, "qk-layernorm": None,
    "multi-latent-attention": None, "q-lora-rank": int, "kv-lora-rank": int, "qk-head-dim": int,
    "qk-pos-emb-head-dim": int, "v-head-dim": int, "mtp-num-layers": int,
    "window-attn-skip-freq": int,
}

ZERO3 = "scenarios/deepspeed-zero/scenario.yaml"
FSDP2 = "scenarios/llama3-8b-fsdp/scenario.yaml"
DDP = "scenarios/gpt2-ddp/scenario.yaml"
MEGATRON = ("scenarios/gpt2-ddp/scenario.yaml",
            "--set=data_parallel={zero_stage: 1, framework: megatron}")
# Required by torchtitan, which reduces in FP32 and clips gradients in every step.
TORCHTITAN = (FSDP2, "--set=training.reduce_dtype=fp32", "--set=training.gradient_clipping=1.0")
# All settings of the training loop, the blocks and the environment.
LOOP = ("--set=training.gradient_clipping=0.5", "--set=training.optimizer_implementation=single",
        "--set=training.activation_checkpointing=full", "--set=training.checkpointed_blocks=1/2",
        "--set=training.activation_offload=true", "--set=training.attention=fused_softmax",
        "--set=training.host_waits=update",
        "--set=training.data_loading={time: 2.5 ms, workers: 2}",
        "--set=training.checkpoint_saving={every: 500, mode: async, bandwidth: 2 GB/s}",
        "--set=software.expandable_segments=true")
TF32 = ("--set=training.precision=tf32", "--set=training.parameter_dtype=fp32")
POWERSGD = ("--set=data_parallel={zero_stage: 0, framework: ddp, comm_hook: powerSGD, powersgd: "
            "{matrix_approximation_rank: 4, start_powerSGD_iter: 10, min_compression_rate: 1.5, "
            "warm_start: false}}",)
LAYERS = "--set=data_parallel={zero_stage: 3, framework: %s, units: layer}"
NANOTRON = (DDP, "--set=data_parallel={zero_stage: 1, framework: nanotron}",
            "--set=training.parameter_dtype=bf16")


def run(*arguments, cwd=None):
    return subprocess.run([STEPCAST, *arguments], capture_output=True, text=True, cwd=cwd)


class EmitTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        self.addCleanup(shutil.rmtree, self.folder)
        self.plans = 0

    def emit(self, scenario, *options):
        """The folder with the plan, and what was said about it."""
        self.plans += 1
        plan = self.folder / f"plan{self.plans}"
        done = run("simulate", scenario, *options, "--emit", str(plan))
        self.assertIn(done.returncode, (0, 3), done.stderr)
        self.assertTrue((plan / "plan.json").is_file())
        return plan, done.stderr


class PlanTest(EmitTest):
    def forecast(self, *arguments):
        done = run("simulate", *arguments, "--json")
        self.assertIn(done.returncode, (0, 3), done.stderr)
        document = json.loads(done.stdout)
        del document["run"]
        # A written plan states values that a scenario may leave to assumptions or without effect.
        del document["warnings"]
        if document.get("attention"):
            document["attention"].pop("assumed", None)
        return json.dumps(document)

    def test_gives_the_same_forecast(self):
        """The same bytes but for the wall-clock time, for every framework and for a scenario that
        brings files of its own."""
        for arguments in ((DDP,), (ZERO3,), MEGATRON,
                          ("scenarios/resnet50-ddp/scenario.yaml",),
                          ("scenarios/zero-stages/scenario.yaml",),
                          ("scenarios/bucket-sweep/scenario.yaml",),
                          ("scenarios/hybrid-sharding/scenario.yaml",),
                          (DDP, "--set=communication.nccl_algo=ring", "--set=cluster.nodes=2",
                           "--set=parallelism=null"),
                          (DDP, "--set=data_parallel={zero_stage: 3, framework: fsdp1}"),
                          (DDP, *LOOP, *TF32, *POWERSGD),
                          (DDP, *LOOP, LAYERS % "fsdp1"), (FSDP2, *LOOP, LAYERS % "fsdp2")):
            with self.subTest(arguments=arguments):
                # The plan states its software, so none is assumed.
                arguments = (*arguments, "--set=software={torch: '2.14', nccl: '2.30'}")
                plan, _ = self.emit(*arguments)
                # In another folder, as on the target cluster.
                moved = self.folder / "moved"
                plan.rename(moved)
                self.assertEqual(self.forecast(str(moved / "plan.json")),
                                 self.forecast(*arguments))
                text = run("simulate", str(moved / "plan.json")).stdout
                said = run("simulate", *arguments).stdout.splitlines(keepends=True)
                self.assertEqual(text, "".join(line for line in said
                                               if not line.startswith("attention ")))
                again, _ = self.emit(str(moved / "plan.json"))
                for file in moved.iterdir():
                    self.assertEqual(file.read_bytes(), (again / file.name).read_bytes())
                shutil.rmtree(moved)

    def test_holds_every_setting(self):
        plan, _ = self.emit(DDP, *LOOP, *TF32, *POWERSGD)
        scenario = json.loads((plan / "plan.json").read_text())["scenario"]
        training, data_parallel = scenario["training"], scenario["data_parallel"]
        self.assertEqual(training["precision"], "tf32")
        self.assertEqual(float(training["gradient_clipping"]), 0.5)
        self.assertEqual(training["optimizer_implementation"], "single")
        self.assertEqual(training["checkpointed_blocks"], "1/2")
        self.assertIs(training["activation_offload"], True)
        self.assertEqual(training["attention"], "fused_softmax")
        self.assertEqual(training["host_waits"], "update")
        self.assertEqual(training["data_loading"]["workers"], 2)
        self.assertEqual(training["checkpoint_saving"]["mode"], "async")
        self.assertEqual(data_parallel["comm_hook"], "powerSGD")
        self.assertEqual(data_parallel["powersgd"]["matrix_approximation_rank"], 4)
        self.assertIs(scenario["software"]["expandable_segments"], True)
        for framework in ("fsdp1", "fsdp2"):
            plan, _ = self.emit(DDP, LAYERS % framework)
            scenario = json.loads((plan / "plan.json").read_text())["scenario"]
            self.assertEqual(scenario["data_parallel"]["units"], "layer")

    def test_people_read_what_is_left_to_them(self):
        plan, _ = self.emit(DDP, *LOOP, *TF32, *POWERSGD)
        text = (plan / "README.md").read_text()
        for words in ("full, 1/2 of the blocks", "attention (fused_softmax)", "clip_gradients",
                      "keep_on_host", "TF32", "PYTORCH_CUDA_ALLOC_CONF", "num_workers 2",
                      "every 500 steps (async)", "before each update"):
            self.assertIn(words, text)
        plan, _ = self.emit(DDP)
        text = (plan / "README.md").read_text()
        for words in ("clip_gradients", "keep_on_host", "TF32", "PYTORCH_CUDA_ALLOC_CONF",
                      "num_workers", "a checkpoint is saved"):
            self.assertNotIn(words, text)

    def test_can_be_executed_and_validated(self):
        plan, _ = self.emit("tests/emit/two-ranks.yaml")
        done = run("execute", str(plan / "plan.json"), "--backend", "host", "--steps", "2",
                   "--warmup", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("two ranks", done.stdout)

    def test_positions_are_those_of_the_plan(self):
        plan, _ = self.emit(DDP)
        file = plan / "plan.json"
        text = file.read_text()
        line = next(i for i, l in enumerate(text.splitlines(), 1) if '"precision"' in l)
        file.write_text(text.replace('"precision": "bf16"', '"precision": "bf17"'))
        done = run("simulate", str(file))
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stdout, "")
        self.assertIn(f"plan.json:{line}:", done.stderr)
        self.assertIn("bf17", done.stderr)
        file.write_text(text.replace('"stepcast_plan": 1', '"stepcast_plan": 2'))
        done = run("simulate", str(file))
        self.assertEqual(done.returncode, 2)
        self.assertIn("plan.version", done.stderr)


class FolderTest(EmitTest):
    def test_does_not_replace_what_is_there(self):
        plan, _ = self.emit(DDP)
        before = {file.name: file.read_bytes() for file in plan.iterdir()}
        done = run("simulate", FSDP2, "--emit", str(plan))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("file.exists", done.stderr)
        self.assertEqual(before, {file.name: file.read_bytes() for file in plan.iterdir()})
        done = run("simulate", FSDP2, "--emit", str(plan), "--force")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((plan / "pytorch_fsdp2.py").exists())
        self.assertFalse((plan / "pytorch_ddp.py").exists())
        self.assertEqual([plan.name], [entry.name for entry in self.folder.iterdir()])

    def test_force_replaces_plans_alone(self):
        precious = self.folder / "precious"
        precious.mkdir()
        (precious / "thesis.tex").write_text("x")
        done = run("simulate", DDP, "--emit", str(precious), "--force")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(["thesis.tex"], os.listdir(precious))

    def test_an_empty_folder_is_filled(self):
        empty = self.folder / "empty"
        empty.mkdir()
        self.assertEqual(run("simulate", DDP, "--emit", str(empty)).returncode, 0)
        self.assertTrue((empty / "plan.json").exists())

    def test_wrong_names(self):
        file = self.folder / "file"
        file.write_text("x")
        for name in (str(file), str(self.folder / "no" / "such")):
            done = run("simulate", DDP, "--emit", name)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(run("simulate", DDP, "--emit", "").returncode, 2)
        self.assertEqual(run("simulate", DDP, "--force").returncode, 2)
        self.assertEqual(["file"], os.listdir(self.folder))

    def test_nothing_is_left_where_it_cannot_be_written(self):
        # Limits files to one block of 512 B; plan.json is larger.
        done = subprocess.run(
            ["sh", "-c", 'ulimit -f 1; exec "$0" simulate "$1" --emit "$2"', STEPCAST, DDP,
             str(self.folder / "plan")], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("cannot write", done.stderr)
        self.assertEqual([], os.listdir(self.folder))

    def test_a_file_outside_the_scenarios_folder(self):
        inside = self.folder / "inside"
        inside.mkdir()
        model = pathlib.Path("scenarios/resnet50-ddp/model.yaml").read_text()
        (self.folder / "model.yaml").write_text(model)
        scenario = pathlib.Path("scenarios/resnet50-ddp/scenario.yaml").read_text()
        (inside / "s.yaml").write_text(scenario.replace("model.yaml", "../model.yaml"))
        done = run("simulate", str(inside / "s.yaml"), "--emit", str(self.folder / "plan"))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("file.outside", done.stderr)
        # The mistake is reported before the search, which would open the store.
        done = run("plan", str(inside / "s.yaml"), "--emit", str(self.folder / "plan"), "--store",
                   str(self.folder / "store"))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("file.outside", done.stderr)
        self.assertFalse((self.folder / "store").exists())


class DeepSpeedTest(EmitTest):
    def config(self, *options):
        plan, _ = self.emit(ZERO3, *options)
        config = json.loads((plan / "deepspeed.json").read_text())
        self.assertLessEqual(set(config), DEEPSPEED_KEYS)
        self.assertLessEqual(set(config["zero_optimization"]), ZERO_KEYS)
        for key in ("offload_optimizer", "offload_param"):
            self.assertLessEqual(set(config["zero_optimization"].get(key, {})), OFFLOAD_KEYS)
        self.assertLessEqual(set(config.get("activation_checkpointing", {})),
                             ACTIVATION_CHECKPOINTING_KEYS)
        self.assertLessEqual(set(config.get("expert_parallel", {})), EXPERT_PARALLEL_KEYS)
        return config

    def test_experts(self):
        """AutoEP is a section of the JSON; DeepSpeed's MoE layer is the model's code."""
        mixture = ("--set=model=models/mixtral-8x7b.yaml", "--set=parallelism.expert=4",
                   "--set=data_parallel={zero_stage: 2, framework: deepspeed}")
        autoep = self.config(*mixture, "--set=experts.implementation=autoep")
        self.assertEqual(autoep["expert_parallel"],
                         {"enabled": True, "autoep_size": 4, "use_grouped_mm": True})
        plan, _ = self.emit(ZERO3, *mixture)
        self.assertNotIn("expert_parallel", json.loads((plan / "deepspeed.json").read_text()))
        self.assertIn("deepspeed.moe.layer.MoE(num_experts=8, ep_size=4, k=2, capacity_factor=1, "
                      "min_capacity=4)", (plan / "README.md").read_text())

    def test_batch(self):
        """One sequence, four micro-batches, 16 ranks."""
        config = self.config()
        self.assertEqual(config["train_batch_size"], 64)
        self.assertEqual(config["train_micro_batch_size_per_gpu"], 1)
        self.assertEqual(config["gradient_accumulation_steps"], 4)
        self.assertEqual(config["bf16"], {"enabled": True})

    def test_settings_of_the_stage(self):
        zero = self.config("--set=data_parallel.deepspeed.stage3_prefetch_bucket_size=7")
        self.assertEqual(zero["zero_optimization"]["stage3_prefetch_bucket_size"], 7)
        self.assertEqual(zero["zero_optimization"]["stage"], 3)
        two = self.config("--set=data_parallel={zero_stage: 2, framework: deepspeed}")
        self.assertNotIn("stage3_prefetch_bucket_size", two["zero_optimization"])
        self.assertIs(two["zero_optimization"]["overlap_comm"], False)
        none = self.config("--set=data_parallel={zero_stage: 0, framework: deepspeed}")
        self.assertEqual(none["zero_optimization"], {"stage": 0})

    def test_offload(self):
        config = self.config("--set=data_parallel.deepspeed.offload_optimizer=cpu")
        self.assertEqual(config["zero_optimization"]["offload_optimizer"]["device"], "cpu")

    def test_clipping(self):
        self.assertNotIn("gradient_clipping", self.config())
        clipping = self.config("--set=training.gradient_clipping=0.25")["gradient_clipping"]
        self.assertEqual(clipping, 0.25)

    def test_activations_on_the_host(self):
        offload = "--set=training.activation_offload=true"
        full = "--set=training.activation_checkpointing=full"
        self.assertNotIn("activation_checkpointing", self.config(full))
        self.assertEqual(self.config(full, offload)["activation_checkpointing"],
                         {"cpu_checkpointing": True})
        plan, _ = self.emit(ZERO3, full, offload)
        self.assertIn("deepspeed.checkpointing.checkpoint", (plan / "README.md").read_text())
        for options in (("--set=training.activation_checkpointing=none", offload),
                        (full, offload, "--set=training.checkpointed_blocks=1/2")):
            _, said = self.emit(ZERO3, *options)
            self.assertIn("not deepspeed.json: ", said)

    def test_tf32_is_not_a_type_of_its_own(self):
        config = self.config("--set=training.precision=tf32")
        self.assertLessEqual({"bf16", "fp16"} & set(config), set())
        self.assertEqual(config["communication_data_type"], "fp32")

    def test_the_optimizer_is_the_training_scripts(self):
        """DeepSpeed would make one with its own learning rate; README.md names the plan's."""
        for options, optimizer in (
                ((), "deepspeed.ops.adam.FusedAdam"),
                (("--set=training.optimizer_implementation=foreach",), "torch.optim.AdamW"),
                (("--set=data_parallel.deepspeed.offload_optimizer=cpu",),
                 "deepspeed.ops.adam.DeepSpeedCPUAdam"),
                (("--set=training.optimizer=sgd",), "torch.optim.SGD")):
            self.assertNotIn("optimizer", self.config(*options))
            plan, _ = self.emit(ZERO3, *options)
            self.assertIn(f"create the optimizer, {optimizer}", (plan / "README.md").read_text())


class TorchtitanTest(EmitTest):
    def config(self, *options):
        plan, said = self.emit(*TORCHTITAN, *options)
        if not (plan / "torchtitan.toml").exists():
            return said
        config = tomllib.loads((plan / "torchtitan.toml").read_text())
        for section, entries in config.items():
            for key, value in entries.items():
                self.assertIsInstance(value, TORCHTITAN_KEYS[section][key], key)
                self.assertIn(value, TORCHTITAN_WORDS.get(key, [value]))
        return config

    def test_plan(self):
        """16 nodes of 8: 128 ranks, four micro-batches of one sequence."""
        config = self.config()
        self.assertEqual(config["model"], {"name": "llama3", "flavor": "8B"})
        self.assertEqual(config["training"]["global_batch_size"], 512)
        self.assertEqual(config["parallelism"]["data_parallel_shard_degree"], 128)
        self.assertEqual(config["parallelism"]["fsdp_reshard_after_forward"], "always")

    def test_clipping_and_optimizer(self):
        self.assertEqual(self.config()["training"]["max_norm"], 1)
        config = self.config("--set=training.gradient_clipping=0.5",
                             "--set=training.optimizer_implementation=single")
        self.assertEqual(config["training"]["max_norm"], 0.5)
        self.assertEqual(config["optimizer"]["implementation"], "for-loop")

    def test_tf32_is_float32(self):
        config = self.config("--set=training.precision=tf32")
        self.assertEqual(config["training"]["mixed_precision_param"], "float32")

    def test_fp8_is_torchaos(self):
        fp8 = "--set=training.precision=fp8"
        self.assertEqual(self.config(fp8)["float8"]["recipe_name"], "tensorwise")
        rows = self.config(fp8, "--set=training.fp8_scaling=torchao_rowwise")
        self.assertEqual(rows["float8"]["recipe_name"], "rowwise")
        for options in ((fp8, "--set=training.fp8_scaling=current"),
                        ("--set=training.precision=mxfp8",
                         "--set=cluster.topology=topologies/dgx-b200.yaml",
                         "--set=calibration=calibration/b200.yaml")):
            said = self.config(*options)
            self.assertRegex(said, "not torchtitan.toml: .*torchtitan('s| uses) ")
            self.assertIn("not pytorch_fsdp2.py: the emitted module computes only in 16 or 32 bits",
                          said)

    def test_hybrid(self):
        parallelism = self.config("--set=data_parallel.shard_group_size=8")["parallelism"]
        self.assertEqual(parallelism["data_parallel_shard_degree"], 8)
        self.assertEqual(parallelism["data_parallel_replicate_degree"], 16)

    def test_pipelines(self):
        """128 ranks as 16 x 8; 32 blocks and two ends in sixteen chunks: 3, 3, 2, ..."""
        axes = ("--set=parallelism={pipeline: 8, schedule: %s}",
                "--set=training.global_batch_size=null",
                "--set=training.gradient_accumulation=16",
                "--set=data_parallel.reshard_after_forward=null")
        config = self.config(axes[0] % "interleaved_1f1b", *axes[1:])
        self.assertEqual(config["training"]["local_batch_size"], 16)
        parallelism = config["parallelism"]
        self.assertEqual(parallelism["data_parallel_shard_degree"], 16)
        self.assertEqual(parallelism["pipeline_parallel_degree"], 8)
        self.assertEqual(parallelism["pipeline_parallel_schedule"], "Interleaved1F1B")
        self.assertEqual(parallelism["pipeline_parallel_microbatch_size"], 1)
        self.assertEqual(parallelism["fsdp_reshard_after_forward"], "never")
        said = self.config(axes[0] % "1f1b, stage_layers: [4, 4, 4, 4, 4, 4, 4, 4]", *axes[1:])
        self.assertIn("not torchtitan.toml: torchtitan divides layers among stages differently "
                      "than the plan", said)
        self.assertIn("not pytorch_fsdp2.py: the emitted module does not support pipeline stages",
                      said)

    def test_tensor_parallelism(self):
        """128 ranks as 16 x 8."""
        axes = "--set=parallelism={tensor: 8, sequence_parallel: %s}"
        parallelism = self.config(axes % "true")["parallelism"]
        self.assertEqual(parallelism["data_parallel_shard_degree"], 16)
        self.assertEqual(parallelism["tensor_parallel_degree"], 8)
        self.assertNotIn("enable_async_tensor_parallel", parallelism)
        parallelism = self.config(axes % "true", "--set=training.compile=true",
                                  "--set=training.tensor_overlap=async")["parallelism"]
        self.assertTrue(parallelism["enable_async_tensor_parallel"])
        said = self.config(axes % "false")
        self.assertIn("not torchtitan.toml: torchtitan's tensor parallelism includes", said)
        self.assertIn("not pytorch_fsdp2.py: the emitted module shards only over data-parallel "
                      "ranks", said)
        said = self.config(axes % "false", "--set=data_parallel={zero_stage: 3, framework: fsdp1}")
        self.assertIn("not pytorch_fsdp1.py: the emitted module shards only over data-parallel "
                      "ranks", said)

    def test_a_flavour_is_its_whole_model(self):
        """What has the depth and width of Llama-3.1 8B, and another vocabulary, feed-forward width
        or rotary base, is another model."""
        model = pathlib.Path("models/llama3.1-8b.yaml").read_text()
        for was, now, said in (
                ("vocab_size: 128256", "vocab_size: 64000",
                 "torchtitan's model llama3 8B has a vocabulary of 128256, but the model of the "
                 "plan has 64000"),
                ("intermediate_size: 14336", "intermediate_size: 11008",
                 "a feed-forward width of 14336, but the model of the plan has 11008"),
                ("rope_theta: 500000", "rope_theta: 10000", "a rotary base of 500000"),
                ("norm_epsilon: 1e-05", "norm_epsilon: 1e-06", "a norm epsilon of"),
                ("factor: 8", "factor: 32", "rope_scaling")):
            file = self.folder / "model.yaml"
            file.write_text(model.replace(was, now).replace("parameters: 8030261248\n", ""))
            with self.subTest(now=now):
                self.assertIn(said, self.config(f"--set=model={file}"))

    def test_what_it_cannot_do_is_said(self):
        for option in ("data_parallel.prefetch=2", "data_parallel.reshard_after_forward=8",
                       "training.reduce_dtype=bf16", "training.activation_checkpointing=selective",
                       "model=models/mistral-7b.yaml", "training.optimizer=sgd",
                       "training.gradient_clipping=none", "training.activation_offload=true",
                       "training.activation_checkpointing=full "
                       "training.checkpointed_blocks=1/2", "data_parallel.units=layer",
                       "training.attention=fused_softmax"):
            with self.subTest(option=option):
                options = ["--set=" + part for part in option.split()]
                self.assertIn("not torchtitan.toml: ", self.config(*options))


class MegatronTest(EmitTest):
    def arguments(self, *options):
        plan, said = self.emit(*MEGATRON, *options)
        file = plan / "megatron.args"
        if not file.exists():
            return said
        result = {}
        for line in file.read_text().splitlines():
            name, _, value = line.removeprefix("--").partition(" ")
            kind = MEGATRON_OPTIONS[name]
            self.assertNotIn(name, result)
            if kind is None:
                self.assertEqual(value, "")
            elif isinstance(kind, set):
                self.assertIn(value, kind)
            else:
                kind(value)
            result[name] = value
        return result

    def test_gpt2(self):
        """GPT-2 124M: 12 layers of 768; buckets of 40 million parameters."""
        arguments = self.arguments()
        self.assertEqual(arguments["num-layers"], "12")
        self.assertEqual(arguments["hidden-size"], "768")
        self.assertEqual(arguments["position-embedding-type"], "learned_absolute")
        self.assertNotIn("disable-bias-linear", arguments)
        self.assertNotIn("untie-embeddings-and-output-weights", arguments)
        self.assertEqual(arguments["ddp-bucket-size"], "40000000")
        self.assertIn("use-distributed-optimizer", arguments)

    def test_llama(self):
        arguments = self.arguments("--set=model=models/llama3.1-8b.yaml",
                                   "--set=training.activation_checkpointing=full",
                                   "--set=cluster.nodes=2", "--set=parallelism=null",
                                   "--set=data_parallel.shard_group_size=8")
        self.assertEqual(arguments["num-query-groups"], "8")
        self.assertEqual(arguments["recompute-method"], "uniform")
        self.assertEqual(arguments["num-distributed-optimizer-instances"], "2")
        self.assertIn("disable-bias-linear", arguments)
        self.assertIn("swiglu", arguments)
        self.assertEqual(arguments["rotary-base"], "500000")
        self.assertEqual(float(arguments["norm-epsilon"]), 1e-5)
        self.assertIn("use-rope-scaling", arguments)
        self.assertEqual(float(arguments["rope-scaling-factor"]), 8)

    def test_axes(self):
        """2 x 2 x 2 of 8 GPUs; 12 blocks in four chunks, equal or not."""
        grid = ("--set=parallelism={tensor: 2, pipeline: 2, virtual_stages: 2, "
                "sequence_parallel: true}", "--set=training.global_batch_size=null",
                "--set=training.gradient_accumulation=4")
        arguments = self.arguments(*grid)
        self.assertEqual(arguments["tensor-model-parallel-size"], "2")
        self.assertEqual(arguments["pipeline-model-parallel-size"], "2")
        self.assertIn("sequence-parallel", arguments)
        self.assertNotIn("tp-comm-overlap", arguments)
        self.assertIn("tp-comm-overlap",
                      self.arguments(*grid, "--set=training.tensor_overlap=user_buffers"))
        self.assertEqual(arguments["num-virtual-stages-per-pipeline-rank"], "2")
        self.assertNotIn("pipeline-model-parallel-layout", arguments)
        self.assertNotIn("no-align-grad-reduce", arguments)
        self.assertNotIn("no-align-param-gather", arguments)
        arguments = self.arguments(
            *grid, "--set=parallelism.stage_layers=[2, 4, 4, 2]",
            "--set=data_parallel.align_grad_reduce=false",
            "--set=data_parallel.align_param_gather=false",
            "--set=data_parallel.overlap_param_gather_with_optimizer_step=true",
            "--set=training.activation_checkpointing=full", "--set=training.blocks_per_checkpoint=2")
        self.assertEqual(arguments["pipeline-model-parallel-layout"], "Et*2|t*4|t*4|t*2,L")
        self.assertNotIn("num-virtual-stages-per-pipeline-rank", arguments)
        for flag in ("no-align-grad-reduce", "no-align-param-gather",
                     "overlap-param-gather-with-optimizer-step"):
            self.assertIn(flag, arguments)
        self.assertEqual(arguments["recompute-method"], "uniform")
        self.assertEqual(arguments["recompute-num-layers"], "2")

    def test_context(self):
        arguments = self.arguments()
        self.assertEqual(arguments["context-parallel-size"], "1")
        self.assertNotIn("cp-comm-type", arguments)
        grid = ("--set=training.global_batch_size=null", "--set=training.gradient_accumulation=4")
        arguments = self.arguments(*grid, "--set=parallelism={context: 2}")
        self.assertEqual(arguments["context-parallel-size"], "2")
        self.assertEqual(arguments["cp-comm-type"], "p2p")
        arguments = self.arguments(
            *grid, "--set=parallelism={context: 4, context_method: hierarchical, context_inner: 2}")
        self.assertEqual(arguments["cp-comm-type"], "a2a+p2p")
        self.assertEqual(arguments["hierarchical-context-parallel-sizes"], "2 2")

    def test_older_versions(self):
        arguments = self.arguments()
        for flag in ("no-overlap-p2p-communication", "no-gradient-accumulation-fusion",
                     "no-async-tensor-model-parallel-allreduce", "make-vocab-size-divisible-by"):
            self.assertNotIn(flag, arguments)
        grid = ("--set=parallelism={tensor: 2, pipeline: 4, virtual_stages: 3}",
                "--set=training.global_batch_size=null", "--set=training.gradient_accumulation=4",
                "--set=data_parallel.overlap_p2p_comm=false")
        arguments = self.arguments(
            *grid, "--set=data_parallel.gradient_accumulation_fusion=false",
            "--set=training.async_tensor_model_parallel_allreduce=false",
            "--set=training.make_vocab_size_divisible_by=64")
        for flag in ("no-overlap-p2p-communication", "no-gradient-accumulation-fusion",
                     "no-async-tensor-model-parallel-allreduce"):
            self.assertIn(flag, arguments)
        self.assertEqual(arguments["make-vocab-size-divisible-by"], "64")
        for key in ("scatter_gather_tensors_in_pipeline=true", "batch_p2p_sync=false"):
            arguments = self.arguments(*grid, f"--set=data_parallel.{key}")
            self.assertIn("not megatron.args: ", arguments)

    def test_gradients_as_they_are(self):
        as_they_are = "--set=data_parallel.copy_main_gradients=false"
        remainders = "--set=training.master_weights=fp16_remainder"
        self.assertIn("use-precision-aware-optimizer",
                      self.arguments("--set=data_parallel.zero_stage=1", as_they_are, remainders))
        # This optimizer keeps no FP32 copies of bf16 parameters.
        self.assertIn("not megatron.args: ",
                      self.arguments("--set=data_parallel.zero_stage=1", as_they_are))
        self.assertNotIn("use-precision-aware-optimizer",
                         self.arguments("--set=data_parallel.zero_stage=1"))
        self.assertIn("not megatron.args: ",
                      self.arguments("--set=data_parallel.zero_stage=0", as_they_are))

    def test_states_of_16_bits(self):
        """Beside bf16 parameters the precision-aware optimizer keeps remainders."""
        options = ("--set=data_parallel.zero_stage=1", "--set=training.precision=bf16",
                   "--set=training.optimizer_state_dtype=bf16")
        arguments = self.arguments(*options)
        self.assertIn("use-precision-aware-optimizer", arguments)
        self.assertEqual(arguments["exp-avg-dtype"], "bf16")
        self.assertEqual(arguments["exp-avg-sq-dtype"], "bf16")
        self.assertNotIn("exp-avg-dtype", self.arguments(*options[:2]))
        self.assertIn("not megatron.args: ",
                      self.arguments(*options, "--set=training.master_weights=fp32"))

    def test_products_in_8_and_4_bits(self):
        blackwell = "--set=cluster.topology=topologies/dgx-b200.yaml"
        arguments = self.arguments("--set=training.precision=fp8", blackwell)
        self.assertEqual(arguments["fp8-format"], "hybrid")
        self.assertNotIn("fp8-recipe", arguments)
        arguments = self.arguments("--set=training.precision=fp8", blackwell,
                                   "--set=training.fp8_scaling=current")
        self.assertEqual(arguments["fp8-recipe"], "tensorwise")
        arguments = self.arguments("--set=training.precision=mxfp8", blackwell)
        self.assertEqual((arguments["fp8-format"], arguments["fp8-recipe"]), ("e4m3", "mxfp8"))
        arguments = self.arguments("--set=training.precision=nvfp4", blackwell)
        self.assertEqual((arguments["fp4-format"], arguments["fp4-recipe"]), ("e2m1", "nvfp4"))
        self.assertIn("not megatron.args: ", self.arguments(
            "--set=training.precision=fp8", blackwell, "--set=training.fp8_scaling=torchao"))

    def test_attention_of_further_families(self):
        qwen3 = self.arguments("--set=model=models/qwen3-8b.yaml")
        self.assertIn("qk-layernorm", qwen3)
        self.assertNotIn("kv-channels", qwen3)  # 32 x 128 is the hidden size
        self.assertNotIn("qk-layernorm", self.arguments("--set=model=models/llama2-7b.yaml"))
        text = pathlib.Path("models/deepseek-v2-lite.yaml").read_text()
        lines = [line for line in text.splitlines() if not line.startswith((
            "num_experts", "moe_", "shared_", "first_k", "scoring", "norm_topk", "balancing",
            "parameters", "rope_scaling"))]
        file = self.folder / "latent.yaml"
        file.write_text("\n".join(lines + ["num_nextn_predict_layers: 1"]) + "\n")
        latent = self.arguments(f"--set=model={file}")
        self.assertIn("multi-latent-attention", latent)
        self.assertEqual(latent["kv-lora-rank"], "512")
        self.assertNotIn("q-lora-rank", latent)
        self.assertEqual((latent["qk-head-dim"], latent["qk-pos-emb-head-dim"],
                          latent["v-head-dim"], latent["mtp-num-layers"]),
                         ("128", "64", "128", "1"))
        text = pathlib.Path("models/mistral-7b.yaml").read_text()
        file.write_text(text.replace("sliding_window: 4096",
                                     "sliding_window: 64\nsliding_window_pattern: 4"))
        self.assertEqual(self.arguments(f"--set=model={file}")["window-attn-skip-freq"], "4")
        for model in ("gemma2-9b", "olmo2-7b", "gpt-oss-20b", "llama4-scout"):
            self.assertIn("not megatron.args: ",
                          self.arguments(f"--set=model=models/{model}.yaml"))

    def test_experts(self):
        """Megatron-Core's own defaults are other ones: every choice is said."""
        mixtral = self.arguments("--set=model=models/mixtral-8x7b.yaml",
                                 "--set=parallelism.expert=4")
        self.assertEqual((mixtral["num-experts"], mixtral["moe-router-topk"],
                          mixtral["moe-ffn-hidden-size"]), ("8", "2", "14336"))
        self.assertEqual((mixtral["expert-model-parallel-size"],
                          mixtral["expert-tensor-parallel-size"]), ("4", "1"))
        self.assertEqual(mixtral["moe-token-dispatcher-type"], "alltoall")
        for flag in ("moe-grouped-gemm", "moe-router-fusion", "moe-permute-fusion"):
            self.assertIn(flag, mixtral)
        self.assertNotIn("moe-router-pre-softmax", mixtral)
        deepep = self.arguments("--set=model=models/qwen3-30b-a3b.yaml",
                                "--set=parallelism.expert=8", "--set=experts.dispatcher=deepep")
        self.assertEqual((deepep["moe-token-dispatcher-type"],
                          deepep["moe-flex-dispatcher-backend"]), ("flex", "deepep"))
        self.assertIn("moe-router-pre-softmax", deepep)

    def test_positions(self):
        """Megatron-LM's own defaults are 10000 and 1e-5; learned positions have no base."""
        self.assertNotIn("rotary-base", self.arguments())
        llama2 = self.arguments("--set=model=models/llama2-7b.yaml")
        self.assertEqual(llama2["rotary-base"], "10000")
        self.assertNotIn("use-rope-scaling", llama2)
        file = self.folder / "model.yaml"
        file.write_text(pathlib.Path("models/llama3.1-8b.yaml").read_text().replace(
            "rope_type: llama3", "rope_type: yarn"))
        self.assertIn("rope_scaling", self.arguments(f"--set=model={file}"))

    def test_clipping(self):
        """Megatron-LM clips at 1.0 unless it is told otherwise."""
        self.assertEqual(float(self.arguments()["clip-grad"]), 0)
        arguments = self.arguments("--set=training.gradient_clipping=0.5")
        self.assertEqual(float(arguments["clip-grad"]), 0.5)

    def test_attention(self):
        for attention, backend, fused in (("flash", "flash", True), ("math", "unfused", False),
                                          ("fused_softmax", "unfused", True)):
            arguments = self.arguments(f"--set=training.attention={attention}")
            self.assertEqual(arguments["attention-backend"], backend)
            self.assertEqual("no-masked-softmax-fusion" not in arguments, fused)

    def test_activations_on_the_host(self):
        """Of the 12 blocks the last one's stay."""
        arguments = self.arguments("--set=training.activation_offload=true")
        self.assertEqual(arguments["cpu-offloading-num-layers"], "11")

    def test_what_it_cannot_do_is_said(self):
        full = "--set=training.activation_checkpointing=full"
        for options in (("--set=training.compile=true",), ("--set=model=models/mpt-7b.yaml",),
                        ("--set=model=models/bert-large.yaml",
                         "--set=training.sequence_length=512"),
                        (full, "--set=training.checkpointed_blocks=1/2"),
                        (full, "--set=training.activation_offload=true")):
            self.assertIn("not megatron.args: ", self.arguments(*options))


class PytorchTest(EmitTest):
    def module(self, scenario, name, *options):
        """Names and literals of the emitted module, which needs no torch to be read."""
        plan, _ = self.emit(scenario, *options)
        source = (plan / name).read_text()
        self.assertTrue(all(len(line) <= 100 for line in source.splitlines()))
        names = {}
        exec(compile(source, name, "exec"), names)  # what `import` does
        ast.parse(source)
        return names

    def test_ddp(self):
        ddp = self.module(DDP, "pytorch_ddp.py")
        self.assertNotIn("bucket_cap_mb", ddp["DDP"])
        self.assertIsNone(ddp["FIRST_BUCKET_BYTES"])
        ddp = self.module(DDP, "pytorch_ddp.py", "--set=data_parallel.bucket_size=10 MiB",
                          "--set=data_parallel.gradient_as_bucket_view=true")
        self.assertEqual(ddp["DDP"]["bucket_cap_mb"], 10)
        self.assertIs(ddp["DDP"]["gradient_as_bucket_view"], True)
        ddp = self.module(DDP, "pytorch_ddp.py", "--set=data_parallel.first_bucket_size=2 MiB")
        self.assertEqual(ddp["FIRST_BUCKET_BYTES"], 2 << 20)
        # Before torch 2.0 the first bucket keeps its own size.
        ddp = self.module(DDP, "pytorch_ddp.py", "--set=data_parallel.bucket_size=10 MiB",
                          "--set=software.torch=1.13")
        self.assertEqual(ddp["DDP"]["bucket_cap_mb"], 10)
        self.assertIsNone(ddp["FIRST_BUCKET_BYTES"])

    def test_encoders(self):
        """BERT's head and its optimizer."""
        options = ("--set=model=models/bert-large.yaml", "--set=training.sequence_length=128",
                   "--set=training.masked_tokens=20", "--set=training.optimizer=lamb")
        module = self.module(DDP, "pytorch_ddp.py", *options)
        self.assertEqual(module["OPTIMIZER"], "FusedLAMB")
        self.assertEqual(module["OPTIMIZER_SETTINGS"], {})
        plan, _ = self.emit(DDP, *options)
        self.assertIn("predicts only the 20 masked tokens of each sequence", " ".join(
            (plan / "README.md").read_text().split()))

    def test_loop_and_blocks(self):
        """Of blocks numbered from 0, 1/2 are 0, 2, 4, ... and 2/3 are 0, 2, 3, 5, ..."""
        for scenario, name, options in ((DDP, "pytorch_ddp.py", ()),
                                        (DDP, "pytorch_fsdp1.py", (LAYERS % "fsdp1",)),
                                        (DDP, "pytorch_fsdp2.py", (LAYERS % "fsdp2",))):
            module = self.module(scenario, name, *options)
            self.assertIsNone(module["GRADIENT_CLIPPING"])
            self.assertIs(module["ALLOW_TF32"], False)
            self.assertNotIn("keep_on_host", module)
            self.assertEqual(module["OPTIMIZER_SETTINGS"], {"foreach": True})
            # torch.optim's optimizers keep no master weights.
            masters = ("--set=training.precision=bf16", "--set=training.parameter_dtype=bf16",
                       "--set=training.master_weights=fp32")
            plan, _ = self.emit(scenario, *options, *masters)
            self.assertFalse((plan / name).exists())
            module = self.module(scenario, name, *LOOP, *TF32, *options)
            self.assertEqual(module["GRADIENT_CLIPPING"], 0.5)
            self.assertIs(module["ALLOW_TF32"], True)
            self.assertEqual(module["COMPUTE_DTYPE"], "float32")
            self.assertEqual(module["OPTIMIZER_SETTINGS"], {"foreach": False})
            self.assertEqual(module["ATTENTION"], "fused_softmax")
            self.assertIs(module["ACTIVATION_OFFLOAD"], True)
            self.assertIn("keep_on_host", module)
            self.assertEqual([module["recomputes"](i) for i in range(4)],
                             [True, False, True, False])
            module = self.module(scenario, name, *LOOP, "--set=training.checkpointed_blocks=2/3",
                                 *options)
            self.assertEqual([module["recomputes"](i) for i in range(6)],
                             [True, False, True, True, False, True])

    def test_a_comment_says_what_the_setting_does(self):
        for framework in ("fsdp1", "fsdp2"):
            for value, words in (("true", "True  # gradients are reduced once a step"),
                                 ("false", "False  # gradients are reduced in every micro-batch")):
                plan, _ = self.emit(DDP, "--set=data_parallel={zero_stage: 3, framework: %s, "
                                    "accumulate_unsharded: %s}" % (framework, value))
                self.assertIn(f"ACCUMULATE_UNSHARDED = {words}\n",
                              (plan / f"pytorch_{framework}.py").read_text())

    def test_units(self):
        for framework in ("fsdp1", "fsdp2"):
            name = f"pytorch_{framework}.py"
            parallelize = self.module(DDP, name, LAYERS % framework)["parallelize"]
            taken = parallelize.__code__.co_varnames[:parallelize.__code__.co_argcount]
            self.assertEqual(set(taken) & {"embedding", "head"}, {"embedding", "head"})
            block = (LAYERS % framework).replace("units: layer", "units: block")
            parallelize = self.module(DDP, name, block)["parallelize"]
            self.assertEqual(parallelize.__code__.co_argcount, 2)

    def test_hooks(self):
        self.assertIsNone(self.module(DDP, "pytorch_ddp.py")["COMM_HOOK"])
        ddp = self.module(DDP, "pytorch_ddp.py", *POWERSGD)
        self.assertEqual(ddp["COMM_HOOK"], "powerSGD_hook")
        self.assertEqual(ddp["POWERSGD"],
                         {"matrix_approximation_rank": 4, "start_powerSGD_iter": 10,
                          "min_compression_rate": 1.5, "use_error_feedback": True,
                          "warm_start": False})
        ddp = self.module(DDP, "pytorch_ddp.py", "--set=training.parameter_dtype=fp32",
                          "--set=data_parallel.comm_hook=bf16_compress")
        self.assertEqual(ddp["COMM_HOOK"], "bf16_compress_hook")

    def test_torch_takes_hooks_and_loop(self):
        """Gradients of a weight of ones, clipped, in a process group of one; what a block keeps for
        backward, but its own weights, is taken to the host and back with the same outcome."""
        if subprocess.run(["/usr/bin/python3", "-c", "import torch"],
                          capture_output=True).returncode != 0:
            self.skipTest("no python3-torch")
        common = ("--set=software.torch=1.13", "--set=training.parameter_dtype=fp32", *LOOP)
        folders = [self.emit(DDP, *common, *POWERSGD)[0],
                   self.emit(DDP, *common, "--set=data_parallel.comm_hook=fp16_compress")[0]]
        program = """
import importlib.util, os, sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
for folder in sys.argv[1:]:
    spec = importlib.util.spec_from_file_location("plan", folder + "/pytorch_ddp.py")
    plan = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plan)
    layer = torch.nn.Linear(8, 8)
    block = torch.nn.Sequential(layer, torch.nn.Tanh(), torch.nn.Linear(8, 8))
    batch = torch.ones(2, 8)
    block(batch).sum().backward()
    expected = [parameter.grad.clone() for parameter in block.parameters()]
    block.zero_grad()
    kept = []
    with plan.keep_on_host(block) as context:
        out = block(batch)
    out.sum().backward()
    for parameter, gradient in zip(block.parameters(), expected):
        assert torch.equal(parameter.grad, gradient)
    block.zero_grad()
    hooks = plan.keep_on_host(block)
    stays, tensor = hooks.pack_hook(layer.weight.t())
    assert stays and tensor.data_ptr() == layer.weight.data_ptr()
    stays, (device, copy) = hooks.pack_hook(batch)
    assert not stays and copy.data_ptr() != batch.data_ptr()

    model = plan.parallelize(block)
    torch.optim.AdamW(model.parameters(), **plan.OPTIMIZER_SETTINGS)
    model(batch).sum().backward()
    plan.clip_gradients(model)
    norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
    assert abs(norm - plan.GRADIENT_CLIPPING) < 1e-3, norm
    assert torch.backends.cuda.matmul.allow_tf32 is plan.ALLOW_TF32
    registered = model._get_ddp_logging_data()["comm_hook"]
    assert registered == plan.COMM_HOOK, registered
print("taken", flush=True)
# torch's threads may abort a process that ends in order.
os._exit(0)
"""
        done = subprocess.run(["/usr/bin/python3", "-c", program, *map(str, folders)],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "taken\n"), done.stderr)

    def test_ddp_says_what_torch_cannot_do(self):
        _, said = self.emit(DDP, "--set=data_parallel.bucket_size=10 MiB",
                            "--set=data_parallel.first_bucket_size=2 MiB")
        self.assertIn("not pytorch_ddp.py: ", said)

    def test_fsdp1(self):
        settings = "--set=data_parallel={zero_stage: 2, framework: fsdp1, backward_prefetch: post}"
        fsdp = self.module(DDP, "pytorch_fsdp1.py", settings)["FSDP"]
        self.assertEqual(fsdp["sharding_strategy"], "SHARD_GRAD_OP")
        self.assertEqual(fsdp["backward_prefetch"], "BACKWARD_POST")
        self.assertIs(fsdp["limit_all_gathers"], True)

    def test_fsdp2(self):
        fsdp = self.module(FSDP2, "pytorch_fsdp2.py", "--set=data_parallel.reshard_after_forward=8",
                           "--set=data_parallel.prefetch=2")
        self.assertEqual(fsdp["FULLY_SHARD"], {"reshard_after_forward": 8})
        self.assertEqual(fsdp["PREFETCH"], 2)
        self.assertEqual(fsdp["MIXED_PRECISION"],
                         {"param_dtype": "bfloat16", "reduce_dtype": "bfloat16"})
        _, said = self.emit(FSDP2, "--set=data_parallel.prefetch=0")
        self.assertIn("not pytorch_fsdp2.py: ", said)

    def test_torch_takes_it(self):
        """DistributedDataParallel itself, in a process group of one; FSDP's arguments in its source
        (Debian's torch 1.13 cannot import FSDP under Python 3.11)."""
        if subprocess.run(["/usr/bin/python3", "-c", "import torch"],
                          capture_output=True).returncode != 0:
            self.skipTest("no python3-torch")
        ddp, _ = self.emit(DDP, "--set=software.torch=1.13",
                           "--set=data_parallel.bucket_size=3 MiB",
                           "--set=training.gradient_accumulation=2")
        fsdp, _ = self.emit(DDP, "--set=software.torch=1.13",
                            "--set=data_parallel={zero_stage: 3, framework: fsdp1, "
                            "backward_prefetch: pre}")
        program = """
import ast, os, pathlib, sys
sys.path[:0] = sys.argv[1:3]
import torch
import torch.distributed as dist
import pytorch_ddp, pytorch_fsdp1

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = pytorch_ddp.parallelize(torch.nn.Linear(4, 4))
assert model.bucket_bytes_cap == 3 << 20, model.bucket_bytes_cap
for index in range(pytorch_ddp.GRADIENT_ACCUMULATION):
    with pytorch_ddp.micro_batch(model, index):
        model(torch.ones(2, 4)).sum().backward()
assert model.module.weight.grad is not None
getattr(torch, pytorch_ddp.COMPUTE_DTYPE)

source = pathlib.Path(torch.__file__).parent / "distributed/fsdp/fully_sharded_data_parallel.py"
classes = {node.name: node for node in ast.walk(ast.parse(source.read_text()))
           if isinstance(node, ast.ClassDef)}
def members(name):
    return {target.id for node in classes[name].body if isinstance(node, ast.Assign)
            for target in node.targets}
fsdp = classes["FullyShardedDataParallel"]
begin = next(n for n in fsdp.body if getattr(n, "name", "") == "__init__")
taken = {argument.arg for argument in begin.args.args}
settings = pytorch_fsdp1.FSDP
assert set(settings) <= taken, set(settings) - taken
assert settings["sharding_strategy"] in members("ShardingStrategy")
assert settings["backward_prefetch"] in members("BackwardPrefetch")
print("taken", flush=True)
# torch's threads may abort a process that ends in order.
os._exit(0)
"""
        done = subprocess.run(["/usr/bin/python3", "-c", program, str(ddp), str(fsdp)],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "taken\n"), done.stderr)


class ScriptTest(EmitTest):
    def test_shells_read_them(self):
        for arguments in ((DDP,), (ZERO3,), (FSDP2,), MEGATRON, TORCHTITAN,
                          (DDP, *LOOP, *TF32)):
            plan, _ = self.emit(*arguments)
            for script in ("launch.sh", "job.sbatch"):
                done = subprocess.run(["sh", "-n", str(plan / script)], capture_output=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(os.access(plan / script, os.X_OK))

    def launched(self, plan, **environment):
        """The words that launch.sh starts torchrun with."""
        fake = self.folder / "bin"
        fake.mkdir(exist_ok=True)
        (fake / "torchrun").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        (fake / "torchrun").chmod(0o755)
        done = subprocess.run(
            [str(plan / "launch.sh")], capture_output=True, text=True,
            env={"PATH": f"{fake}:{os.environ['PATH']}", **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_ranks(self):
        plan, _ = self.emit(ZERO3)
        words = self.launched(plan, TRAIN="train.py", NODE_RANK="1", MASTER_ADDR="first")
        self.assertEqual(words[:5], ["--nnodes=2", "--nproc-per-node=8", "--node-rank=1",
                                     "--master-addr=first", "--master-port=29500"])
        self.assertEqual(words[5:], ["train.py", "--deepspeed", "--deepspeed_config",
                                     str(plan / "deepspeed.json")])

    def test_several_nodes_do_not_take_themselves_for_the_first(self):
        plan, _ = self.emit(ZERO3)
        for given, missing in (({"NODE_RANK": "1"}, "MASTER_ADDR"),
                               ({"MASTER_ADDR": "first"}, "NODE_RANK")):
            done = subprocess.run([str(plan / "launch.sh")], capture_output=True, text=True,
                                  env={"PATH": os.environ["PATH"], "TRAIN": "train.py", **given})
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"set {missing} to", done.stderr)
        plan, _ = self.emit(ZERO3, "--set=cluster.nodes=1", "--set=parallelism=null")
        words = self.launched(plan, TRAIN="train.py")
        self.assertIn("--master-addr=localhost", words)
        self.assertIn("--node-rank=0", words)

    def test_megatron_trains_on_made_up_data(self):
        plan, _ = self.emit(*MEGATRON)
        words = self.launched(plan, MEGATRON="/opt/megatron")
        self.assertIn("/opt/megatron/pretrain_gpt.py", words)
        self.assertIn("--mock-data", words)
        self.assertEqual(words[words.index("--vocab-size") + 1], "50256")

    def test_torchtitan(self):
        plan, _ = self.emit(*TORCHTITAN)
        self.assertIn("torchtitan.train",
                      self.launched(plan, NODE_RANK="0", MASTER_ADDR="first"))

    def test_nccls_variables(self):
        plan, _ = self.emit(DDP, "--set=communication.nccl_algo=^tree")
        self.assertIn("export NCCL_ALGO='^tree'", (plan / "launch.sh").read_text())

    def test_pytorchs_variables(self):
        plan, _ = self.emit(DDP)
        text = (plan / "launch.sh").read_text()
        for variable in ("PYTORCH_CUDA_ALLOC_CONF", "TF32"):
            self.assertNotIn(variable, text)
        plan, _ = self.emit(DDP, *TF32, "--set=software.expandable_segments=true")
        text = (plan / "launch.sh").read_text()
        self.assertIn("export PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True'\n", text)
        self.assertIn("export TORCH_ALLOW_TF32_CUBLAS_OVERRIDE='1'\n", text)
        # FP32 used TF32 by default in that release.
        plan, _ = self.emit(DDP, "--set=training.precision=fp32", "--set=software.torch=1.11")
        self.assertIn("export NVIDIA_TF32_OVERRIDE='0'\n", (plan / "launch.sh").read_text())

    def test_nanotron_has_none(self):
        plan, said = self.emit(*NANOTRON)
        self.assertFalse((plan / "launch.sh").exists())
        self.assertIn("nanotron", said)

    def test_the_textbook_has_no_launcher(self):
        plan, said = self.emit("scenarios/bucket-sweep/scenario.yaml")
        if "framework: reference" in pathlib.Path(
                "scenarios/bucket-sweep/scenario.yaml").read_text():
            self.assertFalse((plan / "launch.sh").exists())
            self.assertIn("not launch.sh: ", said)


if __name__ == "__main__":
    test_report.main()
