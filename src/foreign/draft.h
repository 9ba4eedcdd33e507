#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"

namespace stepcast::foreign {

// A scenario that is created from files of other programs. Each value has a dotted key and an
// origin.

// The value of a scenario key: text, a number, true or false. The writer adds quotes if YAML
// requires them. If `is_yaml` is true, the value is one line of YAML (a list or mapping), which is
// written unchanged.
struct ScenarioValue {
  ScenarioValue(const char* value) : text(value) {}             // NOLINT: most values are text
  ScenarioValue(std::string value) : text(std::move(value)) {}  // NOLINT
  ScenarioValue(std::int64_t value) : text(std::to_string(value)) {}                // NOLINT
  ScenarioValue(std::same_as<bool> auto value) : text(value ? "true" : "false") {}  // NOLINT
  static ScenarioValue Yaml(std::string value) {
    ScenarioValue yaml(std::move(value));
    yaml.is_yaml = true;
    return yaml;
  }
  friend bool operator==(const ScenarioValue&, const ScenarioValue&) = default;

  std::string text;
  bool is_yaml = false;
};

struct Entry {
  std::string key;  // "training.sequence_length"
  ScenarioValue value;
  std::string origin;  // shown in a comment: "train.toml:14", "torchtitan's default"
  Location location;   // where the user can change the value; may be empty
};

// A setting that the scenario cannot express.
struct Omission {
  Location location;
  std::string option;       // on one line: "float8.enable_fsdp_float8_all_gather = true"
  std::string consequence;  // the forecast's assumption; empty: the option is unknown
};

class Draft {
 public:
  // Sets a value from a file. If two files set different values, reports a mistake.
  void State(std::string_view key, ScenarioValue value, const Location& location,
             std::string remark = {});
  // Sets a default value, unless a file or an earlier call has set the key.
  void Assume(std::string_view key, ScenarioValue value, std::string origin);
  // Sets a value from the command line, which has priority over all other values.
  void Override(std::string_view key, ScenarioValue value, const std::string& option);
  // Removes the key, so that later files and defaults cannot set it.
  void TakeOut(std::string_view key);

  // Adds an omission. Text from the files is escaped, so that each sentence is on one line.
  void Omit(Location location, std::string option, std::string consequence);
  void Report(Diagnostic mistake);
  // Reports, once per variable, that `subject` depends on an unknown variable. `words` are the
  // values to which the file compares the variable.
  void AskForVariable(const std::string& name, const std::string& subject, const Location& location,
                      const std::vector<std::string>& words);
  // Records which code, such as "a loop", sets `variable`. The reader does not interpret this code.
  void SayWhatSets(const std::string& variable, const std::string& what) {
    set_by_[variable] = what;
  }
  // Returns whether AskForVariable has reported any variable.
  bool asked_for_variables() const { return !asked_.empty(); }

  // Records the name of a model whose dimensions are not in the files, such as "torchtitan's qwen3
  // 8B".
  void NameModel(std::string model) { named_model_ = std::move(model); }
  const std::string& named_model() const { return named_model_; }
  // Adds a remark about the input, which is not a mistake.
  void Note(std::string_view sentence);

  const Entry* Find(std::string_view key) const;
  // Returns whether the key, or a key below it, has a value.
  bool Has(std::string_view key) const;
  // Returns whether Has(key) is true, or whether the command line sets a mapping with this key.
  bool Covers(std::string_view key) const;
  // Returns the value as an integer, or none if the key has no integer value.
  std::optional<std::int64_t> Integer(std::string_view key) const;
  // Returns a number of ranks, stages or micro-batches for computations: the value of the key,
  // clamped to 1 to 10,000, or 1 without a value. (The scenario reader later rejects values out of
  // range.)
  std::int64_t Degree(std::string_view key) const {
    return std::clamp<std::int64_t>(Integer(key).value_or(1), 1, 10'000);
  }
  void Remove(std::string_view key);

  const std::vector<Entry>& entries() const { return entries_; }
  const std::vector<Omission>& omissions() const { return omissions_; }
  const std::vector<std::string>& notes() const { return notes_; }
  const Diagnostics& mistakes() const { return mistakes_; }

 private:
  bool Overridden(std::string_view key) const;

  std::vector<Entry> entries_;
  std::vector<std::string> overridden_;  // keys, including removed keys
  std::vector<Omission> omissions_;
  std::vector<std::string> notes_;
  std::string named_model_;
  std::vector<std::string> asked_;  // variables reported by AskForVariable
  std::map<std::string, std::string> set_by_;
  Diagnostics mistakes_;
};

// A scenario as text. Each value has a comment with its origin. Omitted settings are at the end.
struct ScenarioText {
  std::string text;
  // For each line of the text, the location at which the user can change the line's value. If there
  // is no location, `file` is empty.
  std::vector<Location> origins;
};

ScenarioText WriteScenario(const Draft& draft, const std::string& title);

// Returns the omitted settings as text, one paragraph per kind. Each line starts with `prefix`.
// Empty if nothing was omitted.
std::string OmissionText(const Draft& draft, const std::string& prefix);

// Returns the mistakes of a scenario that was read from `text` under the name `file`, with the
// locations replaced by the origins of the values.
Diagnostics AtOrigins(Diagnostics mistakes, const std::string& file, const ScenarioText& text);

}  // namespace stepcast::foreign
