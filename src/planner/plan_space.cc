#include "src/planner/plan_space.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/check.h"
#include "src/base/quantity.h"
#include "src/model/model.h"
#include "src/plan/data_parallel_settings.h"
#include "src/plan/legality.h"
#include "src/plan/request.h"
#include "src/plan/training_settings.h"

namespace stepcast::planner {
namespace {

using plan::Framework;
using scenario::Scenario;

constexpr const char* kNodes = "cluster.nodes";
constexpr const char* kDevices = "cluster.topology.devices";  // of a flat cluster
constexpr const char* kMicroBatch = "training.micro_batch_size";
constexpr const char* kAccumulation = "training.gradient_accumulation";
constexpr const char* kGlobalBatch = "training.global_batch_size";
constexpr const char* kCheckpointing = "training.activation_checkpointing";
constexpr const char* kFramework = "data_parallel.framework";
constexpr const char* kStage = "data_parallel.zero_stage";
constexpr const char* kSection = "data_parallel.";
// What is left out of a scenario has its default.
constexpr const char* kDefault = "null";

std::string Key(std::string_view name) { return fmt::format("{}{}", kSection, name); }
std::string DeepSpeedKey(std::string_view name) {
  return fmt::format("{}deepspeed.{}", kSection, name);
}

// What the values of axes are derived from.
struct Around {
  const Scenario& scenario;
  std::int64_t devices = 1;
  std::int64_t per_node = 1;
  bool flat = false;
};

std::vector<std::int64_t> PowersOfTwoUpTo(std::int64_t most) {
  std::vector<std::int64_t> values;
  for (std::int64_t n = 1; n < most; n *= 2) values.push_back(n);
  values.push_back(most);
  return values;
}

SweepAxis Axis(std::string key, const std::vector<std::int64_t>& numbers) {
  SweepAxis axis{std::move(key), {}};
  for (const std::int64_t number : numbers) axis.values.push_back(fmt::format("{}", number));
  return axis;
}

SweepAxis Switch(std::string key) { return {std::move(key), {"false", "true"}}; }

// The values that the table of settings has for the framework.
SweepAxis Tried(Framework framework, int stage, std::string_view key) {
  const auto values =
      plan::FindSetting(plan::DataParallelSettings(), key)->uses.Tried(framework, stage);
  STEPCAST_CHECK(!values.empty(), "the table has values to try");
  return {Key(key), {values.begin(), values.end()}};
}

// Micro-batches of which every rank gets a whole number.
std::vector<std::int64_t> MicroBatches(const Around& around) {
  const plan::Training& training = around.scenario.plan.training;
  if (training.global_batch_size % around.devices != 0) return {training.micro_batch_size};
  const std::int64_t each = training.global_batch_size / around.devices;
  std::set<std::int64_t> values;
  for (std::int64_t d = 1; d * d <= each; ++d) {
    if (each % d != 0) continue;
    values.insert(d);
    values.insert(each / d);
  }
  std::erase_if(values, [&](std::int64_t value) {
    return value > plan::kMostTokens / training.sequence_length;
  });
  return {values.begin(), values.end()};
}

// Buckets up to the first that holds all gradients: beyond it, all sizes are one plan.
SweepAxis BucketSizes(const Around& around, std::int64_t bytes_per_element) {
  const std::int64_t all = around.scenario.model->parameter_count() * bytes_per_element;
  SweepAxis axis{Key("bucket_size"), {}};
  for (const int mib : {1, 5, 10, 25, 50, 100, 200, 400}) {
    axis.values.push_back(fmt::format("{} MiB", mib));
    if (MiB(mib).count() >= all) break;
  }
  return axis;
}

// A node, powers of two of nodes, and all ranks.
SweepAxis ShardGroups(const Around& around) {
  SweepAxis axis{Key("shard_group_size"), {}};
  for (std::int64_t ranks = std::max<std::int64_t>(around.per_node, 2); ranks < around.devices;
       ranks *= 2) {
    if (around.devices % ranks == 0) axis.values.push_back(fmt::format("{}", ranks));
  }
  axis.values.push_back(fmt::format("{}", around.devices));
  return axis;
}

// Only where there may be something to accumulate.
bool MayAccumulate(const Around& around) {
  return around.scenario.plan.training.global_batch_size > around.devices;
}

std::vector<SweepAxis> ReferenceAxes(const Around& around, int stage) {
  std::vector<SweepAxis> axes;
  if (stage < 3) {
    axes.push_back(
        BucketSizes(around, SizeOf(plan::WrittenGradientType(around.scenario.plan.training))));
  } else {
    axes.push_back(Tried(Framework::kReference, stage, "prefetch"));
    axes.push_back(Tried(Framework::kReference, stage, "reshard_after_forward"));
  }
  if (stage >= 2 && MayAccumulate(around)) axes.push_back(Switch(Key("accumulate_unsharded")));
  if (stage >= 1) axes.push_back(ShardGroups(around));
  return axes;
}

std::vector<SweepAxis> Fsdp1Axes(const Around& around, int stage) {
  std::vector<SweepAxis> axes = {Tried(Framework::kFsdp1, stage, "backward_prefetch"),
                                 Tried(Framework::kFsdp1, stage, "forward_prefetch"),
                                 Tried(Framework::kFsdp1, stage, "limit_all_gathers")};
  if (MayAccumulate(around)) axes.push_back(Switch(Key("accumulate_unsharded")));
  axes.push_back(ShardGroups(around));
  return axes;
}

std::vector<SweepAxis> Fsdp2Axes(const Around& around, int stage) {
  std::vector<SweepAxis> axes = {Tried(Framework::kFsdp2, stage, "prefetch")};
  if (stage == 3 && around.per_node > 1 && around.per_node < around.devices) {
    axes.push_back({Key("reshard_after_forward"), {"true", fmt::format("{}", around.per_node)}});
  }
  if (MayAccumulate(around)) axes.push_back(Switch(Key("accumulate_unsharded")));
  axes.push_back(ShardGroups(around));
  return axes;
}

std::vector<SweepAxis> DeepSpeedAxes(const Around& around, int stage) {
  if (stage == 0) return {};
  std::vector<SweepAxis> axes = {
      Axis(DeepSpeedKey("reduce_bucket_size"), {200'000'000, 500'000'000, 1'000'000'000})};
  const topology::NodeType* node = around.scenario.cluster->node_type();
  const bool host = node != nullptr && node->host.has_value();
  if (host) axes.push_back({DeepSpeedKey("offload_optimizer"), {"none", "cpu"}});
  if (stage < 3) {
    axes.push_back(Switch(Key("overlap")));
    return axes;
  }
  axes.push_back(
      Axis(DeepSpeedKey("stage3_prefetch_bucket_size"), {10'000'000, 50'000'000, 200'000'000}));
  axes.push_back(Axis(DeepSpeedKey("stage3_param_persistence_threshold"), {100'000, 1'000'000}));
  if (around.per_node > 1 && around.per_node < around.devices) {
    axes.push_back(Axis(DeepSpeedKey("zero_hpz_partition_size"), {1, around.per_node}));
  }
  if (host) axes.push_back({DeepSpeedKey("offload_param"), {"none", "cpu"}});
  return axes;
}

std::vector<SweepAxis> MegatronAxes(const Around& around, int stage) {
  SweepAxis buckets{Key("bucket_size"), {kDefault}};
  for (const int mib : {25, 50, 100, 200, 400})
    buckets.values.push_back(fmt::format("{} MiB", mib));
  std::vector<SweepAxis> axes = {std::move(buckets)};
  if (stage == 1) {
    axes.push_back(Tried(Framework::kMegatron, stage, "overlap_param_gather"));
    axes.push_back(ShardGroups(around));
  }
  return axes;
}

// What depends on model and cluster, and its order: the first plans win ties.
std::vector<SweepAxis> DerivedAxes(const Around& around, Framework framework, int stage) {
  switch (framework) {
    case Framework::kReference:
      return ReferenceAxes(around, stage);
    case Framework::kDdp:
      return {BucketSizes(around, SizeOf(around.scenario.plan.training.gradient_dtype)),
              Tried(Framework::kDdp, stage, "gradient_as_bucket_view")};
    case Framework::kFsdp1:
      return Fsdp1Axes(around, stage);
    case Framework::kFsdp2:
      return Fsdp2Axes(around, stage);
    case Framework::kDeepSpeed:
      return DeepSpeedAxes(around, stage);
    case Framework::kMegatron:
      return MegatronAxes(around, stage);
    case Framework::kInternEvo:
      return {ShardGroups(around)};
    case Framework::kNanotron:
      if (stage > 0) return {};
      return {
          BucketSizes(around, SizeOf(plan::ComputeType(around.scenario.plan.training.precision)))};
  }
  return {};
}

// And every other setting of which the table has values to try.
std::vector<SweepAxis> FrameworkAxes(const Around& around, Framework framework, int stage) {
  std::vector<SweepAxis> axes = DerivedAxes(around, framework, stage);
  for (const plan::DataParallelSetting& setting : plan::DataParallelSettings()) {
    if (setting.uses.Tried(framework, stage).empty()) continue;
    const bool there = std::any_of(axes.begin(), axes.end(), [&](const SweepAxis& axis) {
      return axis.key == Key(setting.key);
    });
    if (!there) axes.push_back(Tried(framework, stage, setting.key));
  }
  return axes;
}

std::vector<int> StagesOf(Framework framework) {
  const plan::FrameworkTraits& traits = plan::TraitsOf(framework);
  std::vector<int> stages;
  for (int stage = traits.first_stage; stage <= traits.last_stage; ++stage) stages.push_back(stage);
  return stages;
}

// The framework has the key, or it is none of the settings that some frameworks have.
bool IsFor(Framework framework, std::string_view key) {
  const std::size_t dot = key.find('.');
  const std::string_view section = key.substr(0, dot);
  key.remove_prefix(std::min(dot, key.size() - 1) + 1);
  const std::string_view word = key.substr(0, key.find('.'));
  const auto is_of = [&](const auto* setting) {
    return setting == nullptr || setting->uses.Has(framework);
  };
  if (section == "training") return is_of(plan::FindSetting(plan::TrainingSettings(), word));
  if (section == "data_parallel")
    return is_of(plan::FindSetting(plan::DataParallelSettings(), word));
  return true;
}

Diagnostic Fault(const char* code, std::string option, std::string message, std::string hint) {
  return {code, {std::move(option), 0, 0}, std::move(message), std::move(hint)};
}

class Builder {
 public:
  Builder(const Scenario& scenario, const SpaceOptions& options)
      : options_(options), around_{.scenario = scenario} {
    const topology::Cluster& cluster = *scenario.cluster;
    around_.flat = cluster.flat();
    around_.per_node = around_.flat ? 1 : cluster.gpus_per_node();
    const std::int64_t most = around_.flat ? cluster.devices() : cluster.nodes();
    std::vector<std::int64_t> nodes = {most};  // a flat cluster: devices
    if (const SweepAxis* given = Given(NodesKey())) {
      nodes.clear();
      for (const std::string& value : given->values) {
        const std::int64_t number = std::atoll(value.c_str());
        if (number > 0) nodes.push_back(number);
      }
      if (nodes.empty()) nodes.push_back(most);
      std::sort(nodes.begin(), nodes.end());
    } else if (options.nodes && !Fixed(NodesKey())) {
      nodes = PowersOfTwoUpTo(most);
    }
    nodes_ = std::move(nodes);
  }

  Result<std::vector<PlanPart>> Run() {
    CheckOptions();
    if (!faults_.empty()) return tl::unexpected(std::move(faults_));
    const std::vector<Framework> frameworks = Frameworks();
    CheckWhoHasWhat(frameworks);
    if (!faults_.empty()) return tl::unexpected(std::move(faults_));
    for (const std::int64_t nodes : nodes_) {
      around_.devices = nodes * around_.per_node;
      for (const Framework framework : frameworks) {
        for (const int stage : Stages(framework)) AddPart(nodes, framework, stage);
      }
    }
    NoteTypes();
    CheckFixed();
    if (!faults_.empty()) return tl::unexpected(std::move(faults_));
    return std::move(parts_);
  }
  std::vector<std::string> TakeNotes() { return std::move(notes_); }

 private:
  const char* NodesKey() const { return around_.flat ? kDevices : kNodes; }
  const plan::DataParallel& base() const { return around_.scenario.plan.data_parallel; }

  const SweepAxis* Given(std::string_view key) const {
    const auto found = std::find_if(options_.vary.begin(), options_.vary.end(),
                                    [&](const SweepAxis& axis) { return axis.key == key; });
    return found == options_.vary.end() ? nullptr : &*found;
  }
  bool Fixed(std::string_view key) const {
    return std::find(options_.fix.begin(), options_.fix.end(), key) != options_.fix.end();
  }

  void CheckOptions() {
    std::set<std::string> seen;
    for (const SweepAxis& axis : options_.vary) {
      const std::string option = fmt::format("--vary {}", axis.key);
      if (axis.key == kFramework && !options_.frameworks.empty()) {
        faults_.push_back(Fault("planner.framework", option,
                                "frameworks are given twice, by --framework and by --vary",
                                "leave one of the two out"));
      }
      if (!seen.insert(axis.key).second) {
        faults_.push_back(Fault("planner.vary", option,
                                fmt::format("a key varies twice: {}", Quoted(axis.key)),
                                "put all of its values into one --vary"));
      } else if (Fixed(axis.key)) {
        faults_.push_back(Fault("planner.vary", option,
                                fmt::format("a key varies and is fixed: {}", Quoted(axis.key)),
                                "leave out --vary or --fix"));
      } else if (axis.key == kGlobalBatch) {
        faults_.push_back(Fault("planner.vary", option,
                                "plans of different global batches train differently and are not "
                                "compared: 'training.global_batch_size'",
                                "search once for each: --set training.global_batch_size=..."));
      }
    }
  }

  // Which settings and stages that were asked for are of no effect for which frameworks.
  void CheckWhoHasWhat(const std::vector<Framework>& frameworks) {
    std::set<Framework> seen;
    for (const Framework framework : frameworks) {
      if (seen.insert(framework).second) continue;
      faults_.push_back(
          Fault("planner.framework", "--framework",
                fmt::format("a framework is named twice: {}", Quoted(plan::Name(framework))),
                "leave one of them out"));
    }
    for (const SweepAxis& axis : options_.vary) {
      if (axis.key == kFramework || axis.key == kStage) continue;
      const auto has = [&](Framework framework) { return IsFor(framework, axis.key); };
      const std::string option = fmt::format("--vary {}", axis.key);
      CheckSomeHave(frameworks, has, option, fmt::format("this setting: {}", Quoted(axis.key)));
      NoteWhoLacks(frameworks, has, option, "this setting: {} plans are searched without it");
    }
    CheckStages(frameworks);
  }

  void CheckStages(const std::vector<Framework>& frameworks) {
    const SweepAxis* given = Given(kStage);
    std::string option = fmt::format("--fix {}", kStage);
    std::vector<std::string> values;
    if (given != nullptr) {
      option = fmt::format("--vary {}", kStage);
      if (!given->all) values = given->values;
    } else if (Fixed(kStage)) {
      values = {fmt::format("{}", base().zero_stage)};
    }
    for (const std::string& value : values) {
      const auto has = [&](Framework framework) {
        const std::vector<int> stages = StagesOf(framework);
        return std::any_of(stages.begin(), stages.end(),
                           [&](int stage) { return value == fmt::format("{}", stage); });
      };
      CheckSomeHave(frameworks, has, option, fmt::format("ZeRO stage {}", value));
    }
    NoteWhoLacks(
        frameworks, [&](Framework framework) { return !Stages(framework).empty(); }, option,
        "such a stage: {} plans are left out");
  }

  template <typename Has>
  void CheckSomeHave(const std::vector<Framework>& frameworks, const Has& has, std::string option,
                     const std::string& what) {
    if (std::any_of(frameworks.begin(), frameworks.end(), has)) return;
    std::vector<const char*> others;
    for (const Framework framework : plan::kFrameworks) {
      if (has(framework)) others.push_back(plan::Name(framework));
    }
    faults_.push_back(Fault("planner.vary", std::move(option),
                            fmt::format("no framework of the space has {}", what),
                            others.empty() ? "leave it out"
                                           : fmt::format("leave it out, or choose from those that "
                                                         "have it: --framework {}",
                                                         fmt::join(others, ","))));
  }

  template <typename Has>
  void NoteWhoLacks(const std::vector<Framework>& frameworks, const Has& has,
                    const std::string& option, const char* what) {
    std::vector<const char*> lacking;
    for (const Framework framework : frameworks) {
      if (!has(framework)) lacking.push_back(plan::Name(framework));
    }
    if (lacking.empty() || lacking.size() == frameworks.size()) return;
    const bool one = lacking.size() == 1;
    notes_.push_back(fmt::format("{}: {} {} not have {}", option, fmt::join(lacking, ", "),
                                 one ? "does" : "do",
                                 fmt::format(fmt::runtime(what), one ? "its" : "their")));
  }

  std::vector<Framework> Frameworks() {
    const SweepAxis* given = Given(kFramework);
    if (given == nullptr) {
      return options_.frameworks.empty() ? std::vector{base().framework} : options_.frameworks;
    }
    std::vector<Framework> frameworks;
    for (const std::string& value : given->values) {
      const Framework* named = nullptr;
      for (const Framework& known : plan::kFrameworks) {
        if (value == plan::Name(known)) named = &known;
      }
      if (named != nullptr) {
        frameworks.push_back(*named);
        continue;
      }
      faults_.push_back(
          Fault("planner.vary", fmt::format("--vary {}", kFramework),
                fmt::format("there is no such framework: {}", Quoted(value)),
                "there are: reference, ddp, fsdp1, fsdp2, deepspeed, megatron, internevo"));
    }
    return frameworks;
  }

  std::vector<int> Stages(Framework framework) const {
    std::vector<int> stages = StagesOf(framework);
    if (const SweepAxis* given = Given(kStage)) {
      std::erase_if(stages, [&](int stage) {
        return std::find(given->values.begin(), given->values.end(), fmt::format("{}", stage)) ==
               given->values.end();
      });
    } else if (Fixed(kStage)) {
      std::erase_if(stages, [&](int stage) { return stage != base().zero_stage; });
    }
    return stages;
  }

  void AddPart(std::int64_t nodes, Framework framework, int stage) {
    PlanPart part;
    part.framework = framework;
    const bool own = framework == base().framework && stage == base().zero_stage;
    FixBatch(part);
    FixTypes(framework, stage, part);
    if (nodes_.size() > 1 || Given(NodesKey()) != nullptr) {
      part.fixed.emplace_back(NodesKey(), fmt::format("{}", nodes));
      if (Has("parallelism.data")) part.fixed.emplace_back("parallelism.data", kDefault);
    }
    if (own) {
      part.fixed.emplace_back(kFramework, plan::Name(framework));
      part.fixed.emplace_back(kStage, fmt::format("{}", stage));
    } else {
      // The scenario's settings are of another framework, or of another stage.
      part.fixed.emplace_back("data_parallel", fmt::format("{{framework: {}, zero_stage: {}}}",
                                                           plan::Name(framework), stage));
    }
    std::vector<SweepAxis> axes;
    axes.push_back(Axis(kMicroBatch, MicroBatches(around_)));
    if (!around_.scenario.model->is_layer_list()) {
      axes.push_back({kCheckpointing, {"none", "selective", "full"}});
    }
    for (SweepAxis& axis : FrameworkAxes(around_, framework, stage))
      axes.push_back(std::move(axis));
    for (SweepAxis& axis : axes) {
      known_.insert(axis.key);
      if (Fixed(axis.key)) continue;
      if (const SweepAxis* given = Given(axis.key)) axis.values = given->values;
      part.axes.push_back(std::move(axis));
    }
    for (const SweepAxis& axis : options_.vary) {
      const auto same = std::find_if(part.axes.begin(), part.axes.end(),
                                     [&](const SweepAxis& own) { return own.key == axis.key; });
      if (same != part.axes.end() || axis.key == kFramework || axis.key == kStage ||
          axis.key == NodesKey()) {
        continue;
      }
      if (IsFor(framework, axis.key)) part.axes.push_back(axis);
    }
    for (const SweepAxis& axis : part.axes) {
      if (!(own || !axis.key.starts_with(kSection)) || !Has(axis.key)) {
        part.absent.push_back(axis.key);
      }
    }
    parts_.push_back(std::move(part));
  }

  bool Has(const std::string& key) const { return options_.has_key && options_.has_key(key); }

  // One global batch for all plans, however the scenario says it, unless accumulation varies.
  void FixBatch(PlanPart& part) const {
    if (Given(kAccumulation) != nullptr) {
      if (Has(kGlobalBatch)) part.fixed.emplace_back(kGlobalBatch, kDefault);
    } else if (!Has(kGlobalBatch)) {
      if (Has(kAccumulation)) part.fixed.emplace_back(kAccumulation, kDefault);
      part.fixed.emplace_back(kGlobalBatch,
                              fmt::format("{}", around_.scenario.plan.training.global_batch_size));
    }
  }

  // The scenario's types are its framework's; a framework that cannot have one has its own default.
  void FixTypes(Framework framework, int stage, PlanPart& part) {
    const plan::Training& training = around_.scenario.plan.training;
    plan::Request recipe;
    recipe.framework = framework;
    recipe.zero_stage = stage;
    recipe.precision = training.precision;
    const auto given = [&](const char* key, DataType type) {
      const bool stays = Has(key) && Given(key) == nullptr;
      return stays ? std::optional(type) : std::nullopt;
    };
    recipe.parameter_dtype = given("training.parameter_dtype", training.parameter_dtype);
    recipe.gradient_dtype = given("training.gradient_dtype", training.gradient_dtype);
    recipe.reduce_dtype = given("training.reduce_dtype", training.reduce_dtype);
    for (std::string& key : plan::TypesNotOfFramework(recipe)) {
      const DataType type = key == "training.parameter_dtype"  ? training.parameter_dtype
                            : key == "training.gradient_dtype" ? training.gradient_dtype
                                                               : training.reduce_dtype;
      without_type_[fmt::format("{}: {}", key, Name(type))].insert(plan::Name(framework));
      part.fixed.emplace_back(std::move(key), kDefault);
    }
  }

  void NoteTypes() {
    for (const auto& [type, frameworks] : without_type_) {
      notes_.push_back(fmt::format("{} cannot have {}: plans have the default of {}",
                                   fmt::join(frameworks, ", "), type,
                                   frameworks.size() == 1 ? "that framework" : "each framework"));
    }
  }

  void CheckFixed() {
    known_.insert(kFramework);
    known_.insert(kStage);
    known_.insert(NodesKey());
    for (const std::string& key : options_.fix) {
      if (known_.contains(key)) continue;
      const std::vector<std::string_view> names(known_.begin(), known_.end());
      const std::string_view near = NearestWord(key, names);
      faults_.push_back(Fault("planner.fix", fmt::format("--fix {}", key),
                              fmt::format("this is not varied: {}", Quoted(key)),
                              near.empty() ? fmt::format("varied are: {}", fmt::join(names, ", "))
                                           : fmt::format("did you mean '{}'?", near)));
    }
  }

  const SpaceOptions& options_;
  Around around_;
  std::vector<std::int64_t> nodes_;
  std::set<std::string> known_;  // keys that vary by default
  std::vector<PlanPart> parts_;
  // Types of the scenario, and the frameworks that cannot have them.
  std::map<std::string, std::set<std::string>> without_type_;
  std::vector<std::string> notes_;
  Diagnostics faults_;
};

}  // namespace

Result<PlanSpace> PlanSpace::Around(const Scenario& scenario, const SpaceOptions& options) {
  Builder builder(scenario, options);
  auto parts = builder.Run();
  if (!parts) return tl::unexpected(std::move(parts.error()));
  PlanSpace space;
  space.notes_ = builder.TakeNotes();
  double plans = 0;
  for (PlanPart& part : *parts) {
    double product = 1;
    for (const SweepAxis& axis : part.axes) product *= static_cast<double>(axis.values.size());
    plans += product;
    if (plans > static_cast<double>(kMostPlans)) continue;
    part.first = space.size_;
    part.plans = static_cast<std::int64_t>(product);
    space.size_ += part.plans;
  }
  if (plans > static_cast<double>(kMostPlans)) {
    return tl::unexpected(Diagnostics{Fault(
        "planner.space", "--vary", fmt::format("more than {} plans: {:.0f}", kMostPlans, plans),
        "give fewer values, or keep keys as they are with --fix KEY")});
  }
  if (space.size_ == 0) {
    return tl::unexpected(Diagnostics{Fault("planner.space", "--vary", "no plan is left",
                                            "the frameworks do not have that zero_stage")});
  }
  space.parts_ = std::move(*parts);
  return space;
}

const PlanPart& PlanSpace::PartOf(std::int64_t plan) const {
  STEPCAST_CHECK(plan >= 0 && plan < size_, "the plan is one of the space");
  const auto next =
      std::upper_bound(parts_.begin(), parts_.end(), plan,
                       [](std::int64_t p, const PlanPart& part) { return p < part.first; });
  return *std::prev(next);
}

std::vector<std::pair<std::string, std::string>> PlanSpace::Settings(std::int64_t plan) const {
  const PlanPart& part = PartOf(plan);
  auto settings = part.fixed;
  const std::size_t fixed = settings.size();
  settings.resize(fixed + part.axes.size());
  std::int64_t rest = plan - part.first;
  for (std::size_t i = part.axes.size(); i-- > 0;) {
    const SweepAxis& axis = part.axes[i];
    const auto count = static_cast<std::int64_t>(axis.values.size());
    settings[fixed + i] = {axis.key, axis.values[static_cast<std::size_t>(rest % count)]};
    rest /= count;
  }
  std::erase_if(settings, [&](const auto& setting) {
    return setting.second == kDefault &&
           std::find(part.absent.begin(), part.absent.end(), setting.first) != part.absent.end();
  });
  return settings;
}

bool PlanSpace::HasBefore(std::int64_t plan, const std::string& key,
                          const std::string& value) const {
  const PlanPart& part = PartOf(plan);
  std::int64_t stride = part.plans;
  for (const SweepAxis& axis : part.axes) {
    const auto count = static_cast<std::int64_t>(axis.values.size());
    stride /= count;
    if (axis.key != key) continue;
    const std::int64_t at = (plan - part.first) / stride % count;
    const auto end = axis.values.begin() + at;
    return std::find(axis.values.begin(), end, value) != end;
  }
  return false;
}

std::string PlanSpace::KindOf(std::int64_t plan) const {
  std::string kind = fmt::format("{}", &PartOf(plan) - parts_.data());
  for (const auto& [key, value] : Settings(plan)) {
    if (!key.starts_with(kSection)) kind += ' ' + value;
  }
  return kind;
}

std::vector<PlanSpace::Neighbour> PlanSpace::NeighboursOf(std::int64_t plan) const {
  const PlanPart& part = PartOf(plan);
  std::vector<Neighbour> neighbours;
  std::int64_t stride = part.plans;
  for (const SweepAxis& axis : part.axes) {
    const auto count = static_cast<std::int64_t>(axis.values.size());
    stride /= count;
    const std::int64_t at = (plan - part.first) / stride % count;
    for (const std::int64_t other : {at - 1, at + 1}) {
      if (other < 0 || other >= count) continue;
      neighbours.push_back(
          {axis.key, axis.values[static_cast<std::size_t>(other)], plan + (other - at) * stride});
    }
  }
  return neighbours;
}

}  // namespace stepcast::planner
