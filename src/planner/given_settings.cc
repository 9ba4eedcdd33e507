#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "src/plan/deepspeed.h"
#include "src/plan/settings.h"
#include "src/planner/search_table.h"

namespace stepcast::planner {
namespace {

using scenario::Scenario;

constexpr std::string_view kTrainingSection = "training.";

// The scenario's training with another word for a setting; unchanged if the setting has no words.
plan::Training TrainingWith(const Scenario& scenario, const plan::TrainingSetting& setting,
                            std::string_view value) {
  plan::Training training = scenario.plan.training;
  std::visit(
      [&](const auto& type) {
        if constexpr (requires { type.words; }) {
          const auto word = std::find(type.words.begin(), type.words.end(), value);
          if (word == type.words.end()) return;
          plan::TrainingRequest request;
          type.give(request, static_cast<std::size_t>(word - type.words.begin()));
          type.apply(request, training);
        }
      },
      setting.type);
  return training;
}

bool IsAxis(const std::vector<SweepAxis>& axes, std::string_view key) {
  return std::any_of(axes.begin(), axes.end(),
                     [&](const SweepAxis& axis) { return axis.key == key; });
}

}  // namespace

std::vector<std::string> GivenSettings(const Scenario& scenario, const WrittenValueOf& value_of,
                                       bool idle) {
  std::vector<std::string> given;
  if (!value_of) return given;
  const auto add = [&](std::string key) {
    if (value_of(key)) given.push_back(std::move(key));
  };
  const auto add_rows = [&](std::string_view section, const auto& rows) {
    for (const auto& row : rows) {
      const bool has_effect = idle || !row.of_architectures || !scenario.model->is_layer_list();
      if (!row.required && !row.of_task && has_effect) {
        add(fmt::format("{}.{}", section, row.key));
      }
    }
  };
  add_rows("parallelism", plan::ParallelismSettings());
  add_rows("experts", plan::MixtureSettings());
  add_rows("training", plan::TrainingSettings());
  add_rows("data_parallel", plan::DataParallelSettings());
  // Report each setting of the mapping by itself.
  std::erase(given, "data_parallel.deepspeed");
  const auto add_deepspeed = [&](const auto& settings) {
    for (const auto& setting : settings) {
      add(fmt::format("data_parallel.deepspeed.{}", setting.key));
    }
  };
  add_deepspeed(plan::kDeepSpeedSizes);
  add_deepspeed(plan::kDeepSpeedSwitches);
  add_deepspeed(plan::kDeepSpeedOffload);
  return given;
}

std::vector<Belonging> BelongingsTo(const std::vector<SweepAxis>& axes, const Scenario& scenario,
                                    const WrittenValueOf& value_of) {
  std::vector<Belonging> belongings;
  if (!value_of) return belongings;
  for (const SweepAxis& axis : axes) {
    if (!axis.key.starts_with(kTrainingSection)) continue;
    const plan::TrainingSetting* varied =
        plan::FindSetting(plan::TrainingSettings(), axis.key.substr(kTrainingSection.size()));
    if (varied == nullptr) continue;
    for (const plan::TrainingSetting& row : plan::TrainingSettings()) {
      std::string key = fmt::format("{}{}", kTrainingSection, row.key);
      if (row.shown == nullptr || IsAxis(axes, key) || !row.shown(scenario.plan.training) ||
          !value_of(key)) {
        continue;
      }
      Belonging belonging{.key = std::move(key), .of = axis.key, .without = {}};
      for (const std::string& value : axis.values) {
        if (!row.shown(TrainingWith(scenario, *varied, value))) belonging.without.push_back(value);
      }
      if (!belonging.without.empty()) belongings.push_back(std::move(belonging));
    }
  }
  return belongings;
}

}  // namespace stepcast::planner
