#include "src/planner/plan_space_builder.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/quantity.h"
#include "src/plan/framework_style.h"
#include "src/plan/request.h"
#include "src/plan/settings.h"
#include "src/planner/search_table.h"
#include "src/scenario/scenario_checks.h"

namespace stepcast::planner {
namespace {

using plan::Framework;
using scenario::Scenario;

constexpr const char* kNodes = "cluster.nodes";
constexpr const char* kFlatDevices = "cluster.topology.devices";
constexpr const char* kDevices = "cluster.devices";  // of any other: on how many of its GPUs
constexpr const char* kData = "parallelism.data";
constexpr const char* kMicroBatch = "training.micro_batch_size";
constexpr const char* kAccumulation = "training.gradient_accumulation";
constexpr const char* kGlobalBatch = "training.global_batch_size";
constexpr const char* kFramework = "data_parallel.framework";
constexpr const char* kStage = "data_parallel.zero_stage";
constexpr const char* kSection = "data_parallel.";

constexpr const char* kCompile = "training.compile";
constexpr const char* kStageLayers = "parallelism.stage_layers";
// Settings of layouts that have an effect only in some layouts.
constexpr const char* kOfSomeLayouts[] = {"training.tensor_overlap",
                                          "parallelism.microbatch_group_size_per_vp_stage"};

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

// Whether the framework has the key, or the key is not framework-specific. Keys of layouts are not,
// since a framework's layouts have no other values.
bool IsFor(Framework framework, std::string_view key) {
  if (FindLayoutKey(key) != nullptr) return true;
  const std::size_t dot = key.find('.');
  const std::string_view section = key.substr(0, dot);
  key.remove_prefix(std::min(dot, key.size() - 1) + 1);
  const std::string_view word = key.substr(0, key.find('.'));
  bool is_for = true;
  plan::ForEachSection([&](std::string_view name, const auto& settings) {
    const auto* setting = name == section ? plan::FindSetting(settings, word) : nullptr;
    if (setting != nullptr) is_for = setting->uses.Has(framework);
  });
  return is_for;
}

Diagnostic Refusal(const char* code, std::string option, std::string message, std::string hint) {
  return {code, {std::move(option), 0, 0}, std::move(message), std::move(hint)};
}

class Builder {
 public:
  Builder(const Scenario& scenario, const SpaceOptions& options)
      : options_(options),
        scenario_(scenario),
        facts_(scenario::LegalityFactsOf(scenario)),
        given_(GivenSettings(scenario, options.value_of)),
        flat_(scenario.cluster->flat()),
        per_node_(flat_ ? 1 : scenario.cluster->gpus_per_node()) {
    sizes_ = Sizes();
    layouts_.own = LayoutOf(scenario.plan);
    layouts_.data = Has(kData) && Given(kData) == nullptr;
    layouts_.stage_layers = Has(kStageLayers) && Given(kStageLayers) == nullptr;
    layouts_.mixture = facts_.experts > 0;
    for (const LayoutKey& row : LayoutKeys()) {
      if (Has(row.key)) layouts_.keys.push_back(&row);
      if (const SweepAxis* axis = Given(row.key)) wanted_[row.key] = axis->values;
      if (Fixed(row.key)) wanted_[row.key] = {row.Text(layouts_.own)};
    }
  }

  Result<BuiltSpace> Run() {
    CheckOptions();
    if (!faults_.empty()) return tl::unexpected(std::move(faults_));
    const std::vector<Framework> frameworks = Frameworks();
    CheckWhoHasWhat(frameworks);
    if (!faults_.empty()) return tl::unexpected(std::move(faults_));
    if (options_.own) AddOwn();
    for (std::size_t size = 0; size < sizes_.size(); ++size) {
      for (const Framework framework : frameworks) {
        for (const int stage : Stages(framework)) AddParts(size, framework, stage);
      }
    }
    NoteTypes();
    NoteSettings();
    NoteValues();
    CheckFixed();
    if (!faults_.empty()) return tl::unexpected(std::move(faults_));
    std::vector<HeldSetting> held = Held();
    return BuiltSpace{std::move(parts_), std::move(layouts_), std::move(notes_), std::move(held)};
  }

 private:
  const char* NodesKey() const { return flat_ ? kFlatDevices : kNodes; }

  // A number of GPUs of plans, and the setting that gives it. Without a key: the scenario's number.
  struct Size {
    const char* key = nullptr;
    std::int64_t number = 0;  // of that key
    std::int64_t devices = 1;
  };

  Size Nodes(std::int64_t number) const { return {NodesKey(), number, number * per_node_}; }
  static Size Devices(std::int64_t number) { return {kDevices, number, number}; }

  // In ascending order. Fewer GPUs are either a part of one node or whole nodes.
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

  // The positive numbers among an axis's values, in ascending order; words are ignored.
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
  std::optional<std::string> Written(const std::string& key) const {
    return options_.value_of ? options_.value_of(key) : std::nullopt;
  }
  bool Has(const std::string& key) const { return Written(key).has_value(); }

  // Adds the scenario's own value to the values that plans of its framework and stage try.
  void AddOwnValue(SweepAxis& axis) const {
    const auto own = Written(axis.key);
    if (!own || std::find(axis.values.begin(), axis.values.end(), *own) != axis.values.end())
      return;
    axis.values.push_back(*own);
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
        faults_.push_back(Refusal("planner.framework", option,
                                  "both --framework and --vary set the frameworks",
                                  "omit one of the two options"));
      }
      if (!seen.insert(axis.key).second) {
        faults_.push_back(
            Refusal("planner.vary", option,
                    fmt::format("two --vary options have the same key: {}", Quoted(axis.key)),
                    "write all values of the key in one --vary"));
      } else if (Fixed(axis.key)) {
        faults_.push_back(
            Refusal("planner.vary", option,
                    fmt::format("--vary and --fix have the same key: {}", Quoted(axis.key)),
                    "omit one of the two options"));
      } else if (axis.key == kGlobalBatch) {
        faults_.push_back(
            Refusal("planner.vary", option,
                    "plans with different values of 'training.global_batch_size' cannot be "
                    "compared, because the training differs",
                    "run one search for each size: --set training.global_batch_size=N"));
      }
    }
  }

  // Reports requested settings and stages that have no effect for a framework.
  void CheckWhoHasWhat(const std::vector<Framework>& frameworks) {
    std::set<Framework> seen;
    for (const Framework framework : frameworks) {
      if (seen.insert(framework).second) continue;
      faults_.push_back(Refusal("planner.framework", "--framework",
                                fmt::format("--framework lists the same framework twice: {}",
                                            Quoted(plan::Name(framework))),
                                "write each framework only once"));
    }
    for (const SweepAxis& axis : options_.vary) {
      if (axis.key == kFramework || axis.key == kStage) continue;
      const auto has = [&](Framework framework) { return IsFor(framework, axis.key); };
      const std::string option = fmt::format("--vary {}", axis.key);
      CheckSomeHave(frameworks, has, option, fmt::format("this setting: {}", Quoted(axis.key)));
      NoteWhoLacks(frameworks, has, option,
                   "{}: {} {} not support this setting, so the search includes {} plans without "
                   "the setting");
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
        "{}: {} {} not support this stage, so the search omits {} plans");
  }

  template <typename Has>
  void CheckSomeHave(const std::vector<Framework>& frameworks, const Has& has, std::string option,
                     const std::string& what) {
    if (std::any_of(frameworks.begin(), frameworks.end(), has)) return;
    std::vector<const char*> others;
    for (const Framework framework : plan::kFrameworks) {
      if (has(framework)) others.push_back(plan::Name(framework));
    }
    faults_.push_back(Refusal(
        "planner.vary", std::move(option),
        fmt::format("no framework in the search supports {}", what),
        others.empty()
            ? "remove the option"
            : fmt::format("remove the option, or search a framework that supports the option: "
                          "--framework {}",
                          fmt::join(others, ","))));
  }

  template <typename Has>
  void NoteWhoLacks(const std::vector<Framework>& frameworks, const Has& has,
                    const std::string& option, const char* note) {
    std::vector<const char*> lacking;
    for (const Framework framework : frameworks) {
      if (!has(framework)) lacking.push_back(plan::Name(framework));
    }
    if (lacking.empty() || lacking.size() == frameworks.size()) return;
    const bool one = lacking.size() == 1;
    notes_.push_back(fmt::format(fmt::runtime(note), option, fmt::join(lacking, ", "),
                                 one ? "does" : "do", one ? "its" : "their"));
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
      faults_.push_back(Refusal("planner.vary", fmt::format("--vary {}", kFramework),
                                fmt::format("this framework does not exist: {}", Quoted(value)),
                                fmt::format("choose from {}", fmt::join(names, ", "))));
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

  void AddOwn() {
    const std::int64_t devices = scenario_.cluster->devices();
    const auto size = std::find_if(sizes_.begin(), sizes_.end(),
                                   [&](const Size& one) { return one.devices == devices; });
    parts_.push_back({.framework = base().framework,
                      .stage = base().zero_stage,
                      .size = size - sizes_.begin(),
                      .layout = layouts_.own,
                      .choices = std::make_shared<const PlanChoices>(),
                      .own = true});
  }

  // Adds the plans of one framework at one stage on a number of GPUs: one part per layout.
  void AddParts(std::size_t size, Framework framework, int stage) {
    const LayoutRules rules({.scenario = scenario_,
                             .facts = facts_,
                             .framework = framework,
                             .stage = stage,
                             .devices = sizes_[size].devices,
                             .fills = Given(kData) == nullptr,
                             .kinds = options_.kinds,
                             .stage_layers_vary = Given(kStageLayers) != nullptr,
                             .own_stage_layers = layouts_.stage_layers,
                             .compiles = !Has(kCompile) && !Fixed(kCompile) &&
                                         Given(kCompile) == nullptr &&
                                         FindSearchRow(kCompile, framework, stage) != nullptr,
                             .given = &wanted_});
    bool some = false;
    for (const Layout& layout : rules.Legal())
      some |= AddPart(size, framework, stage, layout, rules);
    if (some) return;
    // If there is no legal layout, one is tried and refused with the reason: the scenario's own if
    // the search is restricted to some layouts, else plain data parallelism.
    Layout tried = wanted_.empty() ? Layout() : layouts_.own;
    tried.data = std::max<std::int64_t>(sizes_[size].devices / tried.ranks_per_replica(), 1);
    AddPart(size, framework, stage, tried, rules, /*whatever=*/true);
  }

  // Returns false if no micro-batch is left; `whatever`: the part is added all the same.
  bool AddPart(std::size_t size, Framework framework, int stage, const Layout& layout,
               const LayoutRules& rules, bool whatever = false) {
    SearchPoint point{
        .scenario = scenario_,
        .facts = facts_,
        .framework = framework,
        .stage = stage,
        .devices = sizes_[size].devices,
        .layout = layout,
        .data_per_node = std::max<std::int64_t>(
            std::min(sizes_[size].devices, per_node_) / (layout.tensor * layout.context), 1),
        .micro_batches = MicroBatchesOf(scenario_, layout.data),
        .overlaps = rules.Overlaps(layout),
        .written = options_.value_of};
    const bool chosen = Given(kAccumulation) != nullptr || Given(kData) != nullptr ||
                        Given(kMicroBatch) != nullptr || Fixed(kMicroBatch);
    if (!chosen && !whatever) {
      point.micro_batches = rules.MicroBatches(layout, point.micro_batches);
      if (point.micro_batches.empty()) return false;
    }
    const std::string key = fmt::format(
        "{} {} {} {} {} {} {} {} {} {} {}", size, plan::Name(framework), stage, layout.data,
        point.data_per_node, layout.context, layout.tensor, layout.pipeline, layout.schedule,
        point.overlaps, fmt::join(point.micro_batches, ","));
    std::shared_ptr<const PlanChoices>& choices = choices_[key];
    if (choices == nullptr) choices = ChoicesIn(size, point);
    parts_.push_back({.framework = framework,
                      .stage = stage,
                      .size = static_cast<std::int64_t>(size),
                      .layout = layout,
                      .choices = choices});
    return true;
  }

  std::shared_ptr<const PlanChoices> ChoicesIn(std::size_t of_size, const SearchPoint& point) {
    const Size& size = sizes_[of_size];
    const Framework framework = point.framework;
    const int stage = point.stage;
    PlanChoices choices;
    const bool own = framework == base().framework && stage == base().zero_stage;
    FixBatch(choices);
    FixTypes(framework, stage, choices);
    LeaveOutOthers(framework, stage, choices);
    if (size.key != nullptr) choices.first.emplace_back(size.key, fmt::format("{}", size.number));
    const bool devices_said =
        Has(kDevices) || (size.key != nullptr && std::string_view(size.key) == kDevices);
    if (Given(kData) != nullptr && !flat_ && !devices_said) choices.data = point.layout.data;
    if (own) {
      choices.then.emplace_back(kFramework, plan::Name(framework));
      choices.then.emplace_back(kStage, fmt::format("{}", stage));
    } else {
      // The scenario's settings are of another framework, or of another stage.
      choices.then.emplace_back("data_parallel", fmt::format("{{framework: {}, zero_stage: {}}}",
                                                             plan::Name(framework), stage));
    }
    const auto take = [&](SearchLevel level) {
      for (const SearchRow& row : SearchTable()) {
        if (row.level != level || !row.uses.HasEffect(framework, stage)) continue;
        SweepAxis axis{row.key, row.values(point)};
        if (axis.values.empty()) continue;
        known_.insert(axis.key);
        if (Fixed(axis.key)) continue;
        if (const SweepAxis* given = Given(axis.key)) {
          axis.values = given->values;
        } else if (own) {
          AddOwnValue(axis);
        }
        choices.axes.push_back(std::move(axis));
      }
    };
    const auto varies = [&](std::string_view key) {
      return std::any_of(choices.axes.begin(), choices.axes.end(),
                         [&](const SweepAxis& axis) { return axis.key == key; });
    };
    const auto is_communication = [&](std::string_view key) {
      const SearchRow* row = FindSearchRow(key, framework, stage);
      return row != nullptr && row->level == SearchLevel::kCommunication &&
             !row->values(point).empty();
    };
    take(SearchLevel::kKernels);
    for (const SweepAxis& axis : options_.vary) {
      if (varies(axis.key) || is_communication(axis.key) || axis.key == kFramework ||
          axis.key == kStage || IsOfSize(axis.key) || FindLayoutKey(axis.key) != nullptr ||
          !DoesSomethingIn(point.layout, axis.key)) {
        continue;
      }
      if (IsFor(framework, axis.key)) choices.axes.push_back(axis);
    }
    choices.outer = choices.axes.size();
    take(SearchLevel::kCommunication);
    for (const SweepAxis& axis : choices.axes) {
      if (!(own || !axis.key.starts_with(kSection)) || !Has(axis.key)) {
        choices.absent.push_back(axis.key);
      }
    }
    for (const std::string& key : SettingsToLeave(point, choices)) {
      choices.first.emplace_back(key, kDefaultValue);
    }
    choices.belongings = BelongingsTo(choices.axes, scenario_, options_.value_of);
    return std::make_shared<const PlanChoices>(std::move(choices));
  }

  // The scenario's settings that have no effect in the layout.
  std::vector<std::string> SettingsToLeave(const SearchPoint& point,
                                           const PlanChoices& choices) const {
    std::vector<std::string> left;
    const auto leave = [&](std::string key) {
      const bool varies = std::any_of(choices.axes.begin(), choices.axes.end(),
                                      [&](const SweepAxis& axis) { return axis.key == key; }) ||
                          std::any_of(choices.first.begin(), choices.first.end(),
                                      [&](const auto& setting) { return setting.first == key; });
      if (!varies && Has(key)) left.push_back(std::move(key));
    };
    const Layout& layout = point.layout;
    if (!point.overlaps) leave(kOfSomeLayouts[0]);
    if (layout.schedule != plan::kInterleaved) leave(kOfSomeLayouts[1]);
    if (layout.expert == 1 && layouts_.own.expert > 1) {
      for (const char* key : {"experts.overlap_communication", "experts.delay_weight_gradients",
                              "experts.overlap_shared_experts", "experts.imbalance"}) {
        leave(key);
      }
    }
    return left;
  }

  // Whether the key sets the number of GPUs of a part's plans.
  bool IsOfSize(std::string_view key) const {
    const char* const own = sizes_.front().key;
    return key == NodesKey() || (own != nullptr && key == own);
  }

  // Settings of a pipeline vary only in layouts with a pipeline.
  static bool DoesSomethingIn(const Layout& layout, std::string_view key) {
    bool does = true;
    plan::ForEachSection([&](std::string_view section, const auto& settings) {
      for (const auto& setting : settings) {
        if (setting.without.empty() || key != fmt::format("{}.{}", section, setting.key)) continue;
        does = plan::DegreeOf(layout, setting.without) > 1;
      }
    });
    return does;
  }

  // Gives all plans the same global batch, however the scenario states it, unless accumulation
  // varies.
  void FixBatch(PlanChoices& choices) const {
    if (Given(kAccumulation) != nullptr) {
      if (Has(kGlobalBatch)) choices.first.emplace_back(kGlobalBatch, kDefaultValue);
    } else if (!Has(kGlobalBatch)) {
      if (Has(kAccumulation)) choices.first.emplace_back(kAccumulation, kDefaultValue);
      choices.first.emplace_back(kGlobalBatch,
                                 fmt::format("{}", scenario_.plan.training.global_batch_size));
    }
  }

  // Takes the scenario's types; a framework that does not support one uses its own default.
  void FixTypes(Framework framework, int stage, PlanChoices& choices) {
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
      choices.first.emplace_back(std::move(key), kDefaultValue);
    }
    if (framework != base().framework || stage != base().zero_stage) {
      TakeMasterWeights(recipe, choices);
    }
  }

  // Plans of other frameworks keep parameters in FP32 exactly if the scenario's own plan does.
  void TakeMasterWeights(const plan::Request& recipe, PlanChoices& choices) const {
    const plan::Training& own = scenario_.plan.training;
    for (const char* key : {"training.parameter_dtype", "training.master_weights"}) {
      if (Has(key) || Given(key) != nullptr) return;
    }
    const auto keeps = [](DataType parameters, plan::MasterWeights copy) {
      return parameters == DataType::kFp32 || copy != plan::MasterWeights::kNone;
    };
    const bool wanted = keeps(own.parameter_dtype, own.master_weights);
    const auto is_wanted = [&](const plan::Request& request) {
      return plan::TypesNotOfFramework(request).empty() &&
             keeps(plan::ParameterType(request), plan::OptimizerStatesOf(request).master_weights) ==
                 wanted;
    };
    if (is_wanted(recipe)) return;
    plan::Request other = recipe;
    if (wanted) other.parameter_dtype = DataType::kFp32;
    if (wanted && is_wanted(other)) {
      choices.first.emplace_back("training.parameter_dtype", "fp32");
      return;
    }
    other = recipe;
    other.master_weights = wanted ? plan::MasterWeights::kFp32 : plan::MasterWeights::kNone;
    if (is_wanted(other)) {
      choices.first.emplace_back("training.master_weights", plan::Name(*other.master_weights));
    }
  }

  // Leaves out settings that the scenario's framework has and this one does not, or not with that
  // value. Those of data parallelism are replaced as a whole.
  void LeaveOutOthers(Framework framework, int stage, PlanChoices& choices) {
    if (framework == base().framework) return;
    const std::vector<std::string>& refused = RefusedBy(framework, stage);
    for (const std::string& key : GivenSettings(scenario_, options_.value_of, /*idle=*/true)) {
      if (key.starts_with(kSection) || FindLayoutKey(key) != nullptr) continue;
      const bool left_out = std::any_of(choices.first.begin(), choices.first.end(),
                                        [&](const auto& setting) { return setting.first == key; });
      if (left_out || Given(key) != nullptr || Fixed(key)) continue;
      const bool has = IsFor(framework, key);
      if (has && std::find(refused.begin(), refused.end(), key) == refused.end()) continue;
      without_setting_[has ? fmt::format("{}: {}", key, *Written(key)) : key].insert(
          plan::Name(framework));
      choices.first.emplace_back(key, kDefaultValue);
    }
  }

  // Keys of the scenario with values that this framework refuses and the scenario's does not.
  const std::vector<std::string>& RefusedBy(Framework framework, int stage) {
    const auto [known, is_new] = refused_.try_emplace({framework, stage});
    if (is_new && options_.refused_by) known->second = options_.refused_by(framework, stage);
    return known->second;
  }

  void NoteSettings() {
    for (const auto& [key, frameworks] : without_setting_) {
      const bool one = frameworks.size() == 1;
      notes_.push_back(fmt::format(
          "{} {} not support {}, so the search includes {} plans without this setting",
          fmt::join(frameworks, ", "), one ? "does" : "do", key, one ? "its" : "their"));
    }
  }

  // Notes the requested values of layout keys that no plan can have.
  void NoteValues() {
    for (const auto& [key, values] : wanted_) {
      if (Fixed(key)) continue;
      const LayoutKey& row = *FindLayoutKey(key);
      for (const std::string& value : values) {
        const bool had = std::any_of(parts_.begin(), parts_.end(), [&](const PlanPart& part) {
          if (part.own) return false;
          Layout same = part.layout;
          return row.IsUsed(part.layout) && row.Take(same, value) && same == part.layout;
        });
        if (had) continue;
        notes_.push_back(
            fmt::format("--vary {}: no plan can have {}{}", key, value, WhyNotWith(row, value)));
      }
    }
  }

  // ": the model's heads of 12 do not divide among 5 ranks".
  std::string WhyNotWith(const LayoutKey& row, const std::string& value) const {
    Layout layout = layouts_.own;
    layout.data = 1;
    if (!row.Take(layout, value)) return "";
    const PlanPart& part = parts_.back();
    const LayoutRules rules({.scenario = scenario_,
                             .facts = facts_,
                             .framework = part.framework,
                             .stage = part.stage,
                             .devices = sizes_[static_cast<std::size_t>(part.size)].devices,
                             .kinds = options_.kinds,
                             .given = &wanted_});
    const auto why = rules.WhyNot(layout);
    return why ? fmt::format(": {}", why->message) : "";
  }

  // The value of a setting in the part's plans. Nothing if they have different values, or values of
  // their own.
  std::optional<HeldSetting> HeldIn(const PlanPart& part, const std::string& key) const {
    const PlanChoices& choices = *part.choices;
    const bool of_data_parallel = key.starts_with(kSection);
    for (const auto* fixed : {&choices.first, &choices.then}) {
      for (const auto& [name, value] : *fixed) {
        if (name == key || (of_data_parallel && name == "data_parallel")) return std::nullopt;
      }
    }
    for (const SweepAxis& axis : choices.axes) {
      if (axis.key == key) return std::nullopt;
    }
    if (FindLayoutKey(key) != nullptr && !Fixed(key)) return std::nullopt;
    HeldSetting held{.key = key};
    for (const Belonging& belonging : choices.belongings) {
      if (belonging.key != key) continue;
      held.of = belonging.of;
      const auto axis = std::find_if(choices.axes.begin(), choices.axes.end(),
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

  // The scenario's settings that the parts keep.
  std::vector<HeldSetting> Held() const {
    std::vector<HeldSetting> held;
    for (const std::string& key : given_) {
      for (const PlanPart& part : parts_) {
        if (part.own) continue;
        if (auto setting = HeldIn(part, key)) {
          held.push_back(*std::move(setting));
          break;
        }
      }
    }
    return held;
  }

  void NoteTypes() {
    for (const auto& [type, frameworks] : without_type_) {
      notes_.push_back(fmt::format("{} cannot use {}, so the affected plans use the default of {}",
                                   fmt::join(frameworks, ", "), type,
                                   frameworks.size() == 1 ? "that framework" : "each framework"));
    }
  }

  void CheckFixed() {
    for (const LayoutKey& row : LayoutKeys()) known_.insert(row.key);
    known_.insert(kFramework);
    known_.insert(kStage);
    known_.insert(NodesKey());
    if (!flat_) known_.insert(kDevices);
    for (const std::string& key : options_.fix) {
      if (known_.contains(key)) continue;
      const std::vector<std::string_view> names(known_.begin(), known_.end());
      const std::string_view near = NearestWord(key, names);
      faults_.push_back(
          Refusal("planner.fix", fmt::format("--fix {}", key),
                  fmt::format("--fix has a setting that the search does not vary: {}", Quoted(key)),
                  near.empty() ? fmt::format("choose from {}", fmt::join(names, ", "))
                               : fmt::format("did you mean '{}'?", near)));
    }
  }

  const SpaceOptions& options_;
  const Scenario& scenario_;
  const plan::Facts facts_;
  const std::vector<std::string> given_;  // settings of the scenario that a search may vary
  bool flat_;
  std::int64_t per_node_;
  LayoutsGiven layouts_;
  // [key] requested values of layout keys.
  std::map<std::string, std::vector<std::string>, std::less<>> wanted_;
  std::vector<Size> sizes_;
  std::set<std::string> known_;  // keys that vary by default
  std::vector<PlanPart> parts_;
  // Choices that several parts share, by what they are derived from.
  std::map<std::string, std::shared_ptr<const PlanChoices>> choices_;
  // [type of the scenario] frameworks that do not support it.
  std::map<std::string, std::set<std::string>> without_type_;
  // [framework, stage] RefusedBy.
  std::map<std::pair<Framework, int>, std::vector<std::string>> refused_;
  // [setting of the scenario] frameworks that do not have it.
  std::map<std::string, std::set<std::string>> without_setting_;
  std::vector<std::string> notes_;
  Diagnostics faults_;
};

}  // namespace

Result<BuiltSpace> BuildSpace(const Scenario& scenario, const SpaceOptions& options) {
  return Builder(scenario, options).Run();
}

}  // namespace stepcast::planner
