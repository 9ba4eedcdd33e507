#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/foreign/draft.h"
#include "src/foreign/setting.h"

namespace stepcast::foreign {

// Tables of the options of other programs. Options with the same meaning share a row. An import
// loops over the settings of a file and looks up each one in these tables.

enum class Effect : std::uint8_t {
  kSets,         // a scenario key gets the value
  kNone,         // no effect on step time or memory
  kNotModelled,  // left out of the forecast, unless the value is neutral
  kRule,         // the framework's rules read it together with other options
};

struct Option {
  // Dotted, like Setting::name. A star at the end matches any continuation: "metrics.*". Rows of a
  // table may have several names, separated by spaces; those of rules with their defaults,
  // "bf16 clip-grad=1.0".
  std::string_view name;
  Effect effect = Effect::kSets;
  // kSets: the dotted key of the scenario.
  std::string_view key{};
  // kSets: the program's words and the scenario's, "float32=fp32 bfloat16=bf16"; an empty word
  // after the sign omits the key. "bool": true or false in any spelling. Empty: the value is
  // copied.
  std::string_view words{};
  // kSets and kRule: the option's default, as in the program's files. Empty: the program has no
  // default, or the same one as the scenario.
  std::string_view standard{};
  // kNotModelled: values at which the option has no effect, separated by spaces. An option without
  // a value never has an effect.
  std::string_view neutral{};
  // kNotModelled: what the forecast does instead, and the effect on its figures.
  std::string_view consequence{};
};

constexpr Option Sets(std::string_view name, std::string_view key, std::string_view standard = {},
                      std::string_view words = {}) {
  return {.name = name, .key = key, .words = words, .standard = standard};
}
constexpr Option Switch(std::string_view name, std::string_view key,
                        std::string_view standard = {}) {
  return Sets(name, key, standard, "bool");
}
constexpr Option Rule(std::string_view names) { return {.name = names, .effect = Effect::kRule}; }
constexpr Option NotModelled(std::string_view names, std::string_view neutral,
                             std::string_view consequence) {
  return {.name = names,
          .effect = Effect::kNotModelled,
          .neutral = neutral,
          .consequence = consequence};
}

// The last row of a table: rows above it that match a name come first.
constexpr Option NoEffect(std::string_view names) {
  return {.name = names, .effect = Effect::kNone};
}

class Reading;

// A program whose configurations can be imported, in one of their formats.
struct Framework {
  std::string_view name;     // "torchtitan"
  std::string_view form;     // "torchtitan's configuration in TOML"
  std::string_view release;  // "238fa9953e4a": the commit or release of the defaults
  std::span<const Option> options;
  // Reads options that depend on one another; called after all rows of all files.
  void (*rules)(Reading& reading);
  // The file adds to another program's files, whose values are read first.
  bool adds_to_others = false;
};

// The rows of the framework's table, with one name each.
std::vector<Option> OptionsOf(const Framework& framework);

// Context outside the file that its meaning depends on. Any member may be empty.
struct Surroundings {
  std::function<std::optional<std::int64_t>()> devices{};        // the GPUs of the draft's cluster
  std::function<std::optional<std::int64_t>()> gpus_per_node{};  // of the cluster
  std::function<std::optional<std::int64_t>()> hidden_size{};    // of the draft's model
  std::function<std::optional<std::int64_t>()> layers{};         // of the model
  std::function<std::optional<std::int64_t>()> experts{};        // of the model; 0: no experts
  // Whether the files include one of the framework with this name.
  std::function<bool(std::string_view)> has_file_of{};
};

// Reads one file, as a configuration of one framework, into a draft.
class Reading {
 public:
  Reading(const Framework& framework, const Document& document, Draft& draft,
          const Surroundings& surroundings)
      : framework_(framework),
        options_(OptionsOf(framework)),
        document_(document),
        draft_(draft),
        surroundings_(surroundings) {}

  // Applies the row of each setting. Options without a row become omissions.
  void ReadRows();
  // Reads options that depend on one another.
  void ReadRules() {
    if (framework_.rules != nullptr) framework_.rules(*this);
  }
  // Applies the framework's defaults of options that are missing in the file.
  void ReadDefaults();

  // The following are for rules.

  // The option's value, or the default in its row; nothing for null values.
  std::optional<Value> Get(std::string_view name) const;
  std::optional<std::int64_t> Integer(std::string_view name) const;
  bool IsOn(std::string_view name) const;
  std::string Text(std::string_view name) const;  // empty if there is none
  // The option as stated in the file; null if it is missing or has no value.
  const Setting* Stated(std::string_view name) const;

  // Sets the key because of the option. The origin is the option's position or, if it was not
  // stated, the framework's default.
  void Set(std::string_view key, ScenarioValue value, std::string_view because_of,
           std::string remark = {});
  // Sets the key to the option's integer; no effect without a value.
  void SetInteger(std::string_view key, std::string_view option);
  // Records that the forecast leaves the option out, with this consequence; no effect if it is not
  // stated.
  void Omit(std::string_view name, std::string consequence);
  // Reports an invalid value of the option.
  void Wrong(std::string_view name, std::string message, std::string hint);

  Draft& draft() { return draft_; }
  const Document& document() const { return document_; }
  std::optional<std::int64_t> devices() const {
    return surroundings_.devices ? surroundings_.devices() : std::nullopt;
  }
  std::optional<std::int64_t> gpus_per_node() const {
    return surroundings_.gpus_per_node ? surroundings_.gpus_per_node() : std::nullopt;
  }
  std::optional<std::int64_t> hidden_size() const {
    return surroundings_.hidden_size ? surroundings_.hidden_size() : std::nullopt;
  }
  std::optional<std::int64_t> layers() const {
    return surroundings_.layers ? surroundings_.layers() : std::nullopt;
  }
  std::optional<std::int64_t> experts() const {
    return surroundings_.experts ? surroundings_.experts() : std::nullopt;
  }
  bool has_file_of(std::string_view framework) const {
    return surroundings_.has_file_of && surroundings_.has_file_of(framework);
  }
  // "torchtitan's default at 238fa9953e4a".
  std::string DefaultOrigin() const;

 private:
  const Option* RowOf(std::string_view name) const;
  void ReadRow(const Option& option, const Setting& setting);
  // Asks for the unknown variable that the option's value depends on.
  void AskFor(const Setting& setting) const;

  const Framework& framework_;
  const std::vector<Option> options_;
  const Document& document_;
  Draft& draft_;
  const Surroundings& surroundings_;
};

// A file's value in scenario spelling: true and false for "yes" and "Off", 1000000000 for "1e9";
// other text is unchanged.
std::string ScenarioWords(const Value& value);

// The words of a list, which are separated by spaces.
std::vector<std::string_view> SplitWords(std::string_view list);
bool HasWord(std::string_view list, std::string_view word);

// The scenario word for `foreign` in "float32=fp32 bfloat16=bf16"; nothing if there is none.
std::optional<std::string_view> WordFor(std::string_view words, std::string_view foreign);

}  // namespace stepcast::foreign
