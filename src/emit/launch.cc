#include "fmt/format.h"
#include "src/emit/trainers.h"
#include "src/plan/framework_style.h"

namespace stepcast::emit {
namespace {

// Environment variables of CUDA, NCCL and PyTorch that the forecast assumes.
std::string Environment(const scenario::Scenario& scenario) {
  std::string text;
  const auto set = [&](const char* name, std::string_view value) {
    text += fmt::format("export {}='{}'\n", name, value);
  };
  if (!scenario.nccl_algo.empty()) {
    set("NCCL_ALGO", scenario.nccl_algo);
  } else if (!scenario.cluster->flat() &&
             scenario.algorithm != scenario::CollectiveAlgorithm::kAuto) {
    set("NCCL_ALGO", scenario.algorithm == scenario::CollectiveAlgorithm::kRing ? "ring" : "tree");
  }
  if (!scenario.nccl_proto.empty()) set("NCCL_PROTO", scenario.nccl_proto);
  if (scenario.nccl_collnet) set("NCCL_COLLNET_ENABLE", "1");
  // megatron/training/arguments.py, validate_args: before Blackwell it requires 1, and combined
  // 1F1B requires several.
  const plan::Parallelism& axes = scenario.plan.parallelism;
  if (plan::StyleOf(scenario.plan.data_parallel.framework).connections > 0 &&
      (axes.tensor > 1 || axes.context > 1 || scenario.plan.mixture.overlap_communication)) {
    set("CUDA_DEVICE_MAX_CONNECTIONS",
        fmt::format("{}", scenario.plan.software.cuda_device_max_connections));
  }
  if (scenario.plan.software.expandable_segments) {
    set("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True");
  }
  // docs/source/cuda_environment_variables.rst. Before torch 1.12 products used TF32 by default,
  // which cuBLAS's own variable prevents.
  if (scenario.plan.training.precision == DataType::kTf32) {
    set("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "1");
  } else if (scenario.plan.training.precision == DataType::kFp32 &&
             scenario.plan.software.torch < Version{1, 12}) {
    set("NVIDIA_TF32_OVERRIDE", "0");
  }
  return text;
}

// Every device of a flat cluster is a node.
int Nodes(const scenario::Scenario& scenario) {
  return scenario.cluster->flat() ? scenario.cluster->devices() : scenario.cluster->nodes();
}

int RanksPerNode(const scenario::Scenario& scenario) {
  return scenario.cluster->flat() ? 1 : scenario.cluster->gpus_per_node();
}

}  // namespace

Target LaunchScript(const scenario::Scenario& scenario,
                    const model::NumericalConstants& constants) {
  Target program = TrainerOf(scenario.plan).launch(scenario, constants);
  if (!program) return program;
  const int nodes = Nodes(scenario);
  std::string text = fmt::format(
      "#!/bin/sh\n"
      "# Starts the ranks of this node{}. Written by `stepcast`.\n",
      nodes == 1 ? "" : fmt::format("; run this script on each of {} nodes", nodes));
  text += nodes == 1 ? "#   MASTER_PORT  a free port (29500)\n"
                     : "#   NODE_RANK    this node's number, from 0 (SLURM_NODEID)\n"
                       "#   MASTER_ADDR  a name of node 0 that all nodes can reach\n"
                       "#   MASTER_PORT  a free port of node 0 (29500)\n";
  text +=
      "set -eu\n"
      "here=$(cd \"$(dirname \"$0\")\" && pwd)\n";
  text += Environment(scenario);
  text += *program;
  // Without --node-rank each node would take itself for the first and wait forever.
  text += fmt::format(
      "exec torchrun --nnodes={} --nproc-per-node={} \\\n"
      "  --node-rank=\"{}\" \\\n"
      "  --master-addr=\"{}\" --master-port=\"${{MASTER_PORT:-29500}}\" \\\n"
      "  \"$@\"\n",
      nodes, RanksPerNode(scenario),
      nodes == 1 ? "0" : "${NODE_RANK:-${SLURM_NODEID:?set NODE_RANK to the number of this node}}",
      nodes == 1 ? "localhost" : "${MASTER_ADDR:?set MASTER_ADDR to a name of node 0}");
  return text;
}

Target BatchScript(const scenario::Scenario& scenario, const model::NumericalConstants& constants) {
  if (Target program = TrainerOf(scenario.plan).launch(scenario, constants); !program) {
    return program;
  }
  return fmt::format(
      "#!/bin/sh\n"
      "#SBATCH --job-name=stepcast-plan\n"
      "#SBATCH --nodes={}\n"
      "#SBATCH --ntasks-per-node=1\n"
      "#SBATCH --gpus-per-node={}\n"
      "#SBATCH --exclusive\n"
      "# To submit the job, run in the folder of this file: sbatch job.sbatch. Written by "
      "`stepcast`.\n"
      "set -eu\n"
      "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
      "export MASTER_ADDR\n"
      "srun sh \"$SLURM_SUBMIT_DIR/launch.sh\" \"$@\"\n",
      Nodes(scenario), RanksPerNode(scenario));
}

}  // namespace stepcast::emit
