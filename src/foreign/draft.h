#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"

namespace stepcast::foreign {

// A scenario while it is put together from other programs' files: values by dotted key, each with
// its origin.

// A value that a key of the scenario is set to. It is text, which the writer puts in quotes where
// YAML needs them, or it is YAML on one line (a list, a mapping), which the writer leaves as it is.
struct ScenarioValue {
  ScenarioValue(const char* value) : text(value) {}             // NOLINT: most values are text
  ScenarioValue(std::string value) : text(std::move(value)) {}  // NOLINT
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
  std::string origin;  // for a comment: "train.toml:14", "torchtitan's default at 238fa9953e4a"
  Location location;   // where the user can change it; no file: the value was not stated anywhere
};

// A setting that the scenario does not carry.
struct Omission {
  Location location;
  std::string option;       // on one line: "float8.enable_fsdp_float8_all_gather = true"
  std::string consequence;  // what the forecast does instead; empty: the option is not known
};

class Draft {
 public:
  // A value that a file states. Two files that state different values are a mistake.
  void State(std::string_view key, ScenarioValue value, const Location& location,
             std::string remark = {});
  // A value that holds unless a file states one, or an earlier call did.
  void Assume(std::string_view key, ScenarioValue value, std::string origin);
  // A value of the command line, which takes the place of any other.
  void Override(std::string_view key, ScenarioValue value, const std::string& option);
  // The key is taken out, and with it what later files and defaults say.
  void TakeOut(std::string_view key);

  // The files' own words in these sentences are escaped: each sentence stays on one line.
  void Omit(Location location, std::string option, std::string consequence);
  void Report(Diagnostic mistake);
  // What `subject` says depends on a variable of which nothing is known; `words`: what the file
  // compares it with. A mistake; once for each variable.
  void AskForVariable(const std::string& name, const std::string& subject, const Location& location,
                      const std::vector<std::string>& words);
  // Notes that a part of a script which the reader does not follow ("a loop") sets the variable.
  void SayWhatSets(const std::string& variable, const std::string& what) {
    set_by_[variable] = what;
  }
  // Whether there was one.
  bool asked_for_variables() const { return !asked_.empty(); }

  // Which model the files name without its dimensions: "torchtitan's qwen3 8B".
  void NameModel(std::string model) { named_model_ = std::move(model); }
  const std::string& named_model() const { return named_model_; }
  // A remark on what was read that is no mistake.
  void Note(std::string_view sentence);

  const Entry* Find(std::string_view key) const;
  // Whether there is a value of the key or of keys below it.
  bool Has(std::string_view key) const;
  // The same, or a mapping above it that the command line states as a whole.
  bool Covers(std::string_view key) const;
  // The value as a whole number; nothing where there is none or it is no number.
  std::optional<std::int64_t> Integer(std::string_view key) const;
  // A number of ranks, stages or micro-batches to count with, from 1 to ten thousand. Others, which
  // the reader of scenarios refuses, count as the nearest of these; 1 where the key has no value.
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
  std::vector<std::string> overridden_;  // keys, also those that were taken out
  std::vector<Omission> omissions_;
  std::vector<std::string> notes_;
  std::string named_model_;
  std::vector<std::string> asked_;  // variables
  std::map<std::string, std::string> set_by_;
  Diagnostics mistakes_;
};

// A scenario as text, each value with a comment that names its origin, and behind it the settings
// that it does not carry.
struct ScenarioText {
  std::string text;
  // For each line of the text, from the first: where the user can change what stands there; no
  // file: nowhere.
  std::vector<Location> origins;
};

ScenarioText WriteScenario(const Draft& draft, const std::string& title);

// The settings that are left out, a paragraph a kind, each line behind `prefix`. Empty: there are
// none.
std::string OmissionText(const Draft& draft, const std::string& prefix);

// The mistakes of a scenario that was written as `text` under the name `file`, at the places that
// its values come from.
Diagnostics AtOrigins(Diagnostics mistakes, const std::string& file, const ScenarioText& text);

}  // namespace stepcast::foreign
