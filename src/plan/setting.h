#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "src/model/architecture.h"
#include "src/plan/framework.h"

// A setting of a plan as a row of a table. The row has the setting's syntax and members, its
// frameworks, and the ZeRO stages at which it has an effect. The tables in docs/formats have the
// setting's documentation (scenario/setting_texts.h).
//
// The rows (settings.h) control the reader, the rule that refuses settings of other frameworks, the
// warnings about settings without effect, and the resolved scenario. `Given` is the type of the
// request, with std::optional members; `Kept` is the type of the settings with defaults.
namespace stepcast::plan {

struct Plan;

// A framework that has a setting, and the stages at which the setting has an effect.
struct SettingUse {
  Framework framework = Framework::kReference;
  // The ZeRO stages at which the setting has an effect. If first > last, the setting is accepted
  // without effect.
  int first_stage = 0, last_stage = 3;
  const char* note = "";  // text for documents: "with overlap"

  bool HasEffect(int stage) const { return stage >= first_stage && stage <= last_stage; }
};

// Returns the use of a setting that the framework has at ZeRO stages `first` to `last`.
SettingUse At(Framework framework, int first, int last, const char* note = "");
// Returns the use of a setting that the framework has at every ZeRO stage.
SettingUse Of(Framework framework, const char* note = "");
// Returns the use of another framework's setting that `reference` accepts and ignores.
SettingUse TakenByReference();

// The frameworks that have a setting. Empty: every framework has the setting at every stage.
class SettingUses {
 public:
  SettingUses();
  SettingUses(std::initializer_list<SettingUse> uses);

  bool Has(Framework framework) const;
  bool HasEffect(Framework framework, int stage) const;
  std::span<const SettingUse> said() const { return uses_; }

 private:
  const SettingUse* Find(Framework framework) const;
  std::vector<SettingUse> uses_;
};

// The kinds of settings. A kind determines a value's syntax in the file and the members that store
// it.
template <typename Given, typename Kept>
struct SwitchSetting {
  std::optional<bool> Given::*given;
  bool Kept::*kept;
};
template <typename Given, typename Kept>
struct CountSetting {
  std::optional<std::int64_t> Given::*given;
  std::int64_t Kept::*kept;
  std::int64_t least, most;
  std::int64_t example = 0;  // a typical value, for hints; 0: no example
};
template <typename Given, typename Kept>
struct WordSetting {
  std::vector<std::string_view> words;
  bool (*is_given)(const Given& given);
  // Stores the word with index `word` of `words` in the request. Not set: removes the setting from
  // the request.
  void (*give)(Given& given, std::optional<std::size_t> word);
  void (*apply)(const Given& given, Kept& kept);  // requires is_given
  std::string_view (*name)(const Kept& kept);
};
// A setting with special syntax, for which the reader and the resolved scenario have code.
template <typename Given>
struct OwnSetting {
  bool (*is_given)(const Given& given);
  void (*take_back)(Given& given);
};

template <typename Given, typename Kept>
using SettingType = std::variant<SwitchSetting<Given, Kept>, CountSetting<Given, Kept>,
                                 WordSetting<Given, Kept>, OwnSetting<Given>>;

template <typename Given, typename Kept>
struct Setting {
  const char* key;  // "bucket_size"
  SettingType<Given, Kept> type;
  bool required = false;
  // Whether the setting defines the job rather than its execution. A search does not vary such
  // settings, nor required settings, because plans for different jobs cannot be compared.
  bool of_task = false;
  // This member has no default because gcc 12 fails on a default of this type in a template.
  SettingUses uses;
  // Whether the setting has no effect on layer lists, whose times and activations are input.
  bool of_architectures = false;
  // Returns whether the setting affects an architecture. Null: the setting affects every
  // architecture. `needed` is a text with the properties that an unaffected architecture lacks.
  bool (*had_by)(const model::Architecture& architecture) = nullptr;
  std::string_view needed = "";
  // The degree in `parallelism` that must exceed 1 for this setting to have an effect. Empty: no
  // such degree.
  std::string_view without = "";
  // Returns why the setting has no effect in a complete plan, as text after the key: "has no effect
  // with framework reference". Empty: the setting has an effect. Null: the setting has an effect in
  // every plan of its frameworks.
  std::string_view (*idle)(const Plan& plan) = nullptr;
  // Returns whether the resolved scenario contains the setting. Null: yes, if the setting has an
  // effect.
  bool (*shown)(const Kept& kept) = nullptr;
  // The corresponding setting of other frameworks, in the same section. Empty: no such setting.
  std::string_view elsewhere = "";

  bool IsGiven(const Given& request) const {
    return std::visit(
        [&](const auto& setting) {
          if constexpr (requires { setting.given; }) {
            return (request.*setting.given).has_value();
          } else {
            return setting.is_given(request);
          }
        },
        type);
  }

  // Removes the setting's value from the request.
  void TakeBack(Given& request) const {
    std::visit(
        [&](const auto& setting) {
          if constexpr (requires { setting.given; }) {
            (request.*setting.given).reset();
          } else if constexpr (requires { setting.give; }) {
            setting.give(request, std::nullopt);
          } else {
            setting.take_back(request);
          }
        },
        type);
  }

  // Replaces the default by the value in the request. Only for switches, counts and words.
  void ApplyGiven(const Given& request, Kept& plan) const {
    if (!IsGiven(request)) return;
    std::visit(
        [&](const auto& setting) {
          if constexpr (requires { setting.given; }) {
            plan.*setting.kept = *(request.*setting.given);
          } else if constexpr (requires { setting.apply; }) {
            setting.apply(request, plan);
          }
        },
        type);
  }
};

template <typename Owner, typename Value>
Owner OwnerOf(Value Owner::*member);

// Returns a setting whose values are the words of an enumeration, in the order in which messages
// list them.
template <auto given, auto kept, auto... values>
auto Words() {
  using Given = decltype(OwnerOf(given));
  using Kept = decltype(OwnerOf(kept));
  using Word = std::remove_reference_t<decltype(std::declval<Kept>().*kept)>;
  return WordSetting<Given, Kept>{
      .words = {Name(values)...},
      .is_given = [](const Given& request) { return (request.*given).has_value(); },
      .give =
          [](Given& request, std::optional<std::size_t> word) {
            constexpr Word kWords[] = {values...};
            (request.*given).reset();
            if (word) request.*given = kWords[*word];
          },
      .apply = [](const Given& request, Kept& plan) { plan.*kept = *(request.*given); },
      .name = [](const Kept& plan) { return std::string_view(Name(plan.*kept)); }};
}

template <auto given>
auto OwnNotation() {
  using Given = decltype(OwnerOf(given));
  return OwnSetting<Given>{[](const Given& request) { return (request.*given).has_value(); },
                           [](Given& request) { (request.*given).reset(); }};
}

// Returns the row with this key, or null if no row has it.
template <typename Rows>
auto FindSetting(const Rows& rows, std::string_view key) -> decltype(&rows[0]) {
  for (const auto& setting : rows) {
    if (setting.key == key) return &setting;
  }
  return nullptr;
}

}  // namespace stepcast::plan
