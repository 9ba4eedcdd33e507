#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/calibration/profiles.h"
#include "src/model/model.h"
#include "src/parallel/axis.h"
#include "src/parallel/rank_grid.h"
#include "src/plan/legality.h"
#include "src/plan/rank_grid.h"
#include "src/scenario/scenario_checks.h"
#include "src/topology/cluster.h"
#include "src/topology/node_type.h"

namespace stepcast::scenario {
namespace {

// Warns about tables for other numbers of nodes that a flat cluster uses for groups of these sizes.
// Returns whether there are any.
template <typename Shape>
bool WarnOfNodesThatDiffer(const std::vector<int>& sizes, const Shape& shape, Scenario& scenario) {
  std::vector<std::string> taken;
  const auto& tables = scenario.calibration->collectives;
  for (const calibration::CollectiveTable& table : tables) {
    if (table.nodes == table.ranks) continue;
    if (std::find(sizes.begin(), sizes.end(), table.ranks) == sizes.end()) continue;
    if (calibration::FindTableOfFlatCluster(tables, table.collective, table.ranks) != &table) {
      continue;
    }
    std::string own = shape(table.ranks, table.nodes);
    if (std::find(taken.begin(), taken.end(), own) == taken.end()) {
      taken.push_back(std::move(own));
    }
  }
  if (taken.empty()) return false;
  scenario.warnings.push_back(fmt::format(
      "each device of a flat cluster is a node, but the calibration profile has no table for nodes "
      "with one GPU. The forecast uses collectives that were measured over {}",
      fmt::join(taken, ", ")));
  return true;
}

// Warns about collective tables that do not match the plan. A table applies to exactly its numbers
// of ranks and nodes; on a flat cluster, where every device is a node, to its number of ranks.
// Otherwise a profile without a matching table would be ignored silently, and one with another
// number of nodes used silently.
void WarnOfOtherTables(Scenario& scenario) {
  if (scenario.calibration == nullptr || scenario.calibration->collectives.empty()) return;
  const parallel::RankGrid grid = plan::GridsOf(scenario.plan).dense();
  if (grid.Degree(parallel::kGradients) == 1) return;
  const auto shape = [](int ranks, int nodes) {
    return fmt::format("{} ranks on {} {}", ranks, nodes, nodes == 1 ? "node" : "nodes");
  };
  // The groups of all ranks, of the ranks that share a copy of the states, and of those with the
  // same part of it. The groups of rank 0 stand for all.
  std::vector<std::string> planned;
  std::vector<int> sizes;
  for (const parallel::AxisSet axes :
       {parallel::kGradients, parallel::kStates, parallel::AxisSet(parallel::Axis::kReplica)}) {
    const std::vector<int> ranks = grid.Group(0, axes);
    const auto count = static_cast<int>(ranks.size());
    if (count == 1) continue;
    planned.push_back(shape(count, scenario.cluster->PathOf(ranks).nodes));
    if (std::find(sizes.begin(), sizes.end(), count) == sizes.end()) sizes.push_back(count);
  }
  if (scenario.cluster->flat() && WarnOfNodesThatDiffer(sizes, shape, scenario)) return;
  std::vector<std::string> measured;
  for (const calibration::CollectiveTable& table : scenario.calibration->collectives) {
    std::string own = shape(table.ranks, table.nodes);
    if (std::find(planned.begin(), planned.end(), own) != planned.end()) return;
    if (std::find(measured.begin(), measured.end(), own) == measured.end()) {
      measured.push_back(std::move(own));
    }
  }
  scenario.warnings.push_back(
      fmt::format("the forecast does not use the profile's tables of collectives: the tables "
                  "are for {}, but this plan uses {}{}",
                  fmt::join(measured, ", "), planned.front(),
                  scenario.cluster->flat() ? " (each device of a flat cluster is a node)" : ""));
}

// FlashAttention-2 has no kernels for Blackwell. If the framework could use cuDNN's attention
// there, the user usually does not want FlashAttention-2.
void WarnOfSlowAttention(const ScenarioFile& file, Scenario& scenario) {
  constexpr int kBlackwell = 10;
  if (file.request.attention ||
      !std::holds_alternative<model::Architecture>(scenario.model->source) || !scenario.gpu ||
      scenario.gpu->compute_capability / 10 != kBlackwell ||
      scenario.plan.training.attention != model::Attention::kFlash) {
    return;
  }
  scenario.warnings.push_back(
      fmt::format("training.attention is not set, so flash (FlashAttention-2) is assumed. "
                  "FlashAttention-2 has no kernels for {}, and reaches a quarter of cuDNN's rate "
                  "on this GPU. If you use cuDNN's attention, write training.attention: cudnn",
                  scenario.gpu->name));
}

void WarnOfUnknownAttention(const ScenarioFile& file, Scenario& scenario) {
  constexpr std::size_t kCudnn = 3;  // in KernelCosts::attention
  if (!file.request.attention || scenario.plan.training.attention != model::Attention::kCudnn ||
      scenario.model->is_layer_list() || scenario.calibration == nullptr ||
      !scenario.calibration->kernels ||
      scenario.calibration->kernels->attention[kCudnn].forward != 0) {
    return;
  }
  scenario.warnings.emplace_back(
      "training.attention is cudnn, but the calibration profile has no measurements of cuDNN's "
      "attention, so the forecast uses the times of flash");
}

// Warns about a profile that belongs, or may belong, to another GPU.
void WarnOfProfile(const calibration::Calibration& profile, const topology::Gpu& gpu, bool named,
                   Scenario& scenario) {
  if (profile.gpus.empty() && named) {
    scenario.warnings.push_back(fmt::format(
        "the calibration profile '{}' has no key 'gpu'; the forecast uses the profile for {}",
        profile.name, gpu.name));
  } else if (!profile.MayHoldFor(gpu.name)) {
    scenario.warnings.push_back(
        fmt::format("the calibration profile '{}' is for {}, but calibration_of_another_gpu allows "
                    "its use for {}; errors may be far larger than the stated range",
                    profile.name, fmt::join(profile.gpus, ", "), gpu.name));
  }
}

void WarnOfProfiles(const ScenarioFile& file, Scenario& scenario) {
  bool all_hold = true;
  const auto look_at = [&](const calibration::Calibration& profile, const topology::Gpu& gpu,
                           bool named) {
    WarnOfProfile(profile, gpu, named, scenario);
    all_hold = all_hold && profile.MayHoldFor(gpu.name);
  };
  if (scenario.gpu) look_at(*scenario.calibration, *scenario.gpu, file.calibration.has_value());
  for (std::size_t i = 0; i < scenario.other_nodes.size(); ++i) {
    const KindOfNode& kind = scenario.other_nodes[i];
    look_at(*kind.calibration, kind.gpu, file.other_nodes[i].calibration.has_value());
  }
  if (scenario.calibration_of_another_gpu && all_hold) {
    scenario.warnings.emplace_back(
        "calibration_of_another_gpu has no effect, because all profiles are for this GPU");
  }
}

// Warns about routing settings and the hash seed without effect.
void WarnOfRouting(const RoutingRequest& routing, Scenario& scenario) {
  if (!routing.choice && !routing.seed) return;
  const topology::Fabric* fabric = scenario.cluster->fabric();
  if (fabric == nullptr || fabric->kind == topology::FabricKind::kOneSwitch) {
    scenario.warnings.emplace_back(
        "cluster.routing and routing_seed have no effect, because the topology's fabric has no "
        "spines; use a rail-optimized fabric or a fat-tree");
    return;
  }
  if (fabric->routing == topology::Routing()) return;  // the default
  if (scenario.cluster->nodes() <= fabric->nodes_per_unit) {
    scenario.warnings.push_back(
        fmt::format("cluster.routing and routing_seed have no effect, because all {} nodes are "
                    "connected to one leaf switch, so no traffic uses the spines",
                    fabric->nodes_per_unit));
    return;
  }
  const bool analytic = scenario.network == Fidelity::kAnalytic;
  const bool hashed = fabric->routing.choice == topology::RouteChoice::kEcmp;
  if (analytic && !hashed) {
    scenario.warnings.push_back(
        fmt::format("cluster.routing {} has no effect with cluster.network analytic, which uses "
                    "all spines equally; write cluster.network: flow or message",
                    topology::Name(fabric->routing.choice)));
  }
  if (fabric->routing.seed != 0 && (analytic || !hashed)) {
    scenario.warnings.emplace_back(
        analytic ? "cluster.routing_seed has no effect with cluster.network analytic, which uses "
                   "the mean over all seeds; write cluster.network: flow or message"
                 : "cluster.routing_seed has no effect without cluster.routing ecmp");
  }
}

void WarnOfDeterminism(Scenario& scenario) {
  const auto* memory = scenario.calibration != nullptr && scenario.calibration->memory
                           ? &*scenario.calibration->memory
                           : nullptr;
  if (!scenario.plan.training.deterministic || scenario.model->is_layer_list()) return;
  if (memory != nullptr && memory->gemm_workspace != Bytes(0) &&
      memory->gemm_workspace != plan::kDeterministicWorkspace) {
    return;
  }
  scenario.warnings.push_back(
      fmt::format("training.deterministic has no effect: {}",
                  memory != nullptr && memory->gemm_workspace != Bytes(0)
                      ? "on this GPU, the size of cuBLAS workspaces is always 32 MiB"
                      : "the calibration profile has no measurements of cuBLAS workspaces"));
}

void WarnOfIdleSlowDevices(const ScenarioFile& file, Scenario& scenario) {
  for (const SlowDevice& named : file.slow_devices) {
    const bool used =
        std::any_of(scenario.slow_devices.begin(), scenario.slow_devices.end(),
                    [&](const SlowDevice& slow) { return slow.device == named.device; });
    if (used) continue;
    scenario.warnings.push_back(
        fmt::format("cluster.slow_devices: the speed of {} has no effect, because the job does not "
                    "use this device (cluster.devices)",
                    named.device));
  }
}

// Warns about rates that are borrowed from one device and library, or assumed.
void WarnOfAssumedRates(Scenario& scenario) {
  const auto* architecture = scenario.model == nullptr
                                 ? nullptr
                                 : std::get_if<model::Architecture>(&scenario.model->source);
  if (architecture == nullptr) return;
  const auto any = [&](const auto& has) {
    return std::any_of(architecture->kinds.begin(), architecture->kinds.end(), has);
  };
  if (any([](const model::Architecture& kind) { return Has(kind, model::Mixer::kDelta); })) {
    scenario.warnings.push_back(
        "the time of delta-rule scans is based on flash-linear-attention on H200. Other libraries "
        "are up to three times as fast; the step's range includes their speed");
  }
  if (any([](const model::Architecture& kind) { return Has(kind, model::Mixer::kStateSpace); })) {
    scenario.warnings.push_back(
        "Mamba-2's scans have not been measured. The forecast uses the rate of the delta rule, and "
        "a wider range for the step time");
  }
  if (any([](const model::Architecture& kind) { return Has(kind, model::Mixer::kDecay); })) {
    scenario.warnings.push_back(
        "scans of lightning attention have not been measured. The forecast uses the rate of the "
        "delta rule, and a wider range for the step time");
  }
  if (any([](const model::Architecture& kind) {
        return Has(kind, model::Mixer::kSelectiveScan);
      })) {
    scenario.warnings.push_back(
        "Mamba-1's scans have not been measured. The forecast assumes a quarter of the peak rate "
        "of FP32, and a wider range for the step time");
  }
  if (any([](const model::Architecture& kind) {
        return kind.indexer.chooses() || kind.shared_key.exists();
      })) {
    scenario.warnings.push_back(
        "the forecast uses the rate of dense attention for sparse attention, because training "
        "kernels of sparse attention have not been measured");
  }
}

}  // namespace

void AppendWarnings(const ScenarioFile& file, Scenario& scenario) {
  WarnOfAssumedRates(scenario);
  for (std::string& sentence : plan::KeysWithoutEffect(file.request)) {
    scenario.warnings.push_back(std::move(sentence));
  }
  const bool nccl =
      file.nccl_algo.has_value() || file.nccl_proto.has_value() || file.nccl_collnet.has_value();
  if (nccl && (!scenario.gpu.has_value() || scenario.gpu->compute_capability == 0 ||
               scenario.cluster->flat())) {
    scenario.warnings.emplace_back(
        "communication.nccl_algo, nccl_proto and nccl_collnet have no effect, because NCCL is "
        "modelled only for CUDA devices in a topology that is not flat");
  }
  if (file.nccl_collnet.value_or(false) && !scenario.cluster->flat() &&
      scenario.cluster->nodes() == 1) {
    scenario.warnings.emplace_back(
        "communication.nccl_collnet has no effect on one node, because the GPUs of one node do not "
        "use the switches of the fabric");
  }
  WarnOfProfiles(file, scenario);
  WarnOfOtherTables(scenario);
  WarnOfSlowAttention(file, scenario);
  WarnOfUnknownAttention(file, scenario);
  if (scenario.KernelDependsOnAssumedRelease()) {
    scenario.warnings.emplace_back(
        "software.torch is not set, so PyTorch 2.11 or later is assumed, which uses cuDNN's "
        "attention with sinks. Older releases store all attention scores, so the step may not fit");
  }
  WarnOfIdleSlowDevices(file, scenario);
  if (!scenario.slow_links.empty() && scenario.network == Fidelity::kAnalytic) {
    scenario.warnings.push_back(
        "cluster.slow_links has no effect with cluster.network analytic; write cluster.network: "
        "flow or message");
  }
  WarnOfRouting(file.routing, scenario);
  WarnOfDeterminism(scenario);
  const auto* architecture = std::get_if<model::Architecture>(&scenario.model->source);
  for (std::string& sentence : architecture != nullptr
                                   ? plan::KeysWithoutEffectOn(file.request, *architecture)
                                   : plan::KeysWithoutEffectOnLayerLists(file.request)) {
    scenario.warnings.push_back(std::move(sentence));
  }
}

}  // namespace stepcast::scenario
