#include "src/emit/trainers.h"

#include <algorithm>

#include "fmt/format.h"
#include "src/scenario/resolved_scenario.h"

namespace stepcast::emit {
namespace {

Target LaunchNothing(const scenario::Scenario& scenario, const model::NumericalConstants&) {
  if (plan::TraitsOf(scenario.plan.data_parallel.framework).textbook) {
    return CannotRun("framework reference is a simplified model, which no program implements");
  }
  return CannotRun("stepcast does not write nanotron's configuration");
}

}  // namespace

const Trainer& TrainerOf(const plan::Plan& plan) {
  static constexpr Trainer kDdp{.module = DdpModule, .launch = LaunchPytorch};
  static constexpr Trainer kFsdp1{.module = FullyShardedModule, .launch = LaunchPytorch};
  static constexpr Trainer kFsdp2{
      .takes_torchtitan_toml = true, .module = FullyShardModule, .launch = LaunchPytorch};
  static constexpr Trainer kDeepSpeed{.takes_deepspeed_json = true, .launch = LaunchDeepSpeed};
  static constexpr Trainer kMegatron{.takes_megatron_args = true, .launch = LaunchMegatron};
  static constexpr Trainer kNone{.launch = LaunchNothing};
  switch (plan.data_parallel.framework) {
    case plan::Framework::kDdp:
      return kDdp;
    case plan::Framework::kFsdp1:
      return kFsdp1;
    case plan::Framework::kFsdp2:
      return kFsdp2;
    case plan::Framework::kDeepSpeed:
      return kDeepSpeed;
    case plan::Framework::kMegatron:
      return kMegatron;
    case plan::Framework::kReference:
    case plan::Framework::kNanotron:
      break;
  }
  return kNone;
}

namespace {

using scenario::Resolved;

bool IsScalar(const Resolved& tree) {
  return !std::holds_alternative<Resolved::Mapping>(tree.value) &&
         !std::holds_alternative<Resolved::Sequence>(tree.value);
}

void Append(const Resolved& tree, std::size_t depth, std::string& text) {
  const std::string inner(2 * (depth + 1), ' ');
  const std::string outer(2 * depth, ' ');
  if (const auto* mapping = std::get_if<Resolved::Mapping>(&tree.value)) {
    if (mapping->empty()) {
      text += "{}";
      return;
    }
    text += "{\n";
    for (std::size_t i = 0; i < mapping->size(); ++i) {
      text += inner + scenario::ToJson(Resolved{(*mapping)[i].first}) + ": ";
      Append((*mapping)[i].second, depth + 1, text);
      text += i + 1 < mapping->size() ? ",\n" : "\n";
    }
    text += outer + "}";
    return;
  }
  if (const auto* sequence = std::get_if<Resolved::Sequence>(&tree.value);
      sequence != nullptr && !std::all_of(sequence->begin(), sequence->end(), IsScalar)) {
    text += "[\n";
    for (std::size_t i = 0; i < sequence->size(); ++i) {
      text += inner;
      Append((*sequence)[i], depth + 1, text);
      text += i + 1 < sequence->size() ? ",\n" : "\n";
    }
    text += outer + "]";
    return;
  }
  text += scenario::ToJson(tree);
}

}  // namespace

std::string JsonText(const scenario::Resolved& tree,
                     const std::vector<std::pair<std::string, double>>& decimals) {
  std::string text;
  Append(tree, 0, text);
  const auto* mapping = std::get_if<Resolved::Mapping>(&tree.value);
  if (mapping != nullptr && !mapping->empty() && !decimals.empty()) {
    text.resize(text.size() - 2);  // "\n}"
    for (const auto& [key, value] : decimals) {
      text += fmt::format(",\n  {}: {}", scenario::ToJson(Resolved{key}), value);
    }
    text += "\n}";
  }
  text += '\n';
  return text;
}

}  // namespace stepcast::emit
