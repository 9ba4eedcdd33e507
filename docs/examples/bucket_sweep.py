#!/usr/bin/python3
# %% [markdown]
# # The best bucket size, and what it depends on
#
# A notebook as a script: Jupyter, VS Code and Spyder run it cell by cell, Python all at once.
# From a checkout, behind `bazel build //src/cli:stepcast`:
#
#     PYTHONPATH=src/python/package STEPCAST_PROGRAM=bazel-bin/src/cli/stepcast \
#         docs/examples/bucket_sweep.py
#
# Plots need matplotlib (Debian's python3-matplotlib); without it the figures are printed.

# %%
import stepcast

SCENARIO = "scenarios/gpt2-ddp/scenario.yaml"
BUCKETS = ["1 MiB", "2 MiB", "5 MiB", "10 MiB", "25 MiB", "50 MiB", "100 MiB", "250 MiB"]
NODES = [1, 2, 4]

forecast = stepcast.simulate(SCENARIO)
print(f"{forecast['scenario']}: {1e3 * forecast['step_time_s']:.2f} ms a step")

# %% [markdown]
# Every combination of bucket size and number of nodes, on all cores.

# %%
sweep = stepcast.sweep(
    SCENARIO,
    vary={"cluster.nodes": NODES, "data_parallel.bucket_size": BUCKETS},
    set={"parallelism": None},  # as many ranks as there are GPUs
)
steps = {
    (row["set"]["cluster.nodes"], row["set"]["data_parallel.bucket_size"]): row["step_time_s"]
    for row in sweep["rows"]
}

# %%
for nodes in NODES:
    series = [(bucket, steps[str(nodes), bucket]) for bucket in BUCKETS]
    bucket, best = min(series, key=lambda pair: pair[1])
    worst = max(seconds for _, seconds in series)
    print(f"{8 * nodes:3} GPUs: best with buckets of {bucket}: {1e3 * best:.2f} ms; "
          f"the worst takes {100 * (worst / best - 1):.1f} % longer")

# %% [markdown]
# The same as a plot.

# %%
try:
    import matplotlib.pyplot as plt
except ImportError:
    plt = None
if plt is not None:
    figure, axes = plt.subplots()
    for nodes in NODES:
        axes.plot(BUCKETS, [1e3 * steps[str(nodes), bucket] for bucket in BUCKETS], marker="o",
                  label=f"{8 * nodes} GPUs")
    axes.set_xlabel("bucket size")
    axes.set_ylabel("step time, ms")
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.savefig("bucket_sweep.png", dpi=120)
    print("wrote bucket_sweep.png")

# %% [markdown]
# Mistakes are exceptions that say where they are.

# %%
try:
    stepcast.simulate(SCENARIO, set={"data_parallel.bucket_sice": "5 MiB"})
except stepcast.InputError as error:
    for diagnostic in error.diagnostics:
        print(f"{diagnostic['file']}: {diagnostic['message']} ({diagnostic['hint']})")
