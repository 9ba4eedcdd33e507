#include "src/planner/plan_space.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/check.h"
#include "src/base/quantity.h"
#include "src/plan/data_parallel_settings.h"
#include "src/plan/legality.h"
#include "src/plan/parallelism_settings.h"
#include "src/plan/request.h"
#include "src/plan/training_settings.h"
#include "src/planner/plan_axes.h"

namespace stepcast::planner {
namespace {

using plan::Framework;
using scenario::Scenario;

constexpr const char* kNodes = "cluster.nodes";
constexpr const char* kFlatDevices = "cluster.topology.devices";
constexpr const char* kDevices = "cluster.devices";  // of any other: on how many of its GPUs
constexpr const char* kOfPlan = "plan";              // ... as many as the axes multiply to
constexpr const char* kData = "parallelism.data";
constexpr const char* kAccumulation = "training.gradient_accumulation";
constexpr const char* kGlobalBatch = "training.global_batch_size";
constexpr const char* kFramework = "data_parallel.framework";
constexpr const char* kStage = "data_parallel.zero_stage";
constexpr const char* kSection = "data_parallel.";
constexpr const char* kTraining = "training.";
constexpr const char* kAxes = "parallelism.";

// The degrees of the axes beside data that devices are divided among; experts are shared out among
// the same ranks. Micro-batches and shards depend on what they leave to it.
bool IsDegree(std::string_view key) {
  return key == "parallelism.tensor" || key == "parallelism.pipeline" ||
         key == "parallelism.context";
}

std::vector<std::int64_t> PowersOfTwoUpTo(std::int64_t most) {
  std::vector<std::int64_t> values;
  for (std::int64_t n = 1; n < most; n *= 2) values.push_back(n);
  values.push_back(most);
  return values;
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

std::int64_t CombinationsOf(const std::vector<SweepAxis>& axes) {
  std::int64_t combinations = 1;
  for (const SweepAxis& axis : axes) combinations *= static_cast<std::int64_t>(axis.values.size());
  return combinations;
}

Diagnostic Fault(const char* code, std::string option, std::string message, std::string hint) {
  return {code, {std::move(option), 0, 0}, std::move(message), std::move(hint)};
}

class Builder {
 public:
  Builder(const Scenario& scenario, const SpaceOptions& options)
      : options_(options),
        scenario_(scenario),
        given_(GivenSettings(scenario, options.has_key)),
        flat_(scenario.cluster->flat()),
        per_node_(flat_ ? 1 : scenario.cluster->gpus_per_node()) {
    sizes_ = Sizes();
    std::copy_if(options.vary.begin(), options.vary.end(), std::back_inserter(degrees_),
                 [](const SweepAxis& axis) { return IsDegree(axis.key); });
  }

  Result<std::vector<PlanPart>> Run() {
    CheckOptions();
    if (!faults_.empty()) return tl::unexpected(std::move(faults_));
    const std::vector<Framework> frameworks = Frameworks();
    CheckWhoHasWhat(frameworks);
    if (!faults_.empty()) return tl::unexpected(std::move(faults_));
    for (const Framework framework : frameworks) {
      parts_of_grid_ += static_cast<std::int64_t>(Stages(framework).size());
    }
    const std::int64_t grids = CombinationsOf(degrees_);
    for (const Size& size : sizes_) {
      for (std::int64_t grid = 0; grid < grids; ++grid) {
        const Degrees degrees = DegreesOf(grid);
        for (const Framework framework : frameworks) {
          for (const int stage : Stages(framework)) AddPart(size, degrees, framework, stage);
        }
      }
    }
    NoteTypes();
    NoteSettings();
    CheckFixed();
    if (!faults_.empty()) return tl::unexpected(std::move(faults_));
    return std::move(parts_);
  }
  std::vector<std::string> TakeNotes() { return std::move(notes_); }
  // What the parts keep of what the scenario gives.
  std::vector<HeldSetting> Held(const std::vector<PlanPart>& parts) const {
    std::vector<HeldSetting> held;
    for (const std::string& key : given_) {
      for (const PlanPart& part : parts) {
        if (auto setting = HeldIn(part, key)) {
          held.push_back(*std::move(setting));
          break;
        }
      }
    }
    return held;
  }
  const std::vector<SweepAxis>& degrees() const { return degrees_; }
  std::int64_t parts_of_grid() const { return parts_of_grid_; }

 private:
  using Degrees = std::vector<std::pair<std::string, std::string>>;

  // How many GPUs plans have, and the setting that says so; no key: as many as the scenario's.
  struct Size {
    const char* key = nullptr;
    std::int64_t number = 0;  // of that key
    std::int64_t devices = 1;
  };

  const char* NodesKey() const { return flat_ ? kFlatDevices : kNodes; }

  Size Nodes(std::int64_t number) const { return {NodesKey(), number, number * per_node_}; }
  static Size Devices(std::int64_t number) { return {kDevices, number, number}; }

  // Ascending. Fewer GPUs are those of a part of a node, and whole nodes.
  std::vector<Size> Sizes() const {
    const topology::Cluster& cluster = *scenario_.cluster;
    const std::int64_t most = flat_ ? cluster.devices() : cluster.nodes();
    const bool said = Given(NodesKey()) != nullptr || (!flat_ && Given(kDevices) != nullptr);
    std::vector<Size> sizes;
    if (Given(NodesKey()) != nullptr) {
      for (const std::int64_t number : NumbersOf(*Given(NodesKey())))
        sizes.push_back(Nodes(number));
    } else if (!flat_ && Given(kDevices) != nullptr) {
      for (const std::int64_t number : NumbersOf(*Given(kDevices)))
        sizes.push_back(Devices(number));
    } else if (options_.nodes && !flat_ && Has(kDevices) && !Fixed(kDevices)) {
      for (const std::int64_t number : PowersOfTwoUpTo(cluster.devices())) {
        sizes.push_back(Devices(number));
      }
    } else if (options_.nodes && !Fixed(NodesKey())) {
      if (!flat_ && scenario_.other_nodes.empty() && !Fixed(kDevices)) {
        for (const std::int64_t number : PowersOfTwoUpTo(per_node_)) {
          if (number < per_node_) sizes.push_back(Devices(number));
        }
      }
      for (const std::int64_t number : PowersOfTwoUpTo(most)) sizes.push_back(Nodes(number));
    }
    if (sizes.size() == 1 && !said) sizes.clear();
    if (sizes.empty()) sizes.push_back({nullptr, 0, most * per_node_});
    return sizes;
  }

  // Of an axis; words among its values are none.
  static std::vector<std::int64_t> NumbersOf(const SweepAxis& axis) {
    std::vector<std::int64_t> numbers;
    for (const std::string& value : axis.values) {
      const std::int64_t number = std::atoll(value.c_str());
      if (number > 0) numbers.push_back(number);
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }
  const plan::DataParallel& base() const { return scenario_.plan.data_parallel; }

  // Those that vary, of the grid of this number; the last varies fastest.
  Degrees DegreesOf(std::int64_t grid) const {
    Degrees degrees;
    std::int64_t stride = CombinationsOf(degrees_);
    for (const SweepAxis& axis : degrees_) {
      const auto count = static_cast<std::int64_t>(axis.values.size());
      stride /= count;
      degrees.emplace_back(axis.key, axis.values[static_cast<std::size_t>(grid / stride % count)]);
    }
    return degrees;
  }

  // The ranks of an axis: as it varies, or the scenario's.
  std::int64_t DegreeIn(const Degrees& degrees, std::string_view axis) const {
    for (const auto& [key, value] : degrees) {
      if (key == fmt::format("parallelism.{}", axis)) {
        return std::max<std::int64_t>(std::atoll(value.c_str()), 1);
      }
    }
    return plan::DegreeOf(scenario_.plan.parallelism, axis);
  }

  // On grids that do not divide the devices there is no plan: whatever is tried, it is refused.
  Surroundings SurroundingsOf(const Size& size, const Degrees& degrees) const {
    const std::int64_t tensor = DegreeIn(degrees, "tensor");
    const std::int64_t context = DegreeIn(degrees, "context");
    const std::int64_t others = tensor * DegreeIn(degrees, "pipeline") * context;
    return {.scenario = scenario_,
            .data = std::max<std::int64_t>(size.devices / others, 1),
            .data_per_node = std::max<std::int64_t>(
                std::min(size.devices, per_node_) / (tensor * context), 1),
            .context = context,
            .tensor = tensor > 1,
            .pipeline = DegreeIn(degrees, "pipeline") > 1};
  }

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
      std::vector<const char*> names;
      for (const Framework known : plan::kFrameworks) names.push_back(plan::Name(known));
      faults_.push_back(Fault("planner.vary", fmt::format("--vary {}", kFramework),
                              fmt::format("there is no such framework: {}", Quoted(value)),
                              fmt::format("there are: {}", fmt::join(names, ", "))));
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

  void AddPart(const Size& size, const Degrees& degrees, Framework framework, int stage) {
    PlanPart part;
    part.framework = framework;
    const bool own = framework == base().framework && stage == base().zero_stage;
    FixBatch(part);
    FixTypes(framework, stage, part);
    LeaveOutOthers(framework, part);
    if (size.key != nullptr) part.fixed.emplace_back(size.key, fmt::format("{}", size.number));
    FixDegrees(degrees, part);
    if ((size.key != nullptr || !degrees.empty()) && Has(kData)) {
      part.fixed.emplace_back(kData, kDefaultValue);
    }
    const bool devices_said =
        Has(kDevices) || (size.key != nullptr && std::string_view(size.key) == kDevices);
    if (Given(kData) != nullptr && !flat_ && !devices_said) {
      part.data = SurroundingsOf(size, degrees).data;
    }
    if (own) {
      part.fixed.emplace_back(kFramework, plan::Name(framework));
      part.fixed.emplace_back(kStage, fmt::format("{}", stage));
    } else {
      // The scenario's settings are of another framework, or of another stage.
      part.fixed.emplace_back("data_parallel", fmt::format("{{framework: {}, zero_stage: {}}}",
                                                           plan::Name(framework), stage));
    }
    for (SweepAxis& axis : TriedAxes(SurroundingsOf(size, degrees), framework, stage)) {
      known_.insert(axis.key);
      if (Fixed(axis.key)) continue;
      if (const SweepAxis* given = Given(axis.key)) axis.values = given->values;
      part.axes.push_back(std::move(axis));
    }
    for (const SweepAxis& axis : options_.vary) {
      const auto same = std::find_if(part.axes.begin(), part.axes.end(),
                                     [&](const SweepAxis& own) { return own.key == axis.key; });
      if (same != part.axes.end() || axis.key == kFramework || axis.key == kStage ||
          IsOfSize(axis.key) || IsDegree(axis.key) || !DoesSomethingAt(degrees, axis.key)) {
        continue;
      }
      if (IsFor(framework, axis.key)) part.axes.push_back(axis);
    }
    for (const SweepAxis& axis : part.axes) {
      if (!(own || !axis.key.starts_with(kSection)) || !Has(axis.key)) {
        part.absent.push_back(axis.key);
      }
    }
    part.belongings = BelongingsTo(part.axes, scenario_, options_.has_key);
    parts_.push_back(std::move(part));
  }

  // It says how many GPUs the plans of a part have.
  bool IsOfSize(std::string_view key) const {
    const char* const own = sizes_.front().key;
    return key == NodesKey() || (own != nullptr && key == own);
  }

  // Settings of a pipeline vary where there is one.
  bool DoesSomethingAt(const Degrees& degrees, std::string_view key) const {
    const std::size_t dot = key.find('.');
    if (dot == std::string_view::npos) return true;
    const std::string_view word = key.substr(dot + 1);
    const auto does = [&](const auto* setting) {
      return setting == nullptr || setting->without.empty() ||
             DegreeIn(degrees, setting->without) > 1;
    };
    if (key.starts_with(kAxes)) return does(plan::FindSetting(plan::ParallelismSettings(), word));
    if (key.starts_with(kSection)) {
      return does(plan::FindSetting(plan::DataParallelSettings(), word));
    }
    return true;
  }

  // The blocks of the scenario's stages are those of its own number of chunks.
  void FixDegrees(const Degrees& degrees, PlanPart& part) const {
    constexpr const char* kStageLayers = "parallelism.stage_layers";
    part.fixed.insert(part.fixed.end(), degrees.begin(), degrees.end());
    const bool others = DegreeIn(degrees, "pipeline") != scenario_.plan.parallelism.pipeline ||
                        Given("parallelism.virtual_stages") != nullptr ||
                        Given("parallelism.schedule") != nullptr;
    if (others && Has(kStageLayers) && Given(kStageLayers) == nullptr) {
      part.fixed.emplace_back(kStageLayers, kDefaultValue);
    }
  }

  bool Has(const std::string& key) const { return options_.has_key && options_.has_key(key); }

  // One global batch for all plans, however the scenario says it, unless accumulation varies.
  void FixBatch(PlanPart& part) const {
    if (Given(kAccumulation) != nullptr) {
      if (Has(kGlobalBatch)) part.fixed.emplace_back(kGlobalBatch, kDefaultValue);
    } else if (!Has(kGlobalBatch)) {
      if (Has(kAccumulation)) part.fixed.emplace_back(kAccumulation, kDefaultValue);
      part.fixed.emplace_back(kGlobalBatch,
                              fmt::format("{}", scenario_.plan.training.global_batch_size));
    }
  }

  // The scenario's types are its framework's; a framework that cannot have one has its own default.
  void FixTypes(Framework framework, int stage, PlanPart& part) {
    const plan::Training& training = scenario_.plan.training;
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
    recipe.optimizer = training.optimizer;
    if (Has("training.optimizer_implementation")) {
      recipe.optimizer_implementation = training.optimizer_implementation;
    }
    if (Has("training.master_weights") && Given("training.master_weights") == nullptr) {
      recipe.master_weights = training.master_weights;
    }
    recipe.optimizer_state_dtype =
        given("training.optimizer_state_dtype", training.optimizer_state_dtype);
    const std::map<std::string_view, std::string_view> types = {
        {"training.parameter_dtype", Name(training.parameter_dtype)},
        {"training.gradient_dtype", Name(training.gradient_dtype)},
        {"training.reduce_dtype", Name(training.reduce_dtype)},
        {"training.master_weights", plan::Name(training.master_weights)},
        {"training.optimizer_state_dtype", Name(training.optimizer_state_dtype)}};
    for (std::string& key : plan::TypesNotOfFramework(recipe)) {
      without_type_[fmt::format("{}: {}", key, types.at(key))].insert(plan::Name(framework));
      part.fixed.emplace_back(std::move(key), kDefaultValue);
    }
  }

  // Settings of training that are those of the scenario's framework, and not this one's.
  void LeaveOutOthers(Framework framework, PlanPart& part) {
    for (const std::string& key : given_) {
      if (!key.starts_with(kTraining) || IsFor(framework, key) || Given(key) != nullptr) continue;
      without_setting_[key].insert(plan::Name(framework));
      part.fixed.emplace_back(key, kDefaultValue);
    }
  }

  void NoteSettings() {
    for (const auto& [key, frameworks] : without_setting_) {
      const bool one = frameworks.size() == 1;
      notes_.push_back(fmt::format("{} {} not have {}: {} plans are searched without it",
                                   fmt::join(frameworks, ", "), one ? "does" : "do", key,
                                   one ? "its" : "their"));
    }
  }

  // The setting as the part's plans keep it; nothing where they have others, or their own.
  static std::optional<HeldSetting> HeldIn(const PlanPart& part, const std::string& key) {
    const bool of_data_parallel = key.starts_with(kSection);
    for (const auto& [fixed, value] : part.fixed) {
      if (fixed == key || (of_data_parallel && fixed == "data_parallel")) return std::nullopt;
    }
    for (const SweepAxis& axis : part.axes) {
      if (axis.key == key) return std::nullopt;
    }
    HeldSetting held{.key = key};
    for (const Belonging& belonging : part.belongings) {
      if (belonging.key != key) continue;
      held.of = belonging.of;
      const auto axis = std::find_if(part.axes.begin(), part.axes.end(),
                                     [&](const SweepAxis& one) { return one.key == belonging.of; });
      for (const std::string& value : axis->values) {
        const auto& without = belonging.without;
        if (std::find(without.begin(), without.end(), value) == without.end()) {
          held.at.push_back(value);
        }
      }
      if (held.at.empty()) return std::nullopt;
    }
    return held;
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
    if (!flat_) known_.insert(kDevices);
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
  const Scenario& scenario_;
  const std::vector<std::string> given_;  // settings of the scenario that a search may vary
  bool flat_;
  std::int64_t per_node_;
  std::vector<SweepAxis> degrees_;  // those of options_.vary
  std::int64_t parts_of_grid_ = 0;
  std::vector<Size> sizes_;
  std::set<std::string> known_;  // keys that vary by default
  std::vector<PlanPart> parts_;
  // Types of the scenario, and the frameworks that cannot have them.
  std::map<std::string, std::set<std::string>> without_type_;
  // Settings of the scenario's training, and the frameworks that do not have them.
  std::map<std::string, std::set<std::string>> without_setting_;
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
  space.held_ = builder.Held(*parts);
  space.parts_ = std::move(*parts);
  space.degrees_ = builder.degrees();
  space.parts_of_grid_ = builder.parts_of_grid();
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
  for (const Belonging& belonging : part.belongings) {
    const auto varied = std::find_if(settings.begin(), settings.end(), [&](const auto& setting) {
      return setting.first == belonging.of;
    });
    const bool goes = std::find(belonging.without.begin(), belonging.without.end(),
                                varied->second) != belonging.without.end();
    if (goes) settings.emplace_back(belonging.key, kDefaultValue);
  }
  std::erase_if(settings, [&](const auto& setting) {
    return setting.second == kDefaultValue &&
           std::find(part.absent.begin(), part.absent.end(), setting.first) != part.absent.end();
  });
  const auto data = std::find_if(settings.rbegin(), settings.rend(),
                                 [](const auto& setting) { return setting.first == kData; });
  if (data != settings.rend() && data->second != kDefaultValue &&
      std::atoll(data->second.c_str()) < part.data) {
    settings.emplace_back(kDevices, kOfPlan);
  }
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
  std::vector<Neighbour> neighbours;
  AppendOtherGrids(plan, neighbours);
  const PlanPart& part = PartOf(plan);
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

void PlanSpace::AppendOtherGrids(std::int64_t plan, std::vector<Neighbour>& neighbours) const {
  const PlanPart& part = PartOf(plan);
  const auto settings = Settings(plan);
  const std::int64_t grids = CombinationsOf(degrees_);
  const std::int64_t grid = (&part - parts_.data()) / parts_of_grid_ % grids;
  std::int64_t stride = grids;
  for (const SweepAxis& axis : degrees_) {
    const auto count = static_cast<std::int64_t>(axis.values.size());
    stride /= count;
    const std::int64_t at = grid / stride % count;
    for (const std::int64_t other : {at - 1, at + 1}) {
      if (other < 0 || other >= count) continue;
      const PlanPart& there = *(&part + (other - at) * stride * parts_of_grid_);
      if (const auto number = NumberIn(there, settings)) {
        neighbours.push_back({axis.key, axis.values[static_cast<std::size_t>(other)], *number});
      }
    }
  }
}

std::optional<std::int64_t> PlanSpace::NumberIn(
    const PlanPart& part, const std::vector<std::pair<std::string, std::string>>& settings) {
  std::int64_t number = 0;
  for (const SweepAxis& axis : part.axes) {
    const auto setting = std::find_if(settings.begin(), settings.end(),
                                      [&](const auto& pair) { return pair.first == axis.key; });
    // What Settings leaves out is at its default; what the other part does not have has the first.
    const bool said = setting != settings.end();
    auto found =
        std::find(axis.values.begin(), axis.values.end(), said ? setting->second : kDefaultValue);
    if (found == axis.values.end()) {
      if (said) return std::nullopt;
      found = axis.values.begin();
    }
    number = number * static_cast<std::int64_t>(axis.values.size()) + (found - axis.values.begin());
  }
  return part.first + number;
}

}  // namespace stepcast::planner
