#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "src/foreign/draft.h"
#include "src/foreign/setting.h"

namespace stepcast::foreign {

// Tables of the options that other programs have: one row an option. Importing a file is one loop
// over its settings, which looks each of them up here.

enum class Effect : std::uint8_t {
  kSets,         // a key of the scenario takes the value
  kNone,         // neither the time of a step nor its memory depends on it: no row has it
  kNotModelled,  // the forecast leaves it out, unless it has the neutral value
  kRule,         // it says something together with others: the framework's own rules read it
};

struct Option {
  // Dotted, as Setting::name. A star at its end stands for whatever follows: "metrics.*".
  std::string_view name;
  Effect effect = Effect::kSets;
  // kSets: the dotted key of a scenario.
  std::string_view key{};
  // kSets: the program's words and the scenario's, "float32=fp32 bfloat16=bf16"; nothing behind the
  // sign leaves the key out. "bool": the value is true or false, however it is written. Empty: the
  // value is taken as it stands.
  std::string_view words{};
  // kSets and kRule: what holds where the option is not given, as files of the program write it.
  // Empty: the program has no default of its own, or the scenario's default is the same.
  std::string_view standard{};
  // kNotModelled: values at which the option does nothing, separated by spaces. An option without a
  // value does nothing in any case.
  std::string_view neutral{};
  // kNotModelled: what the forecast does instead, and what that may change.
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
constexpr Option Rule(std::string_view name, std::string_view standard = {}) {
  return {.name = name, .effect = Effect::kRule, .standard = standard};
}
constexpr Option NotModelled(std::string_view name, std::string_view neutral,
                             std::string_view consequence) {
  return {
      .name = name, .effect = Effect::kNotModelled, .neutral = neutral, .consequence = consequence};
}

class Reading;

// A program whose configurations are read, in one of the forms that it takes them in.
struct Framework {
  std::string_view name;     // "torchtitan"
  std::string_view form;     // "torchtitan's configuration in TOML"
  std::string_view release;  // "238fa9953e4a": the commit or release that the defaults are those of
  std::span<const Option> options;
  // Names, with spaces between, of options on which neither the time of a step nor its memory
  // depends.
  std::string_view without_effect;
  // What several options say together; called after the rows, with all files read.
  void (*rules)(Reading& reading);
  // A file that adds to another program's: the values of that program's files come first.
  bool adds_to_others = false;
};

// What a file's meaning depends on beside the file itself. Any of them may be empty.
struct Surroundings {
  std::function<std::optional<std::int64_t>()> devices{};        // the GPUs of the draft's cluster
  std::function<std::optional<std::int64_t>()> gpus_per_node{};  // of it
  std::function<std::optional<std::int64_t>()> hidden_size{};    // of the draft's model
  std::function<std::optional<std::int64_t>()> layers{};         // of it
  std::function<std::optional<std::int64_t>()> experts{};        // of it; 0: it is dense
  // Whether a file of the framework of this name is among those that are read.
  std::function<bool(std::string_view)> has_file_of{};
};

// One file as one framework's configuration, on the way into a draft.
class Reading {
 public:
  Reading(const Framework& framework, const Document& document, Draft& draft,
          const Surroundings& surroundings)
      : framework_(framework), document_(document), draft_(draft), surroundings_(surroundings) {}

  // What each row says of each setting. Options without a row are omissions.
  void ReadRows();
  // What several options say together.
  void ReadRules() {
    if (framework_.rules != nullptr) framework_.rules(*this);
  }
  // The framework's own defaults of options that the file does not give.
  void ReadDefaults();

  // For rules.

  // The option's value, or the default of its row. Null values are none.
  std::optional<Value> Get(std::string_view name) const;
  std::optional<std::int64_t> Integer(std::string_view name) const;
  bool IsOn(std::string_view name) const;
  std::string Text(std::string_view name) const;  // empty: there is none
  // The option as the file gives it; null: not at all, or without a value.
  const Setting* Stated(std::string_view name) const;

  // The key takes the value because of the option: at the place where it stands, or, where its
  // default says so, as the framework's default.
  void Set(std::string_view key, ScenarioValue value, std::string_view because_of,
           std::string remark = {});
  // The option is left out of the forecast with this consequence; nothing where it is not stated.
  void Omit(std::string_view name, std::string consequence);
  // The value of the option cannot be what it is.
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
  // "torchtitan's default at 238fa9953e4a"
  std::string DefaultOrigin() const;

 private:
  const Option* RowOf(std::string_view name) const;
  void ReadRow(const Option& option, const Setting& setting);
  // The option's value depends on a variable that is not known.
  void AskFor(const Setting& setting) const;

  const Framework& framework_;
  const Document& document_;
  Draft& draft_;
  const Surroundings& surroundings_;
};

// The text of a file's value in a scenario's words: true and false for "yes" and "Off", 1000000000
// for "1e9"; other text as it is.
std::string ScenarioWords(const Value& value);

// The word of a scenario that stands for `foreign` in "float32=fp32 bfloat16=bf16"; nothing: there
// is none.
std::optional<std::string_view> WordFor(std::string_view words, std::string_view foreign);

}  // namespace stepcast::foreign
