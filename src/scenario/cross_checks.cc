#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/quantity.h"
#include "src/base/time.h"
#include "src/calibration/profiles.h"
#include "src/model/architecture.h"
#include "src/model/layer.h"
#include "src/plan/legality.h"
#include "src/plan/request.h"
#include "src/scenario/scenario_checks.h"
#include "src/topology/cluster.h"

namespace stepcast::scenario {
namespace {

class CrossChecks {
 public:
  CrossChecks(const ScenarioFile& file, const YamlTree& root, const Scenario& scenario,
              bool profiles_believed, Diagnostics& diagnostics)
      : file_(file),
        root_(root),
        scenario_(scenario),
        profiles_believed_(profiles_believed),
        diagnostics_(diagnostics) {}

  // The rules that relate plan, model and cluster.
  void CheckPlan() {
    for (plan::Violation& violation : plan::Check(file_.request, LegalityFactsOf(scenario_))) {
      Report(std::move(violation.code), LocationOf(root_, violation.key),
             std::move(violation.message), std::move(violation.hint));
    }
  }

  void CheckOthers() {
    CheckCosts();
    CheckStepTime();
    CheckReduction();
    CheckOtherNodes();
  }

 private:
  void Report(std::string code, Location location, std::string message, std::string hint) {
    diagnostics_.push_back(
        {std::move(code), std::move(location), std::move(message), std::move(hint)});
  }

  // The model's architecture, or null if it has none.
  const model::Architecture* Architecture() const {
    return scenario_.model == nullptr ? nullptr
                                      : std::get_if<model::Architecture>(&scenario_.model->source);
  }

  void CheckOtherNodes() {
    if (file_.other_nodes.empty()) return;
    const Location location = LocationOf(root_, "cluster.other_nodes");
    if (scenario_.model != nullptr && scenario_.model->is_layer_list()) {
      Report(
          "scenario.mixed-layers", location,
          "a layer list has times for only one kind of device, but the cluster has several kinds",
          "describe 'model' by its architecture instead of layer times; or use nodes of one kind, "
          "with cluster.slow_devices for slower devices");
    }
  }

  // NCCL would ignore the setting; a scenario that asks for it is told so.
  void CheckReduction() {
    if (!file_.nccl_collnet.value_or(false) || scenario_.cluster == nullptr) return;
    if (scenario_.cluster->flat() || scenario_.cluster->nodes() == 1) return;
    if (scenario_.cluster->fabric() != nullptr && scenario_.cluster->fabric()->sharp) return;
    Report("nccl.no-sharp", LocationOf(root_, "communication.nccl_collnet"),
           "nccl_collnet is true, but the switches of this fabric cannot run reductions (SHARP)",
           "remove nccl_collnet, or write 'sharp: true' under 'fabric' in the topology");
  }

  // Layer times are inputs. The sum over several steps must stay within the range of virtual time.
  void CheckStepTime() {
    constexpr Time kLongestStep = Seconds(24 * 3600);
    if (scenario_.model == nullptr || scenario_.cluster == nullptr) return;
    const auto* list = std::get_if<model::LayerList>(&scenario_.model->source);
    if (list == nullptr || !file_.request.micro_batch_size.has_value()) return;
    std::int64_t micro_batches = file_.request.gradient_accumulation.value_or(1);
    if (const auto data = plan::DataDegree(file_.request, scenario_.cluster->devices());
        data.has_value() && file_.request.global_batch_size.has_value()) {
      micro_batches = *file_.request.global_batch_size / (*file_.request.micro_batch_size * *data);
    }
    Time micro_batch;  // a layer list takes a quarter of an hour at most (model_file.h)
    for (const model::ListedLayer& layer : list->layers) {
      micro_batch += layer.repeat * (layer.forward + layer.backward);
    }
    // More micro-batches than a plan may have are reported elsewhere.
    if (micro_batches > plan::kMostMicroBatches ||
        micro_batches * micro_batch + list->optimizer_step <= kLongestStep) {
      return;
    }
    Report("scenario.step-too-long", LocationOf(root_, "model"),
           fmt::format("a step takes more than a day: {} micro-batches of {} each, plus {} for "
                       "the optimizer",
                       micro_batches, FormatTime(micro_batch), FormatTime(list->optimizer_step)),
           "check the units of the layer times");
  }

  // Reports profiles of another GPU, and figures that the cluster's GPU cannot have.
  void CheckProfilesOfDevices() {
    if (profiles_believed_) return;
    if (scenario_.gpu) {
      CheckProfileOf(*scenario_.gpu, *scenario_.calibration, file_.calibration,
                     "(--set calibration=null)");
    }
    for (std::size_t i = 0; i < scenario_.other_nodes.size(); ++i) {
      const KindOfNode& kind = scenario_.other_nodes[i];
      if (kind.calibration == nullptr) continue;
      CheckProfileOf(kind.gpu, *kind.calibration, file_.other_nodes[i].calibration,
                     fmt::format("(--set cluster.other_nodes.{}.calibration=null)", i));
    }
  }

  // `named`: where the scenario names the profile; nothing if it is the GPU type's own.
  void CheckProfileOf(const topology::Gpu& gpu, const calibration::Calibration& profile,
                      const std::optional<Node>& named, std::string_view without) {
    if (!profile.MayHoldFor(gpu.name) && !file_.calibration_of_another_gpu.value_or(false)) {
      Report("calibration.another-gpu", named ? named->location() : profile.location,
             fmt::format("the profile {} is for {}, but this GPU is {}", Quoted(profile.name),
                         fmt::join(profile.gpus, ", "), gpu.name),
             fmt::format("remove the profile {} to use the profile of {}; to keep the "
                         "profile, with a warning, add --set calibration_of_another_gpu=true",
                         without, gpu.name));
      return;
    }
    if (!profile.kernels) return;
    for (const calibration::Fault& fault :
         calibration::CheckOnDevice(*profile.kernels, {.memory_bandwidth = gpu.memory_bandwidth,
                                                      .peak = gpu.peak,
                                                      .separate = gpu.compute_capability > 0})) {
      Report("calibration.implausible", profile.location,
             fmt::format("profile {} on {}: {}: {}", Quoted(profile.name), gpu.name, fault.field,
                         fault.message),
             fault.hint);
    }
  }

  // Reports what the step needs and no profile gives a cost for, as far as that is known before
  // lowering.
  void CheckCosts() {
    const model::Architecture* const architecture = Architecture();
    if (scenario_.cluster == nullptr) return;
    if (architecture != nullptr && scenario_.cluster->gpu().empty()) {
      Report("scenario.no-gpu", LocationOf(root_, "cluster.topology"),
             fmt::format(
                 "the kernel times of model {} depend on the GPU type, but the cluster has no key "
                 "'gpu'",
                 Quoted(scenario_.model->name)),
             "add a GPU type to the flat cluster, for example 'gpu: h100-sxm', or use a layer list "
             "with times");
    }
    if (scenario_.calibration == nullptr) return;
    const topology::FlatCluster* flat = scenario_.cluster->flat_cluster();
    if (flat != nullptr && !flat->link.has_value() && flat->devices > 1 &&
        scenario_.calibration->collectives.empty()) {
      Report("scenario.no-link", LocationOf(root_, "cluster.topology"),
             "the flat cluster has no link, and the calibration has no table of collectives",
             "add link: {latency: 5 us, bandwidth: 25 GB/s}, or use a profile with tables of "
             "collectives");
    }
    const std::optional<calibration::KernelCosts>& kernels = scenario_.calibration->kernels;
    CheckProfilesOfDevices();
    if (architecture == nullptr || !kernels.has_value() || !file_.request.precision.has_value()) {
      return;
    }
    const auto type = static_cast<std::size_t>(*file_.request.precision);
    if (kernels->gemm[type].max_efficiency == 0 && kernels->gemm_surface[type].empty() &&
        kernels->gemm_tiling[type].empty() && scenario_.gpu.has_value() &&
        scenario_.gpu->PeakOf(*file_.request.precision) > FlopRate()) {
      Report("scenario.precision-not-calibrated", LocationOf(root_, "training.precision"),
             fmt::format("the calibration profile {} has no rates of matrix multiplications in {}",
                         Quoted(scenario_.calibration->name), Name(*file_.request.precision)),
             "choose another training.precision, or add rates to kernels.gemm in the profile");
    }
  }

  const ScenarioFile& file_;
  const YamlTree& root_;
  const Scenario& scenario_;
  const bool profiles_believed_;
  Diagnostics& diagnostics_;
};

}  // namespace

void CheckTogether(const ScenarioFile& file, const YamlTree& root, const Scenario& scenario,
                   bool profiles_believed, Diagnostics& diagnostics) {
  CrossChecks checks(file, root, scenario, profiles_believed, diagnostics);
  checks.CheckPlan();
  checks.CheckOthers();
}

void CheckBesidePlan(const ScenarioFile& file, const YamlTree& root, const Scenario& scenario,
                     bool profiles_believed, Diagnostics& diagnostics) {
  CrossChecks(file, root, scenario, profiles_believed, diagnostics).CheckOthers();
}

}  // namespace stepcast::scenario
