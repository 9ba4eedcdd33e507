#include "src/scenario/loader.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/data_type.h"
#include "src/base/files.h"
#include "src/calibration/profiles.h"
#include "src/formats/schedule_csv.h"
#include "src/model/architecture.h"
#include "src/model/lora.h"
#include "src/model/model.h"
#include "src/plan/idle_settings.h"
#include "src/plan/request.h"
#include "src/scenario/calibration_file.h"
#include "src/scenario/data_root.h"
#include "src/scenario/document.h"
#include "src/scenario/gpu_file.h"
#include "src/scenario/hub_models.h"
#include "src/scenario/input_contents.h"
#include "src/scenario/job_devices.h"
#include "src/scenario/model_file.h"
#include "src/scenario/resolved_scenario.h"
#include "src/scenario/scenario_checks.h"
#include "src/scenario/scenario_file.h"
#include "src/scenario/source_names.h"
#include "src/scenario/topology_file.h"
#include "src/topology/device.h"
#include "src/topology/node_type.h"

namespace stepcast::scenario {

using Contents = InputCache::Contents;

namespace {

// Prefix of positions in overrides.
constexpr std::string_view kOption = "--set ";

// Value for the number of nodes if there is no cluster.
constexpr std::int64_t kNoCluster = -1;

// Sorts mistakes by file and, within a file, by position.
void SortByPosition(Diagnostics& diagnostics) {
  std::map<std::string, std::size_t> rank_of_file;
  for (const Diagnostic& diagnostic : diagnostics) {
    rank_of_file.emplace(diagnostic.location.file, rank_of_file.size());
  }
  const auto key = [&](const Diagnostic& diagnostic) {
    return std::tuple(rank_of_file.at(diagnostic.location.file), diagnostic.location.line,
                      diagnostic.location.column);
  };
  std::stable_sort(diagnostics.begin(), diagnostics.end(),
                   [&](const Diagnostic& a, const Diagnostic& b) { return key(a) < key(b); });
}

}  // namespace

namespace {

// "Llama-3.1 8B, FSDP2" for "Llama-3.1 8B, FSDP2 on 16 DGX H100".
std::string WithoutMachines(const std::string& title) {
  const std::size_t begin = title.find(" on ");
  if (begin == std::string::npos || begin == 0) return title;
  std::size_t end = title.size();
  for (const char* next : {", ", " with "}) end = std::min(end, title.find(next, begin));
  return title.substr(0, begin) + title.substr(end);
}

}  // namespace

class Loader::Reading {
 public:
  Reading(OpenedScenario opened, Contents& contents)
      : root_(std::move(opened.root)),
        file_(std::move(opened.file)),
        changes_(std::move(opened.changes)),
        other_machines_(opened.other_machines),
        folder_(FolderOf(file_)),
        diagnostics_(std::move(opened.mistakes)),
        contents_(contents) {}

  Result<void> Read() {
    read_ = ReadScenarioFile(Node(root_, ""), diagnostics_);
    for (std::optional<Node>* source : {&read_.model, &read_.topology, &read_.calibration}) {
      LookAround(*source);
    }
    LoadModel(read_);
    LoadCluster(read_);
    LoadCalibration(read_);
    LoadSchedule(read_);
    const bool all_is_read = diagnostics_.empty();
    if (all_is_read) TakeWhatPlansShare();
    CheckTogether(read_);
    if (!diagnostics_.empty()) {
      if (all_is_read) FindBrokenRules();
      SortByPosition(diagnostics_);
      return tl::make_unexpected(std::exchange(diagnostics_, {}));
    }
    warnings_ = scenario_.warnings;
    profile_believed_ = true;
    Complete();
    return {};
  }

  // Whether all mistakes that Read has found concern rules about plans.
  bool can_reread() const { return can_reread_; }

  // Repeats the part of Read that depends on the plan and the number of nodes, for another plan.
  bool Reread(const plan::Request& request, std::optional<std::int64_t> nodes) {
    read_.request = request;
    read_.nodes = nodes;
    LoadSchedule(read_);
    const bool by_plan = read_.devices && !read_.devices->count;
    if (nodes != cluster_nodes_ || by_plan) {
      const auto known = nodes && NodesAreAll() ? clusters_.find(*nodes) : clusters_.end();
      if (known != clusters_.end()) {
        scenario_.cluster = known->second;
        scenario_.nodes_described = static_cast<int>(*nodes);
      } else {
        LoadCluster(read_);
        if (!read_.other_nodes.empty()) LoadCalibration(read_);
        if (diagnostics_.empty() && nodes && NodesAreAll()) clusters_[*nodes] = scenario_.cluster;
      }
      // After a cluster that cannot be built, the next one is always built anew.
      cluster_nodes_ = diagnostics_.empty() ? nodes : std::optional(kNoCluster);
    }
    scenario_.warnings = warnings_;
    broken_.clear();
    if (diagnostics_.empty()) {
      broken_ = plan::Check(read_.request, Facts());
      if (!broken_.empty()) return false;
      CheckBesidePlan(read_, root_, scenario_, profile_believed_, diagnostics_);
    }
    if (!diagnostics_.empty()) {
      diagnostics_.clear();
      return false;
    }
    Complete();
    return true;
  }

  const std::vector<plan::Violation>& broken() const { return broken_; }
  const ScenarioFile& read() const { return read_; }
  const Scenario& scenario() const { return scenario_; }
  Scenario Take() {
    for (std::string& sentence :
         plan::IdleSettings(read_.request, scenario_.plan, *scenario_.model,
                            scenario_.cluster->devices(), BlocksOf(*scenario_.model))) {
      const std::string key = sentence.substr(0, sentence.find(' ') + 1);
      const bool named =
          std::any_of(scenario_.warnings.begin(), scenario_.warnings.end(),
                      [&](const std::string& warning) { return warning.starts_with(key); });
      if (!named) scenario_.warnings.push_back(std::move(sentence));
    }
    scenario_.resolved = Resolve(scenario_, sources_);
    return std::move(scenario_);
  }

 private:
  // Facts of the model, which does not change, and of the cluster.
  const plan::Facts& Facts() {
    if (facts_of_ != scenario_.cluster || !facts_) {
      facts_ = LegalityFactsOf(scenario_);
      facts_of_ = scenario_.cluster;
    }
    return *facts_;
  }

  // Whether topology and `cluster.nodes` alone determine the cluster.
  bool NodesAreAll() const { return read_.other_nodes.empty() && !read_.devices; }

  // Completes the plan with its defaults, and adds warnings.
  void Complete() {
    if (scenario_.gpu) read_.request.compute_capability = scenario_.gpu->compute_capability;
    if (scenario_.cluster != nullptr && !scenario_.cluster->flat()) {
      read_.request.node_devices = scenario_.cluster->gpus_per_node();
    }
    scenario_.plan =
        plan::Complete(read_.request, scenario_.cluster->devices(), BlocksOf(*scenario_.model));
    plan::Training& training = scenario_.plan.training;
    const Dispatch stated = training.dispatch;
    const auto dispatch =
        DispatchBy(scenario_.calibration.get(), scenario_.cluster->host_speed(), stated);
    training.dispatch_known = dispatch.has_value();
    training.dispatch = dispatch.value_or(stated);
    for (KindOfNode& kind : scenario_.other_nodes) {
      kind.dispatch =
          DispatchBy(kind.calibration.get(), kind.cluster->host_speed(), stated).value_or(stated);
    }
    const plan::Request& request = read_.request;
    scenario_.optimizer_states_assumed = !request.master_weights && !request.optimizer_state_dtype;
    scenario_.torch_assumed = !request.torch;
    scenario_.nccl_assumed = !request.nccl;
    scenario_.attention_assumed = !request.attention && !scenario_.model->is_layer_list();
    AppendWarnings(read_, scenario_);
  }

  // The host time of the framework's code, if the code runs eagerly and the scenario does not state
  // it: measured on this host, or scaled from the reference host. Nothing if no source has it.
  std::optional<Dispatch> DispatchBy(const calibration::Calibration* profile, double host_speed,
                                     const Dispatch& stated) const {
    if (read_.request.dispatch || profile == nullptr || scenario_.plan.training.compile ||
        scenario_.model->is_layer_list() ||
        plan::TraitsOf(scenario_.plan.data_parallel.framework).textbook) {
      return stated;
    }
    const std::string_view framework = plan::Name(plan::LayersOf(scenario_.plan));
    const auto own = profile->dispatch.find(framework);
    if (own != profile->dispatch.end()) return own->second;
    if (profile->frameworks == nullptr) return std::nullopt;
    const auto& published = profile->frameworks->dispatch;
    const auto found = published.find(framework);
    if (found == published.end()) return std::nullopt;
    return calibration::OnHost(found->second, host_speed);
  }

  void Report(std::string code, Location location, std::string message, std::string hint) {
    diagnostics_.push_back(
        {std::move(code), std::move(location), std::move(message), std::move(hint)});
  }

  // A path on the command line may be relative to the working directory if the file is nowhere
  // else. The path becomes absolute, so that the scenario means the same from everywhere.
  void LookAround(std::optional<Node>& source) const {
    if (!source || source->kind() != NodeKind::kScalar || !source->file().starts_with(kOption)) {
      return;
    }
    const std::string& path = source->scalar();
    const SourceKind kind = KindOfKey(source->path());
    if (path.empty() || path.front() == '/' || FindSource(path, folder_, kind)) return;
    std::error_code error;
    const auto here = FindSource(std::filesystem::absolute(path, error).string(), "", kind);
    if (error || !here || std::filesystem::is_directory(*here, error)) return;
    auto found = std::make_shared<YamlNode>(*source->tree());
    found->scalar = std::filesystem::path(*here).lexically_normal().string();
    const std::string key = source->path();
    source.emplace(std::move(found), key);
  }

  // "llama-3.1-8b" of "meta-llama/Llama-3.1-8B".
  static std::string NameOnTheHub(const std::string& path) {
    std::string name = path.substr(path.rfind('/') + 1);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return name;
  }

  // A hint if the source names a GPU instead of a topology. Otherwise empty.
  static std::string HintOfGpu(const Node& source, const std::vector<std::string>& topologies) {
    if (KindOfKey(source.path()) != SourceKind::kTopology) return "";
    const std::string gpu = GpuNamed(source.scalar());
    if (gpu.empty()) return "";
    const auto dgx = std::find_if(topologies.begin(), topologies.end(),
                                  [](const std::string& name) { return name.starts_with("dgx-"); });
    const std::string cluster =
        dgx == topologies.end() ? "" : fmt::format(", or --cluster {}", *dgx);
    return fmt::format(
        "{0} is a GPU, not a cluster: write --gpus '8 x {1}'{2}; in a scenario, write cluster: "
        "{{gpu: {1}, gpus: 8}}",
        source.scalar(), gpu, cluster);
  }

  // The file that a source names. Reports at the source if there is none.
  std::optional<std::string> FileOf(const Node& source) {
    const std::string& path = source.scalar();
    std::optional<std::string> found = FindSource(path, folder_, KindOfKey(source.path()));
    const bool is_path = path.starts_with('/') || path.starts_with('.');
    if (!found && !is_path && source.path() == "model") {
      if (const auto model = ModelOfTheHub(path))
        found = FindSource(*model, "", SourceKind::kModel);
    }
    if (!found.has_value()) {
      std::vector<std::string> meant = FilesMeant(path, source.path());
      if (meant.empty() && source.path() == "model") {
        meant = FilesMeant(NameOnTheHub(path), source.path());
      }
      const std::string others = source.path() == "model" && path.find('/') == std::string::npos
                                     ? "; to see the shipped models, run stepcast list models; for "
                                       "other models, use their config.json"
                                     : "";
      const std::string gpu = HintOfGpu(source, meant);
      const std::string missing = path.find('/') == std::string::npos ? MissingData() : "";
      Report("file.not-found", source.location(),
             fmt::format("{} refers to a file that does not exist: {}", Quoted(source.path()),
                         Quoted(path)),
             !gpu.empty()       ? gpu
             : !missing.empty() ? missing
             : !meant.empty()   ? fmt::format("did you mean '{}'?", fmt::join(meant, "', or '"))
             : source.file().starts_with(kOption) && path.front() != '/' && !folder_.empty()
                 ? PlacesTried(path, folder_) + ", and in the working directory" + others
                 : PlacesTried(path, folder_) + others);
    }
    return found;
  }

  // The content of a source: of the file that it names, or of the mapping itself.
  template <typename T, typename LoadFile, typename ReadNode>
  std::shared_ptr<const T> Shared(SharedInputs<T>& inputs, const Node& source, LoadFile load,
                                  ReadNode read) {
    if (source.kind() == NodeKind::kMapping) {
      // Mistakes have positions, which are not part of the mapping's content.
      Diagnostics mistakes;
      auto value = inputs.Get(folder_ + CanonicalText(*source.tree()), [&]() -> Result<T> {
        std::optional<T> made = read(source, mistakes);
        if (made.has_value()) return *std::move(made);
        return tl::make_unexpected(mistakes);
      });
      if (value.has_value()) return *value;
      if (mistakes.empty()) read(source, mistakes);
      diagnostics_.insert(diagnostics_.end(), mistakes.begin(), mistakes.end());
      return nullptr;
    }
    const std::optional<std::string> path = FileOf(source);
    if (!path.has_value()) return nullptr;
    return SharedFile(inputs, *path, [&] { return load(*path); });
  }

  template <typename T, typename LoadFile>
  std::shared_ptr<const T> SharedFile(SharedInputs<T>& inputs, const std::string& key,
                                      LoadFile load) {
    const auto value = inputs.Get(key, load);
    if (value.has_value()) return *value;
    diagnostics_.insert(diagnostics_.end(), value.error().begin(), value.error().end());
    return nullptr;
  }

  // Loads the file that lists the pipeline's schedule, if there is one.
  void LoadSchedule(ScenarioFile& file) {
    std::optional<std::string>& name = file.request.schedule;
    file.request.listed_schedule = nullptr;
    if (!name || !name->ends_with(".csv")) return;
    const Location location = LocationOf(root_, "parallelism.schedule");
    std::optional<std::string> path = FindInput(*name, folder_);
    std::error_code error;
    if (!path && location.file.starts_with(kOption) && std::filesystem::exists(*name, error)) {
      path = name = std::filesystem::absolute(*name, error).lexically_normal().string();
    }
    if (!path) {
      Report("file.not-found", location,
             fmt::format("'parallelism.schedule' refers to a file that does not exist: {}",
                         Quoted(*name)),
             PlacesTried(*name, folder_));
      return;
    }
    file.request.listed_schedule =
        SharedFile(contents_.schedules, *path, [&]() -> Result<parallel::PipelineSchedule> {
          Diagnostics mistakes;
          const std::optional<std::string> text = ReadTextFile(*path, mistakes);
          if (!text) return tl::make_unexpected(std::move(mistakes));
          return formats::ParseScheduleCsv(*text, *path);
        });
  }

  void LoadModel(const ScenarioFile& file) {
    if (!file.model.has_value()) return;
    sources_.model = ToResolved(*file.model->tree());
    const auto loaded =
        Shared(contents_.models, *file.model, scenario::LoadModel,
               [this](const Node& node, Diagnostics& diagnostics) -> std::optional<LoadedModel> {
                 if (NamesFamily(node)) return ReadConfigOfFamily(node, folder_, diagnostics);
                 std::optional<model::Model> model = ReadModel(node, diagnostics);
                 if (!model) return std::nullopt;
                 return LoadedModel{*std::move(model)};
               });
    if (loaded == nullptr) return;
    plain_model_ = scenario_.model = std::shared_ptr<const model::Model>(loaded, &loaded->model);
    scenario_.warnings.insert(scenario_.warnings.end(), loaded->warnings.begin(),
                              loaded->warnings.end());
  }

  // The model with the plan's adapters. The last one is kept, because plans seldom differ in it.
  void AdaptModel(const ScenarioFile& file) {
    scenario_.model = plain_model_;
    if (!file.request.lora || plain_model_ == nullptr || plain_model_->is_layer_list()) return;
    model::Lora lora = *file.request.lora;
    lora.frozen_dtype = plan::FrozenType(file.request);
    if (adapted_model_ == nullptr || adapted_lora_ != lora) {
      model::Architecture architecture = std::get<model::Architecture>(plain_model_->source);
      architecture.lora = lora;
      const std::vector<model::ArchitectureFault> faults = model::CheckLora(architecture);
      for (const model::ArchitectureFault& fault : faults) {
        Report("model.lora", LocationOf(root_, "training.lora." + fault.field),
               fmt::format("'training.lora.{}': {}", fault.field, fault.message), fault.hint);
      }
      if (!faults.empty()) return;
      adapted_lora_ = lora;
      adapted_model_ = std::make_shared<const model::Model>(model::Adapted(*plain_model_, lora));
    }
    scenario_.model = adapted_model_;
  }

  void LoadCluster(const ScenarioFile& file) {
    if (!file.topology.has_value()) return;
    sources_.topology = ToResolved(*file.topology->tree());
    const std::shared_ptr<const Topology> topology = Shared(
        contents_.topologies, *file.topology, scenario::LoadTopology,
        [](const Node& node, Diagnostics& diagnostics) { return ReadTopology(node, diagnostics); });
    if (topology == nullptr) return;
    scenario_.gpu = topology->gpu;
    scenario_.one_machine = !file.machine.empty();
    if (scenario_.one_machine) scenario_.warnings.push_back(file.machine);
    if (!topology->note.empty()) scenario_.warnings.push_back(topology->note);
    const bool flat = std::holds_alternative<topology::FlatCluster>(topology->description);
    std::optional<std::int64_t> nodes = flat ? file.nodes : file.nodes.value_or(1);
    // A number that is wrong by itself has already been reported.
    if (!file.nodes.has_value() && HasKey("cluster.nodes")) return;
    if (!file.devices.has_value() && HasKey("cluster.devices")) return;
    if (flat && !file.other_nodes.empty()) {
      Report("scenario.mixed-flat", LocationOf(root_, "cluster.other_nodes"),
             "a flat cluster has no nodes, so cluster.other_nodes cannot be used",
             "use topologies that describe a node, or remove other_nodes and set "
             "cluster.slow_devices");
      return;
    }
    if (flat && file.devices) {
      Report("scenario.devices-of-flat", LocationOf(root_, "cluster.devices"),
             "a job uses all devices of a flat cluster, and the topology states the number of "
             "devices",
             "remove cluster.devices, and set the number in the topology instead: --set "
             "cluster.topology.devices=...");
      return;
    }
    for (const OtherNodes& other : file.other_nodes) *nodes += other.nodes;
    std::optional<int> gpus_per_node;  // all
    if (file.devices) {
      const auto job = JobOn(file, *topology, *nodes);
      if (!job) return;
      scenario_.nodes_described = static_cast<int>(*nodes);
      nodes = job->nodes;
      gpus_per_node = static_cast<int>(job->gpus);
    }
    scenario_.cluster =
        ClusterOf(topology, nodes, LocationOf(root_, "cluster.nodes"), file.routing, gpus_per_node);
    if (scenario_.cluster == nullptr) return;
    if (!file.devices) scenario_.nodes_described = scenario_.cluster->nodes();
    LoadOtherNodes(file);
  }

  // The job's part of `nodes` nodes of a topology. Nothing, and a report, if the topology has no
  // such part.
  std::optional<NodesOfGpus> JobOn(const ScenarioFile& file, const Topology& topology,
                                   std::int64_t nodes) {
    const auto& description = std::get<NodeDescription>(topology.description);
    const NodesOfGpus described{nodes, description.node_type.Count(topology::DeviceKind::kGpu)};
    const std::int64_t all = described.nodes * described.gpus;
    const std::int64_t devices =
        DevicesOfJob(*file.devices, file.request, std::min(all, file.devices->most.value_or(all)));
    const Location location = LocationOf(root_, "cluster.devices");
    if (!file.other_nodes.empty() && devices < all) {
      Report("scenario.devices-of-mixed-nodes", location,
             fmt::format("a job must use all GPUs of a cluster with several kinds of nodes, but "
                         "cluster.devices is {} of {}",
                         devices, all),
             "remove 'devices', and set the number of nodes of each kind with 'nodes'");
      return std::nullopt;
    }
    auto placed = PlaceJob(devices, described, file.request.tensor.value_or(1));
    if (placed) return *placed;
    NoPlace& fault = placed.error();
    Report(std::move(fault.code), location, std::move(fault.message), std::move(fault.hint));
    return std::nullopt;
  }

  // Null, and a report, if the cluster cannot be built.
  std::shared_ptr<const topology::Cluster> ClusterOf(
      const std::shared_ptr<const Topology>& topology, std::optional<std::int64_t> nodes,
      const Location& location, const RoutingRequest& routing,
      std::optional<int> gpus_per_node = std::nullopt) {
    Diagnostics mistakes;
    // The cache holds the topology, so its address identifies it.
    const auto cluster = contents_.clusters.Get(
        fmt::format("{}x{}x{} by {} {}", fmt::ptr(topology.get()), nodes.value_or(0),
                    gpus_per_node.value_or(0), routing.choice ? Name(*routing.choice) : "",
                    routing.seed.value_or(-1)),
        [&]() -> Result<topology::Cluster> {
          std::optional<topology::Cluster> built =
              BuildCluster(*topology, nodes, location, mistakes, routing, gpus_per_node);
          if (built.has_value()) return *std::move(built);
          return tl::make_unexpected(mistakes);
        });
    if (cluster.has_value()) return *cluster;
    // Built again for the positions in this scenario.
    if (mistakes.empty()) BuildCluster(*topology, nodes, location, mistakes);
    diagnostics_.insert(diagnostics_.end(), mistakes.begin(), mistakes.end());
    return nullptr;
  }

  // Loads each kind of node as if the whole cluster consisted of it; calibrations follow.
  void LoadOtherNodes(const ScenarioFile& file) {
    scenario_.other_nodes.clear();
    for (const OtherNodes& other : file.other_nodes) {
      const std::shared_ptr<const Topology> topology =
          Shared(contents_.topologies, other.topology, scenario::LoadTopology,
                 [](const Node& node, Diagnostics& diagnostics) {
                   return ReadTopology(node, diagnostics);
                 });
      if (topology == nullptr) continue;
      auto cluster = ClusterOf(topology, scenario_.cluster->nodes(), other.location, file.routing);
      if (cluster == nullptr) continue;
      if (cluster->gpus_per_node() != scenario_.cluster->gpus_per_node()) {
        Report("scenario.mixed-nodes", other.location,
               fmt::format("all nodes of a cluster must have the same number of GPUs: these "
                           "nodes have {}, but the cluster's first nodes have {}",
                           cluster->gpus_per_node(), scenario_.cluster->gpus_per_node()),
               "use node types with the same number of GPUs");
        continue;
      }
      scenario_.other_nodes.push_back({.nodes = static_cast<int>(other.nodes),
                                       .cluster = std::move(cluster),
                                       .calibration = nullptr,
                                       .gpu = *topology->gpu,
                                       .location = other.location});
    }
  }

  void LoadCalibration(const ScenarioFile& file) {
    if (file.calibration.has_value() || (!HasKey("calibration") && scenario_.gpu.has_value())) {
      scenario_.calibration =
          CalibrationOf(file.calibration, scenario_.gpu, LocationOf(root_, "cluster.topology"),
                        sources_.calibration);
    } else {
      // If a given profile is wrong, which has been reported, the default must not hide it.
      scenario_.calibration = std::make_shared<const calibration::Calibration>();
    }
    sources_.other_nodes.clear();
    if (scenario_.other_nodes.size() != file.other_nodes.size()) return;  // reported
    for (std::size_t i = 0; i < file.other_nodes.size(); ++i) {
      const OtherNodes& other = file.other_nodes[i];
      KindOfNode& kind = scenario_.other_nodes[i];
      Sources::OtherNodes& sources = sources_.other_nodes.emplace_back();
      sources.topology = ToResolved(*other.topology.tree());
      kind.calibration =
          CalibrationOf(other.calibration, kind.gpu, other.location, sources.calibration);
    }
  }

  // The profile that a source names, or that of the GPU type; missing parts come from the latter.
  // Null, and a report, if there is none.
  std::shared_ptr<const calibration::Calibration> CalibrationOf(
      std::optional<Node> source, const std::optional<topology::Gpu>& gpu,
      const Location& of_device, std::optional<Resolved>& written) {
    if (!source.has_value()) {
      source = CalibrationOfType(*gpu);
      if (!source.has_value()) {
        Report(
            "calibration.none-for-gpu", of_device,
            fmt::format("there is no calibration profile for this GPU type: {}", Quoted(gpu->name)),
            "write the path of a profile: calibration: PATH");
        return nullptr;
      }
    }
    written = ToResolved(*source->tree());
    auto profile = Shared(contents_.calibrations, *source, scenario::LoadCalibration,
                          [](const Node& node, Diagnostics& diagnostics) {
                            return ReadCalibration(node, diagnostics);
                          });
    if (profile == nullptr || !gpu.has_value()) return profile;
    if (const auto stand_in = StandInAs(*profile, *gpu)) {
      scenario_.warnings.push_back(
          fmt::format("there are no measurements for {}. The forecast uses the profile '{}', of a "
                      "GPU with the same {}, and doubles the range of the step time",
                      gpu->name, profile->name,
                      gpu->compute_capability > 0 ? "compute capability" : "generation"));
      profile = std::make_shared<const calibration::Calibration>(
          calibration::AsStandIn(*profile, *stand_in, gpu->name, gpu->PeakOf(DataType::kFp16)));
    }
    return Filled(std::move(profile), *source, *gpu);
  }

  // The node calibration/<name>.yaml, as the user could have written it.
  Node ShippedCalibration(std::string_view name) const {
    const Position position{std::make_shared<const std::string>(file_), 0, 0};
    return Node(ScalarOf(fmt::format("calibration/{}.yaml", name), position), "calibration");
  }

  // The stand-in for a GPU type that has no profile of its own.
  std::optional<calibration::StandIn> StandInOf(const topology::Gpu& gpu) const {
    if (FindInput(ShippedCalibration(gpu.name).scalar(), folder_)) return std::nullopt;
    return calibration::StandInOf(gpu.name, gpu.compute_capability);
  }

  // The stand-in if it is `profile`, whether or not the scenario names it.
  std::optional<calibration::StandIn> StandInAs(const calibration::Calibration& profile,
                                                const topology::Gpu& gpu) const {
    const auto stand_in = StandInOf(gpu);
    return stand_in && stand_in->profile == profile.name ? stand_in : std::nullopt;
  }

  // The profile of a GPU type: its own or its stand-in's. Nothing if there is neither.
  std::optional<Node> CalibrationOfType(const topology::Gpu& gpu) const {
    const auto stand_in = StandInOf(gpu);
    Node shipped = ShippedCalibration(stand_in ? stand_in->profile : gpu.name);
    if (!FindInput(shipped.scalar(), folder_)) return std::nullopt;
    return shipped;
  }

  // A profile with, say, only measured tables takes the rest from the GPU type's profile; so does a
  // `kernels` section that was measured in part.
  std::shared_ptr<const calibration::Calibration> Filled(
      std::shared_ptr<const calibration::Calibration> profile, const Node& source,
      const topology::Gpu& gpu) {
    const bool measured = profile->kernels.has_value() && profile->kernels->measured();
    if (calibration::MissingSections(*profile).empty() && !measured) return profile;
    const std::optional<Node> shipped = CalibrationOfType(gpu);
    auto filled = std::make_shared<calibration::Calibration>(*profile);
    std::vector<std::string> taken;
    if (shipped.has_value()) {
      const std::string path = *FindInput(shipped->scalar(), folder_);
      const auto defaults =
          SharedFile(contents_.calibrations, path, [&] { return scenario::LoadCalibration(path); });
      if (defaults == nullptr) return profile;
      const auto stand_in = StandInAs(*defaults, gpu);
      taken = calibration::FillFrom(
          stand_in
              ? calibration::AsStandIn(*defaults, *stand_in, gpu.name, gpu.PeakOf(DataType::kFp16))
              : *defaults,
          *filled);
    }
    if (const auto lacking = calibration::MissingSections(*filled); !lacking.empty()) {
      Report("calibration.missing-section", source.location(),
             fmt::format("neither this profile nor the profile of GPU type {1} has {0}",
                         fmt::join(lacking, ", "), Quoted(gpu.name)),
             "add the missing sections to the profile");
      return profile;
    }
    // Products of types that the scenario does not compute in need not be there.
    const std::optional<DataType> precision = read_.request.precision;
    const std::string computes = fmt::format("kernels.gemm.{}", precision ? Name(*precision) : "");
    std::erase_if(taken, [&](const std::string& key) {
      return key.starts_with("kernels.gemm.") && key != computes;
    });
    if (!taken.empty()) {
      scenario_.warnings.push_back(
          fmt::format("the calibration profile has no {}, so the forecast uses the values of {}",
                      fmt::join(taken, ", "), shipped->scalar()));
    }
    return filled;
  }

  // Whether the dotted key exists, with any value.
  bool HasKey(std::string_view key) const { return Below(*root_, key) != nullptr; }

  void CheckTogether(const ScenarioFile& file) {
    AdaptModel(file);
    scenario::CheckTogether(file, root_, scenario_, profile_believed_, diagnostics_);
    scenario_.slow_devices.clear();
    if (scenario_.cluster == nullptr) return;
    scenario_.slow_devices = FindSlowDevices(file.slow_devices, *scenario_.cluster,
                                             scenario_.nodes_described, diagnostics_);
  }

  void TakeWhatPlansShare() {
    scenario_.name = (read_.name ? (other_machines_ ? WithoutMachines(*read_.name) : *read_.name)
                                 : DefaultName()) +
                     changes_;
    scenario_.algorithm = read_.algorithm.value_or(
        scenario_.cluster->flat() ? CollectiveAlgorithm::kRing : CollectiveAlgorithm::kAuto);
    scenario_.nccl_algo = read_.nccl_algo.value_or("");
    scenario_.nccl_proto = read_.nccl_proto.value_or("");
    scenario_.nccl_overrides = read_.nccl_overrides;
    scenario_.nccl_collnet = read_.nccl_collnet.value_or(false);
    scenario_.communication_location = LocationOf(root_, "communication");
    scenario_.cluster_location = LocationOf(root_, "cluster.topology");
    scenario_.network = read_.network.value_or(Fidelity::kAnalytic);
    scenario_.calibration_of_another_gpu = read_.calibration_of_another_gpu.value_or(false);
    scenario_.slow_links = read_.slow_links;
    cluster_nodes_ = read_.nodes;
    if (read_.nodes && NodesAreAll()) clusters_[*read_.nodes] = scenario_.cluster;
  }

  // If only the plan is wrong, Reread can be tried with other plans.
  void FindBrokenRules() {
    broken_ = plan::Check(read_.request, Facts());
    const auto is_of_plan = [&](const Diagnostic& fault) {
      return std::any_of(broken_.begin(), broken_.end(), [&](const plan::Violation& violation) {
        return violation.code == fault.code;
      });
    };
    can_reread_ = std::all_of(diagnostics_.begin(), diagnostics_.end(), is_of_plan);
    profile_believed_ = can_reread_;
    warnings_ = scenario_.warnings;
  }

  // The default name: bucket-sweep for "scenarios/bucket-sweep/scenario.yaml", mine for
  // "mine.yaml".
  std::string DefaultName() const {
    const std::filesystem::path path(file_);
    const std::string stem = path.stem().string();
    const std::string folder = path.parent_path().filename().string();
    return stem == "scenario" && !folder.empty() ? folder : stem;
  }

  const YamlTree root_;
  const std::string file_;
  const std::string changes_;
  const bool other_machines_;
  const std::string folder_;
  Diagnostics diagnostics_;
  Contents& contents_;
  ScenarioFile read_;
  Scenario scenario_;
  Sources sources_;
  std::shared_ptr<const model::Model> plain_model_, adapted_model_;
  model::Lora adapted_lora_;
  bool profile_believed_ = false;  // as that of the device
  bool can_reread_ = false;
  std::optional<std::int64_t> cluster_nodes_;  // that the scenario's cluster is of
  std::vector<std::string> warnings_;          // that do not depend on the plan
  std::vector<plan::Violation> broken_;        // by the last reread plan
  std::optional<plan::Facts> facts_;
  std::shared_ptr<const topology::Cluster> facts_of_;                          // that they are of
  std::map<std::int64_t, std::shared_ptr<const topology::Cluster>> clusters_;  // by nodes
};

Loader::Loader(OpenedScenario opened, InputCache& cache) {
  if (opened.root == nullptr) {
    mistakes_ = std::move(opened.mistakes);
    return;
  }
  reading_ = std::make_unique<Reading>(std::move(opened), cache.contents());
}
Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;

bool Loader::can_reread() const { return reading_ != nullptr && reading_->can_reread(); }

Result<void> Loader::Read() {
  if (reading_ == nullptr) return tl::make_unexpected(std::move(mistakes_));
  return reading_->Read();
}

bool Loader::Reread(const plan::Request& request, std::optional<std::int64_t> nodes) {
  return reading_->Reread(request, nodes);
}

const Scenario& Loader::scenario() const { return reading_->scenario(); }
const plan::Request& Loader::request() const { return reading_->read().request; }
const std::vector<plan::Violation>& Loader::broken() const { return reading_->broken(); }
std::optional<std::int64_t> Loader::nodes() const { return reading_->read().nodes; }
Scenario Loader::Take() { return reading_->Take(); }

}  // namespace stepcast::scenario
