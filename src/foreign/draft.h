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

// A scenario that is built from files of other programs. Each value has a dotted key and an origin.

// The value of a scenario key: text, a number, true or false. The writer adds quotes if YAML needs
// them. If `is_yaml` is true, the value is one line of YAML (a list or mapping), which the writer
// copies.
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
  std::string origin;  // shown in a comment: "train.toml:14", "torchtitan's default at
                       // 238fa9953e4a"
  Location location;   // where the user can change the value; without file: in no file
};

// A setting that the scenario cannot express.
struct Omission {
  Location location;
  std::string option;       // on one line: "float8.enable_fsdp_float8_all_gather = true"
  std::string consequence;  // what the forecast assumes instead; empty: the option is unknown
};

class Draft {
 public:
  // Sets a value from a file. Different values in two files are a mistake.
  void State(std::string_view key, ScenarioValue value, const Location& location,
             std::string remark = {});
  // Sets a value that is used only if no file and no earlier call sets the key.
  void Assume(std::string_view key, ScenarioValue value, std::string origin);
  // Sets a value from the command line, which replaces all other values.
  void Override(std::string_view key, ScenarioValue value, const std::string& option);
  // Removes the key, so that later files and defaults cannot set it.
  void TakeOut(std::string_view key);

  // Adds an omission. Escapes text from the files, so that each sentence is on one line.
  void Omit(Location location, std::string option, std::string consequence);
  void Report(Diagnostic mistake);
  // Reports, once per variable, that `subject` depends on an unknown variable. `words` are the
  // values with which the file compares the variable.
  void AskForVariable(const std::string& name, const std::string& subject, const Location& location,
                      const std::vector<std::string>& words);
  // Records that `variable` is set by code that the reader does not interpret, such as "a loop".
  void SayWhatSets(const std::string& variable, const std::string& what) {
    set_by_[variable] = what;
  }
  // Returns whether AskForVariable has reported any variable.
  bool asked_for_variables() const { return !asked_.empty(); }

  // Records a model that is mentioned in the files without its dimensions, such as "torchtitan's
  // qwen3 8B".
  void NameModel(std::string model) { named_model_ = std::move(model); }
  const std::string& named_model() const { return named_model_; }
  // Adds a remark about the input. A remark is not a mistake.
  void Note(std::string_view sentence);

  const Entry* Find(std::string_view key) const;
  // Returns whether the key, or a key below it, has a value.
  bool Has(std::string_view key) const;
  // Returns whether Has(key) is true, or whether the command line sets a mapping that contains the
  // key.
  bool Covers(std::string_view key) const;
  // Returns the value as an integer, or none if the key has no integer value.
  std::optional<std::int64_t> Integer(std::string_view key) const;
  // Returns a number of ranks, stages or micro-batches for computations, clamped to 1 to 10,000.
  // (The scenario reader rejects other values later.) Returns 1 if the key has no value.
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
  // For each line of the text, the location where the user can change the value. Without a
  // location, `file` is empty.
  std::vector<Location> origins;
};

ScenarioText WriteScenario(const Draft& draft, const std::string& title);

// Returns the omitted settings as text, one paragraph per kind, with `prefix` before each line.
// Empty if nothing was omitted.
std::string OmissionText(const Draft& draft, const std::string& prefix);

// Returns the mistakes of a scenario, moved to the origins of the values. The scenario was read
// from `text` with the name `file`.
Diagnostics AtOrigins(Diagnostics mistakes, const std::string& file, const ScenarioText& text);

}  // namespace stepcast::foreign
