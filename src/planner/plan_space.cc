#include "src/planner/plan_space.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/expected.h"
#include "src/plan/framework_style.h"
#include "src/planner/plan_space_builder.h"

namespace stepcast::planner {
namespace {

using SettingList = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kDevicesKey = "cluster.devices";  // on how many of the GPUs
constexpr const char* kOfPlan = "plan";                 // ... as many as the axes multiply to
constexpr const char* kDataKey = "parallelism.data";
constexpr const char* kStageLayersKey = "parallelism.stage_layers";
constexpr std::string_view kFrameworkSection = "data_parallel.";

std::int64_t CountOf(const SweepAxis& axis) {
  return static_cast<std::int64_t>(axis.values.size());
}

// Whether the setting has to be written for plans of the layout.
bool IsSaid(const LayoutKey& row, const PlanPart& part, bool mixture) {
  if (!row.IsUsed(part.layout)) return false;
  if (row.kind != "expert") return true;
  if (!mixture) return part.layout.expert > 1 && row.Text(part.layout) != "1";
  if (row.key == "parallelism.expert") return true;
  return plan::StyleOf(part.framework).layers.divides_experts &&
         (part.layout.tensor > 1 || part.layout.expert_tensor > 1);
}

// Whether the value is the default for every framework.
bool IsDefault(const LayoutKey& row, const Layout& layout) {
  if (row.key == "parallelism.schedule") {
    return layout.schedule.empty() ||
           layout.schedule == (layout.virtual_stages > 1 ? plan::kInterleaved : "1f1b");
  }
  if (row.key == "parallelism.context_method" || row.key == "parallelism.expert_tensor") {
    return false;
  }
  return row.Text(layout) == row.Text(Layout());
}

// Resets settings without effect to their defaults.
Layout Normal(Layout layout) {
  for (const LayoutKey& row : LayoutKeys()) {
    if (!row.IsUsed(layout) || IsDefault(row, layout)) row.Take(layout, kDefaultValue);
  }
  layout.data = 1;
  return layout;
}

}  // namespace

Result<PlanSpace> PlanSpace::Around(const scenario::Scenario& scenario,
                                    const SpaceOptions& options) {
  STEPCAST_TAKE(auto built, BuildSpace(scenario, options));
  PlanSpace space;
  double families = 0;
  for (PlanPart& part : built.parts) {
    const PlanChoices& choices = *part.choices;
    double of_part = 1;
    std::int64_t inner = 1;
    for (std::size_t i = 0; i < choices.axes.size(); ++i) {
      if (i < choices.outer) {
        of_part *= static_cast<double>(CountOf(choices.axes[i]));
      } else {
        inner *= CountOf(choices.axes[i]);
      }
    }
    families += of_part;
    if (families > static_cast<double>(kMostFamilies)) continue;
    const PlanGroup group{part.framework, part.layout.tensor > 1, part.layout.pipeline > 1};
    const auto known = std::find(space.groups_.begin(), space.groups_.end(), group);
    part.group = static_cast<int>(known - space.groups_.begin());
    if (known == space.groups_.end()) space.groups_.push_back(group);
    part.first = space.size_;
    part.family = inner;
    part.plans = static_cast<std::int64_t>(of_part) * inner;
    for (std::int64_t plan = 0; plan < part.plans; plan += inner) {
      space.families_.push_back(part.first + plan);
    }
    space.size_ += part.plans;
  }
  const auto refuse = [](std::string message, std::string hint) {
    return tl::unexpected(
        Diagnostics{{"planner.space", {"--vary", 0, 0}, std::move(message), std::move(hint)}});
  };
  if (families > static_cast<double>(kMostFamilies)) {
    return refuse(
        fmt::format("the search space has {1:.0f} combinations of layout and training settings, "
                    "but a search can have at most {0}",
                    kMostFamilies, families),
        "reduce the space: limit the axes with --only data,tensor,pipeline, the "
        "frameworks with --framework, or a setting with --fix KEY");
  }
  if (space.size_ == 0) {
    return refuse(
        "the search space has no plans, because no searched framework supports this zero_stage",
        "give --framework a framework that supports the stage");
  }
  space.parts_ = std::move(built.parts);
  space.given_ = std::move(built.given);
  space.notes_ = std::move(built.notes);
  space.held_ = std::move(built.held);
  return space;
}

const PlanPart& PlanSpace::PartOf(std::int64_t plan) const {
  STEPCAST_CHECK(plan >= 0 && plan < size_, "the plan must be in the search space");
  const auto next =
      std::upper_bound(parts_.begin(), parts_.end(), plan,
                       [](std::int64_t p, const PlanPart& part) { return p < part.first; });
  return *std::prev(next);
}

SettingList PlanSpace::Settings(std::int64_t plan) const { return SettingsOf(plan, false); }

SettingList PlanSpace::FamilySettings(std::int64_t plan) const { return SettingsOf(plan, true); }

SettingList PlanSpace::SettingsOf(std::int64_t plan, bool of_family) const {
  const PlanPart& part = PartOf(plan);
  if (part.own) return {};
  const PlanChoices& choices = *part.choices;
  SettingList settings = choices.first;
  AppendLayout(part, settings);
  settings.insert(settings.end(), choices.then.begin(), choices.then.end());
  const std::size_t before = settings.size();
  settings.resize(before + choices.axes.size());
  std::int64_t rest = plan - part.first;
  for (std::size_t i = choices.axes.size(); i-- > 0;) {
    const SweepAxis& axis = choices.axes[i];
    const auto value = static_cast<std::size_t>(rest % CountOf(axis));
    rest /= CountOf(axis);
    const bool default_value = of_family && i >= choices.outer;
    settings[before + i] = {axis.key, default_value ? kDefaultValue : axis.values[value]};
  }
  for (const Belonging& belonging : choices.belongings) {
    const auto varied = std::find_if(settings.begin(), settings.end(), [&](const auto& setting) {
      return setting.first == belonging.of;
    });
    const bool goes = std::find(belonging.without.begin(), belonging.without.end(),
                                varied->second) != belonging.without.end();
    if (goes) settings.emplace_back(belonging.key, kDefaultValue);
  }
  std::erase_if(settings, [&](const auto& setting) {
    return setting.second == kDefaultValue &&
           std::find(choices.absent.begin(), choices.absent.end(), setting.first) !=
               choices.absent.end();
  });
  const auto data = std::find_if(settings.rbegin(), settings.rend(),
                                 [](const auto& setting) { return setting.first == kDataKey; });
  if (data != settings.rend() && data->second != kDefaultValue &&
      std::atoll(data->second.c_str()) < choices.data) {
    settings.emplace_back(kDevicesKey, kOfPlan);
  }
  return settings;
}

void PlanSpace::AppendLayout(const PlanPart& part, SettingList& settings) const {
  const auto has = [&](const LayoutKey& row) {
    return std::find(given_.keys.begin(), given_.keys.end(), &row) != given_.keys.end();
  };
  for (const LayoutKey& row : LayoutKeys()) {
    if (!IsSaid(row, part, given_.mixture)) {
      if (has(row)) settings.emplace_back(row.key, kDefaultValue);
    } else if (has(row) || !IsDefault(row, part.layout)) {
      settings.emplace_back(row.key, row.Text(part.layout));
    }
  }
  if (given_.stage_layers && !HaveSameStages(part.layout, given_.own)) {
    settings.emplace_back(kStageLayersKey, kDefaultValue);
  }
  if (given_.data) settings.emplace_back(kDataKey, kDefaultValue);
}

bool PlanSpace::HasBefore(std::int64_t plan, const std::string& key,
                          const std::string& value) const {
  const PlanPart& part = PartOf(plan);
  std::int64_t stride = part.plans;
  for (const SweepAxis& axis : part.choices->axes) {
    stride /= CountOf(axis);
    if (axis.key != key) continue;
    const std::int64_t at = (plan - part.first) / stride % CountOf(axis);
    const auto end = axis.values.begin() + at;
    return std::find(axis.values.begin(), end, value) != end;
  }
  return false;
}

std::string PlanSpace::KindOf(std::int64_t plan) const {
  std::string kind = fmt::format("{}", &PartOf(plan) - parts_.data());
  for (const auto& [key, value] : Settings(plan)) {
    if (!key.starts_with(kFrameworkSection)) kind += ' ' + value;
  }
  return kind;
}

std::vector<PlanSpace::Neighbour> PlanSpace::NeighboursOf(std::int64_t plan) const {
  std::vector<Neighbour> neighbours;
  AppendOtherLayouts(plan, neighbours);
  const PlanPart& part = PartOf(plan);
  std::int64_t stride = part.plans;
  for (const SweepAxis& axis : part.choices->axes) {
    stride /= CountOf(axis);
    const std::int64_t at = (plan - part.first) / stride % CountOf(axis);
    for (const std::int64_t other : {at - 1, at + 1}) {
      if (other < 0 || other >= CountOf(axis)) continue;
      neighbours.push_back(
          {axis.key, axis.values[static_cast<std::size_t>(other)], plan + (other - at) * stride});
    }
  }
  return neighbours;
}

void PlanSpace::AppendOtherLayouts(std::int64_t plan, std::vector<Neighbour>& neighbours) const {
  const PlanPart& own = PartOf(plan);
  const auto settings = Settings(plan);
  const Layout normal = Normal(own.layout);
  for (const LayoutKey& row : LayoutKeys()) {
    // The nearest parts on both sides whose layouts differ only in this setting.
    const PlanPart *before = nullptr, *behind = nullptr;
    for (const PlanPart& part : parts_) {
      if (&part == &own || part.size != own.size || part.framework != own.framework ||
          part.stage != own.stage || row.Text(part.layout) == row.Text(own.layout)) {
        continue;
      }
      Layout same = Normal(part.layout);
      row.Take(same, row.Text(normal));
      if (same != normal) continue;
      if (&part < &own) before = &part;
      if (&part > &own && behind == nullptr) behind = &part;
    }
    for (const PlanPart* part : {before, behind}) {
      if (part == nullptr) continue;
      if (const auto number = NumberIn(*part, settings)) {
        neighbours.push_back({row.key, row.Text(part->layout), *number});
      }
    }
  }
}

std::optional<std::int64_t> PlanSpace::NumberIn(const PlanPart& part, const SettingList& settings) {
  std::int64_t number = 0;
  for (const SweepAxis& axis : part.choices->axes) {
    const auto setting = std::find_if(settings.begin(), settings.end(),
                                      [&](const auto& pair) { return pair.first == axis.key; });
    // Settings omits a setting at its default. For a setting that the other part lacks, its first
    // value is taken.
    const bool said = setting != settings.end();
    auto found =
        std::find(axis.values.begin(), axis.values.end(), said ? setting->second : kDefaultValue);
    if (found == axis.values.end()) {
      if (said) return std::nullopt;
      found = axis.values.begin();
    }
    number = number * CountOf(axis) + (found - axis.values.begin());
  }
  return part.first + number;
}

}  // namespace stepcast::planner
