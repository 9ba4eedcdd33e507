"""The example of docs/library.md, in the environment that a wheel was installed into."""

import stepcast

answer = stepcast.sweep("scenarios/gpt2-ddp/scenario.yaml", {"parallelism.data": [1, 2, 4, 8]})
rows = [row for row in answer["rows"] if row["status"] == "ok"]
best = max(rows, key=lambda row: row["tokens_per_s_per_gpu"] * int(row["set"]["parallelism.data"]))
print(f"{len(rows)} rows, the fastest with {best['set']['parallelism.data']} GPUs, "
      f"stepcast {stepcast.__version__}")
try:
    stepcast.simulate("scenarios/gpt2-ddp/scenario.yaml", set={"training.precision": "bf17"})
except stepcast.InputError as error:
    print(error)
