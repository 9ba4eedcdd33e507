#!/usr/bin/env python3
"""Trains GPT-2- and Llama-shaped models with PyTorch, and holds stepcast's forecast against it.

    pytorch_step.py --stepcast ./stepcast --profile profile.yaml --gpu h100-sxm --output out
    pytorch_step.py --dry-run --stepcast bazel-bin/src/cli/stepcast   # no training
    pytorch_step.py --device cpu --tiny                               # tries the script itself

Random tokens, torch.autocast in bf16 over FP32 parameters, fused AdamW; eager, and compiled where
torch.compile is there. The step time is the median over steps of the time between CUDA events, the
memory is torch.cuda.max_memory_allocated. Compiled steps are held against forecasts of compiled
blocks, for information: where the host is slower than the GPU, they take the host's time.

Writes pytorch.json and the scenarios into --output and prints a table. Exit status: 0 done, 1
failed, 3 when an eager step is further from its forecast than --within-time or --within-memory.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    print("pytorch_step.py: skipped: there is no PyTorch here", file=sys.stderr)
    sys.exit(0)


@dataclass
class Shape:
    """A model, and how it is trained."""

    name: str
    family: str  # gpt2 or llama
    hidden: int
    layers: int
    heads: int
    key_heads: int
    feed_forward: int
    vocabulary: int
    sequence: int
    micro_batch: int

    @property
    def head_size(self):
        return self.hidden // self.heads

    def model_yaml(self):
        gpt2 = self.family == "gpt2"
        rows = [
            ("kind", "transformer"),
            ("name", self.name),
            ("family", self.family),
            ("hidden_size", self.hidden),
            ("num_hidden_layers", self.layers),
            ("num_attention_heads", self.heads),
            ("num_key_value_heads", self.key_heads),
            ("head_dim", self.head_size),
            ("intermediate_size", self.feed_forward),
            ("vocab_size", self.vocabulary),
            ("max_position_embeddings", self.sequence),
            ("normalization", "layernorm" if gpt2 else "rmsnorm"),
            ("activation", "gelu" if gpt2 else "swiglu"),
            ("position", "learned" if gpt2 else "rotary"),
            ("tie_word_embeddings", str(gpt2).lower()),
        ]
        for bias in ("attention_bias", "projection_bias", "mlp_bias", "norm_bias"):
            rows.append((bias, str(gpt2).lower()))
        rows += [("dropout", "false"), ("attention_dropout", "false")]
        return "".join(f"{key}: {value}\n" for key, value in rows)

    def scenario_yaml(self, gpu, memory, profile, mode):
        calibration = f"calibration: {profile}\n" if profile else ""
        version = ".".join(torch.__version__.split(".")[:2])
        # The properties of the code below: halves are rotated in 16 bits, and keys and values are
        # copied.
        llama = "" if self.family == "gpt2" else "  rotary: huggingface\n  repeat_kv: true\n"
        code = llama if mode == "eager" else "  compile: true\n"
        return (
            f"stepcast: 1\nname: {self.name} in PyTorch on one GPU\nmodel: {self.name}-model.yaml\n"
            "cluster:\n"
            f"  topology: {{kind: flat, devices: 1, memory: {memory}, gpu: {gpu},\n"
            "             link: {latency: 5 us, bandwidth: 25 GB/s}}\n"
            f"{calibration}software: {{torch: \"{version}\"}}\ntraining:\n"
            f"  sequence_length: {self.sequence}\n  micro_batch_size: {self.micro_batch}\n"
            "  gradient_accumulation: 1\n  precision: bf16\n  parameter_dtype: fp32\n"
            "  gradient_dtype: fp32\n  optimizer: adamw\n  optimizer_implementation: fused\n"
            f"{code}"
            "data_parallel:\n  zero_stage: 0\n  framework: ddp\n"
        )


SHAPES = [
    Shape("gpt2-124m", "gpt2", 768, 12, 12, 12, 3072, 50257, 1024, 8),
    Shape("gpt2-355m", "gpt2", 1024, 24, 16, 16, 4096, 50257, 1024, 8),
    Shape("llama-1.2b", "llama", 2048, 16, 32, 8, 8192, 32000, 2048, 2),
    # Rows of 16 bytes for every product; as many blocks of large models as fit.
    Shape("gpt2-124m-50304", "gpt2", 768, 12, 12, 12, 3072, 50304, 1024, 8),
    Shape("llama-8b-4-blocks", "llama", 4096, 4, 32, 8, 14336, 32000, 4096, 2),
    Shape("llama-13b-3-blocks", "llama", 5120, 3, 40, 40, 13824, 32000, 4096, 2),
    Shape("llama-70b-2-blocks", "llama", 8192, 2, 64, 8, 28672, 8192, 4096, 1),
]
# So small that the device waits for the host; only with --models.
HOST_BOUND = [
    Shape("gpt2-124m-short", "gpt2", 768, 12, 12, 12, 3072, 50257, 256, 1),
    Shape("llama-1.2b-short", "llama", 2048, 16, 32, 8, 8192, 32000, 256, 1),
]
TINY = [
    Shape("gpt2-tiny", "gpt2", 64, 2, 2, 2, 128, 211, 32, 2),
    Shape("llama-tiny", "llama", 64, 2, 4, 2, 96, 211, 32, 2),
]


def attention(query, key, value):
    """Causal attention over [batch, heads, sequence, head size]."""
    if key.shape[1] != query.shape[1]:
        times = query.shape[1] // key.shape[1]
        key = key.repeat_interleave(times, dim=1)
        value = value.repeat_interleave(times, dim=1)
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(hidden, -math.inf).softmax(-1) @ value


class Gpt2Block(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.heads = s.heads
        self.ln_1 = nn.LayerNorm(s.hidden)
        self.c_attn = nn.Linear(s.hidden, 3 * s.hidden)
        self.c_proj = nn.Linear(s.hidden, s.hidden)
        self.ln_2 = nn.LayerNorm(s.hidden)
        self.c_fc = nn.Linear(s.hidden, s.feed_forward)
        self.mlp_proj = nn.Linear(s.feed_forward, s.hidden)

    def forward(self, x):
        batch, sequence, hidden = x.shape
        parts = self.c_attn(self.ln_1(x)).split(hidden, dim=2)
        q, k, v = (p.view(batch, sequence, self.heads, -1).transpose(1, 2) for p in parts)
        y = attention(q, k, v).transpose(1, 2).reshape(batch, sequence, hidden)
        x = x + self.c_proj(y)
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        if hasattr(F, "rms_norm"):
            return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), 1e-5)
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight.to(x.dtype) * wide.to(x.dtype)


def rotate(x, cosine, sine):
    half = x.shape[-1] // 2
    return x * cosine + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sine


class LlamaBlock(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.shape = s
        kv = s.key_heads * s.head_size
        self.input_norm = RmsNorm(s.hidden)
        self.q_proj = nn.Linear(s.hidden, s.hidden, bias=False)
        self.k_proj = nn.Linear(s.hidden, kv, bias=False)
        self.v_proj = nn.Linear(s.hidden, kv, bias=False)
        self.o_proj = nn.Linear(s.hidden, s.hidden, bias=False)
        self.post_norm = RmsNorm(s.hidden)
        self.gate_proj = nn.Linear(s.hidden, s.feed_forward, bias=False)
        self.up_proj = nn.Linear(s.hidden, s.feed_forward, bias=False)
        self.down_proj = nn.Linear(s.feed_forward, s.hidden, bias=False)
        place = torch.arange(s.sequence).float()
        step = 10000.0 ** (-torch.arange(0, s.head_size, 2).float() / s.head_size)
        angle = torch.cat([place[:, None] * step] * 2, dim=-1)
        self.register_buffer("cosine", angle.cos(), persistent=False)
        self.register_buffer("sine", angle.sin(), persistent=False)

    def forward(self, x):
        batch, sequence, hidden = x.shape
        y = self.input_norm(x)
        q, k, v = (
            p(y).view(batch, sequence, -1, self.shape.head_size).transpose(1, 2)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        cosine, sine = self.cosine.to(q.dtype), self.sine.to(q.dtype)
        q, k = rotate(q, cosine, sine), rotate(k, cosine, sine)
        x = x + self.o_proj(attention(q, k, v).transpose(1, 2).reshape(batch, sequence, hidden))
        y = self.post_norm(x)
        return x + self.down_proj(F.silu(self.gate_proj(y)) * self.up_proj(y))


class Model(nn.Module):
    def __init__(self, s):
        super().__init__()
        gpt2 = s.family == "gpt2"
        self.embedding = nn.Embedding(s.vocabulary, s.hidden)
        self.positions = nn.Embedding(s.sequence, s.hidden) if gpt2 else None
        block = Gpt2Block if gpt2 else LlamaBlock
        self.blocks = nn.ModuleList(block(s) for _ in range(s.layers))
        self.norm = nn.LayerNorm(s.hidden) if gpt2 else RmsNorm(s.hidden)
        self.head = nn.Linear(s.hidden, s.vocabulary, bias=False)
        if gpt2:
            self.head.weight = self.embedding.weight
        # Small enough that random training stays finite.
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        if self.positions is not None:
            x = x + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1))


def train(shape, device, steps, warmup, compiled):
    """Step times in seconds, and the most bytes that were allocated (None on a CPU)."""
    torch.manual_seed(1)
    on_gpu = device == "cuda"
    model = Model(shape).to(device)
    run = torch.compile(model) if compiled else model
    options = {"fused": True} if on_gpu else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **options)
    batch = torch.randint(shape.vocabulary, (shape.micro_batch, shape.sequence + 1), device=device)
    tokens, targets = batch[:, :-1].contiguous(), batch[:, 1:].contiguous()

    def step():
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = run(tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    for _ in range(warmup):
        loss = step()
    times = []
    if on_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        # All steps are queued and then timed: recording an event does not delay the GPU.
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
        marks[0].record()
        for mark in marks[1:]:
            loss = step()
            mark.record()
        torch.cuda.synchronize()
        times = [a.elapsed_time(b) / 1e3 for a, b in zip(marks, marks[1:])]
    else:
        for _ in range(steps):
            begin = time.perf_counter()
            loss = step()
            times.append(time.perf_counter() - begin)
    if not math.isfinite(loss.item()):
        raise RuntimeError(f"{shape.name}: the loss is {loss.item()}")
    peak = torch.cuda.max_memory_allocated() if on_gpu else None
    return times, peak


def forecast(shape, arguments, mode):
    """What stepcast says of the same step, or None without a stepcast."""
    folder = arguments.output
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{shape.name}-model.yaml"), "w", encoding="utf-8") as file:
        file.write(shape.model_yaml())
    name = shape.name if mode == "eager" else f"{shape.name}-{mode}"
    scenario = os.path.join(folder, f"{name}.yaml")
    profile = os.path.abspath(arguments.profile) if arguments.profile else None
    with open(scenario, "w", encoding="utf-8") as file:
        file.write(shape.scenario_yaml(arguments.gpu, arguments.memory, profile, mode))
    if not arguments.stepcast:
        return None
    done = subprocess.run(
        [arguments.stepcast, "simulate", scenario, "--json"], capture_output=True, text=True
    )
    if done.returncode not in (0, 3):
        raise RuntimeError(f"stepcast simulate {scenario} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def difference(predicted, measured):
    return None if not measured else predicted / measured - 1


def percent(value):
    return "" if value is None else f"{100 * value:+.1f} %"


def table(rows):
    head = ["model", "mode", "step ms", "forecast ms", "error", "peak MiB", "forecast MiB", "error"]
    cells = [head]
    for row in rows:
        mib = lambda b: "" if b is None else f"{b / 2**20:.0f}"
        ms = lambda s: "" if s is None else f"{1e3 * s:.2f}"
        cells.append(
            [row["model"], row["mode"], ms(row["step_time_s"]), ms(row["forecast_step_time_s"]),
             percent(row["time_error"]), mib(row["peak_bytes"]), mib(row["forecast_peak_bytes"]),
             percent(row["memory_error"])]
        )
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    for line in cells:
        left = [line[i].ljust(widths[i]) for i in range(2)]
        right = [line[i].rjust(widths[i]) for i in range(2, len(head))]
        print("  ".join(left + right).rstrip())


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stepcast", help="the stepcast to ask for forecasts")
    parser.add_argument("--profile", help="the calibration profile of this GPU")
    parser.add_argument("--gpu", default="h100-sxm", help="the GPU's name in topologies/gpus")
    parser.add_argument("--memory", default="79 GiB", help="the GPU's memory")
    parser.add_argument("--output", default="pytorch-step", help="a folder for the results")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--models", help="some of them, by name, with commas between")
    parser.add_argument("--tiny", action="store_true", help="models that a CPU trains in seconds")
    parser.add_argument("--eager-only", action="store_true", help="do not try torch.compile")
    parser.add_argument("--dry-run", action="store_true", help="forecast, but do not train")
    parser.add_argument("--within-time", type=float, default=0.08)
    parser.add_argument("--within-memory", type=float, default=0.05)
    arguments = parser.parse_args()

    shapes = TINY if arguments.tiny else SHAPES
    if arguments.models:
        names = arguments.models.split(",")
        shapes = shapes + ([] if arguments.tiny else HOST_BOUND)
        unknown = set(names) - {s.name for s in shapes}
        if unknown:
            parser.error(f"no such model: {', '.join(sorted(unknown))}; there are: "
                         + ", ".join(s.name for s in shapes))
        shapes = [s for s in shapes if s.name in names]
    if arguments.device == "cuda" and not arguments.dry_run and not torch.cuda.is_available():
        print("pytorch_step.py: skipped: PyTorch sees no GPU here", file=sys.stderr)
        return 0

    rows = []
    for shape in shapes:
        predicted = forecast(shape, arguments, "eager")
        # Without memory, since only the number of parameters is needed.
        if predicted is not None:
            count = parameters(shape)
            if predicted["parameters"] != count:
                raise RuntimeError(f"{shape.name} has {count} parameters in PyTorch and "
                                   f"{predicted['parameters']} in stepcast")
        modes = ["eager"]
        if hasattr(torch, "compile") and not arguments.eager_only and arguments.device == "cuda":
            modes.append("compiled")
        for mode in modes:
            if mode != "eager":
                predicted = forecast(shape, arguments, mode)
            times, peak = [], None
            if predicted is not None and not arguments.dry_run and arguments.device == "cuda":
                wanted = predicted["memory"]["peak_bytes"]
                if wanted > 0.9 * torch.cuda.get_device_properties(0).total_memory:
                    print(f"{shape.name}: left out, it needs {wanted / 2**30:.0f} GiB",
                          file=sys.stderr)
                    continue
            if not arguments.dry_run:
                times, peak = train(shape, arguments.device, arguments.steps, arguments.warmup,
                                    mode == "compiled")
                if arguments.device == "cuda":
                    torch.cuda.empty_cache()
            median = statistics.median(times) if times else None
            time_s = predicted["step_time_s"] if predicted else None
            peak_bytes = predicted["memory"]["peak_bytes"] if predicted else None
            rows.append({
                "model": shape.name, "mode": mode, "step_time_s": median, "steps_s": times,
                "peak_bytes": peak, "forecast_step_time_s": time_s,
                "forecast_peak_bytes": peak_bytes,
                "time_error": difference(time_s, median) if predicted else None,
                "memory_error": difference(peak_bytes, peak) if predicted else None,
            })
    device_name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    result = {"torch": torch.__version__, "device": device_name, "profile": arguments.profile,
              "rows": rows}
    path = os.path.join(arguments.output, "pytorch.json")
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    os.replace(path + ".part", path)
    table(rows)
    beyond = [
        row for row in rows if row["mode"] == "eager"
        and (abs(row["time_error"] or 0) > arguments.within_time
             or abs(row["memory_error"] or 0) > arguments.within_memory)
    ]
    # There is no forecast for a CPU.
    return 3 if beyond and arguments.device == "cuda" else 0


def parameters(shape):
    """The number of parameters, without the memory that they take."""
    if hasattr(torch, "set_default_device"):
        with torch.device("meta"):
            model = Model(shape)
        return sum(p.numel() for p in model.parameters())
    small = Shape(**{**shape.__dict__, "layers": 1})
    model = Model(small)
    block = sum(p.numel() for p in model.blocks[0].parameters())
    return sum(p.numel() for p in model.parameters()) + (shape.layers - 1) * block


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, OSError) as error:
        print(f"pytorch_step.py: {error}", file=sys.stderr)
        sys.exit(1)
