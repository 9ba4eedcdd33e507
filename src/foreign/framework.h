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
// looks up each setting of a file in these tables.

enum class Effect : std::uint8_t {
  kSets,         // a scenario key gets the value
  kNone,         // no effect on step time or memory
  kNotModelled,  // not part of the forecast, unless the value is neutral
  kRule,         // the framework's rules read it together with other options
};

struct Option {
  // The dotted name, like Setting::name. A star at the end matches any continuation, as in
  // "metrics.*". A row of a table may have several names, separated by spaces. Names of rules may
  // include their defaults, as in "bf16 clip-grad=1.0".
  std::string_view name;
  Effect effect = Effect::kSets;
  // For kSets: the dotted key of the scenario.
  std::string_view key{};
  // For kSets: pairs of the program's word and the scenario's word, such as "float32=fp32
  // bfloat16=bf16". If the word after the sign is empty, the key is omitted. "bool" means true or
  // false in any spelling. If `words` is empty, the value is copied.
  std::string_view words{};
  // For kSets and kRule: the default of the option, in the spelling of the program's files. Empty
  // if the program has no default, or if the scenario has the same default.
  std::string_view standard{};
  // For kNotModelled: the values at which the option has no effect, separated by spaces. An option
  // without a value never has an effect.
  std::string_view neutral{};
  // For kNotModelled: what the forecast does instead, and how this affects its figures.
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

// Returns the last row of a table, which names the options without effect. If a name also matches
// an earlier row, the earlier row applies.
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
  // Reads options that depend on one another. Called after all rows of all files have been read.
  // May be null.
  void (*rules)(Reading& reading);
  // Whether the file adds to the files of another program. The values of these files are read
  // first.
  bool adds_to_others = false;
};

// Returns the rows of the framework's table, with one name each.
std::vector<Option> OptionsOf(const Framework& framework);

// Information from other files on which the meaning of a file depends. Any member may be empty.
struct Surroundings {
  std::function<std::optional<std::int64_t>()> devices{};        // the GPUs of the draft's cluster
  std::function<std::optional<std::int64_t>()> gpus_per_node{};  // of the cluster
  std::function<std::optional<std::int64_t>()> hidden_size{};    // of the draft's model
  std::function<std::optional<std::int64_t>()> layers{};         // of the model
  std::function<std::optional<std::int64_t>()> experts{};        // of the model; 0: no experts
  // Returns whether one of the files belongs to the framework with this name.
  std::function<bool(std::string_view)> has_file_of{};
  // Returns the text of an option in accelerate's file. Empty if there is none.
  std::function<std::string(std::string_view)> accelerate_option{};
};

// Reads one file, as a configuration of one framework, into a draft. The constructor's arguments
// must outlive this object.
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

  // The functions from here on are called by rules.

  // Returns the option's value or, if the file does not state it, the default in the option's row.
  // None for null values.
  std::optional<Value> Get(std::string_view name) const;
  std::optional<std::int64_t> Integer(std::string_view name) const;
  bool IsOn(std::string_view name) const;
  std::string Text(std::string_view name) const;  // empty if there is none
  // Returns the option as the file states it. Null if the option is missing or has no value.
  const Setting* Stated(std::string_view name) const;

  // Sets the key because of the option. The origin is the option's position. If the file does not
  // state the option, the origin is the framework's default.
  void Set(std::string_view key, ScenarioValue value, std::string_view because_of,
           std::string remark = {});
  // Sets the key to the integer value of the option. If the option has no such value, nothing is
  // set.
  void SetInteger(std::string_view key, std::string_view option);
  // Records that the forecast ignores the option, with this consequence. Does nothing if the file
  // does not state the option.
  void Omit(std::string_view name, std::string consequence);
  // Reports that the value of the option is invalid.
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
  std::string accelerate_option(std::string_view name) const {
    return surroundings_.accelerate_option ? surroundings_.accelerate_option(name) : std::string();
  }
  // Returns whether DeepSpeed trains, by its own file or by accelerate's.
  bool under_deepspeed() const {
    return has_file_of("DeepSpeed") || accelerate_option("distributed_type") == "DEEPSPEED";
  }
  // Returns the origin of a default, such as "torchtitan's default at 238fa9953e4a".
  std::string DefaultOrigin() const;

 private:
  const Option* RowOf(std::string_view name) const;
  void ReadRow(const Option& option, const Setting& setting);
  // Asks for the unknown variable on which the option's value depends.
  void AskFor(const Setting& setting) const;

  const Framework& framework_;
  const std::vector<Option> options_;
  const Document& document_;
  Draft& draft_;
  const Surroundings& surroundings_;
};

// Returns a file's value in the scenario's spelling: true and false for "yes" and "Off", 1000000000
// for "1e9". Other text is unchanged.
std::string ScenarioWords(const Value& value);

// Returns the words of a list, which are separated by spaces.
std::vector<std::string_view> SplitWords(std::string_view list);
bool HasWord(std::string_view list, std::string_view word);

// Returns the scenario's word for `foreign` in a list such as "float32=fp32 bfloat16=bf16". None if
// the list does not contain it.
std::optional<std::string_view> WordFor(std::string_view words, std::string_view foreign);

}  // namespace stepcast::foreign
