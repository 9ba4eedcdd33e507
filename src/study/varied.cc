#include "src/study/varied.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "fmt/format.h"
#include "src/scenario/key_values.h"
#include "src/scenario/load.h"
#include "src/scenario/variants.h"

namespace stepcast::study {
namespace {

using planner::SweepAxis;

// The number of values checked from each end of a list, and of values of another list that may
// resolve a mistake.
constexpr std::size_t kLookedAt = 1'000;
constexpr std::size_t kCures = 64;

// Whether the value itself is wrong, whatever else is set.
bool IsOfTheValue(const Diagnostic& fault) {
  return fault.code.starts_with("input.") || fault.code.starts_with("override.") ||
         fault.code.starts_with("file.");
}

// Whether the key is wrong, for every value.
bool IsOfTheKey(const Diagnostic& fault) {
  return fault.code == "input.unknown-key" || fault.code.starts_with("override.");
}

// Adds the value to a fault that says the same about other values of the key, if there is one.
bool Joins(const Diagnostic& fault, const std::string& key, const std::string& value,
           Diagnostics& faults) {
  const std::string quoted = Quoted(value);
  if (!fault.message.ends_with(": " + quoted)) return false;
  const std::string same = fault.message.substr(0, fault.message.size() - quoted.size());
  for (Diagnostic& other : faults) {
    if (other.code != fault.code || other.hint != fault.hint || !other.message.starts_with(same) ||
        !other.location.file.starts_with("--vary " + Override(key, ""))) {
      continue;
    }
    other.message += ", " + quoted;
    other.location.file += "," + value;
    return true;
  }
  return false;
}

class Checker {
 public:
  explicit Checker(scenario::Variants& variants) : variants_(variants) {}

  // The mistakes in the last of these settings, or in the one at `which`.
  Diagnostics FaultsOf(const std::vector<std::string>& settings, std::size_t which) {
    Diagnostics faults;
    const auto scenario = variants_.Load(settings);
    if (scenario) return faults;
    for (const Diagnostic& fault : scenario.error()) {
      if (fault.location.file == "--set " + settings[which] && IsOfTheValue(fault)) {
        faults.push_back(fault);
      }
    }
    return faults;
  }

  // The mistakes of an axis's value; none if some value of another axis resolves them.
  Diagnostics FaultsOf(const std::vector<SweepAxis>& axes, std::size_t at,
                       const std::string& value) {
    const std::string own = Override(axes[at].key, value);
    Diagnostics faults = FaultsOf({own}, 0);
    if (faults.empty()) return faults;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (i == at) continue;
      const std::vector<std::string>& values = axes[i].values;
      for (std::size_t j = 0; j < std::min(values.size(), kCures); ++j) {
        // The last setting of a key takes effect.
        const std::string other = Override(axes[i].key, values[j]);
        const bool before = i < at;
        const auto both = before ? std::vector{other, own} : std::vector{own, other};
        if (FaultsOf(both, before ? 1 : 0).empty() && FaultsOf({other}, 0).empty()) return {};
      }
    }
    return faults;
  }

 private:
  scenario::Variants& variants_;
};

}  // namespace

std::string Override(std::string_view key, std::string_view value) {
  std::string option;
  option.reserve(key.size() + 1 + value.size());
  option.append(key).push_back('=');
  return option.append(value);
}

std::vector<std::string> Overrides(const planner::Settings& settings) {
  std::vector<std::string> overrides;
  for (const auto& [key, value] : settings) overrides.push_back(Override(key, value));
  return overrides;
}

Result<SweepAxis> Varied::ReadAxis(const std::string& text) {
  auto axis = planner::ParseSweepAxis(text);
  if (!axis || !axis->all) return axis;
  auto values = scenario::ValuesOf(axis->key, scenario_, set_, cache_);
  if (!values) {
    Diagnostics faults = std::move(values.error());
    const std::string option = Override(axis->key, "all");
    for (Diagnostic& fault : faults) {
      if (fault.location.file == "--set " + option) fault.location.file = "--vary " + option;
    }
    return tl::unexpected(std::move(faults));
  }
  axis->values = std::move(*values);
  return axis;
}

std::optional<std::string> Varied::ValueOf(const std::string& key) {
  return scenario::WrittenValue(key, scenario_, set_, cache_);
}

Diagnostics Varied::WrongValues(const std::vector<SweepAxis>& axes) {
  scenario::Variants variants(scenario_, set_, cache_);
  Checker checker(variants);
  Diagnostics wrong;
  for (std::size_t at = 0; at < axes.size(); ++at) {
    const SweepAxis& axis = axes[at];
    bool key_is_wrong = false;
    for (std::size_t i = 0; i < axis.values.size() && !key_is_wrong; ++i) {
      if (i == kLookedAt && axis.values.size() > 2 * kLookedAt) i = axis.values.size() - kLookedAt;
      const std::string& value = axis.values[i];
      for (Diagnostic& fault : checker.FaultsOf(axes, at, value)) {
        key_is_wrong |= IsOfTheKey(fault);
        fault.location.file = "--vary " + Override(axis.key, value);
        if (fault.code == "input.wrong-kind" && value.starts_with('[') && value.ends_with(']')) {
          fault.hint = fmt::format("write the values without brackets: --vary '{}'",
                                   Override(axis.key, value.substr(1, value.size() - 2)));
        }
        if (!Joins(fault, axis.key, value, wrong)) wrong.push_back(std::move(fault));
      }
    }
  }
  return wrong;
}

}  // namespace stepcast::study
