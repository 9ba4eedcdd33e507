#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/planner/answers.h"
#include "src/planner/sweep_grid.h"
#include "src/scenario/input_contents.h"

// Checks --vary against the scenario, for all commands that vary keys.
namespace stepcast::study {

// Returns the override "KEY=VALUE".
std::string Override(std::string_view key, std::string_view value);
// Returns the overrides of all settings.
std::vector<std::string> Overrides(const planner::Settings& settings);

class Varied {
 public:
  // `scenario` is the scenario's file, and `set` has the overrides that do not vary. All arguments
  // must outlive the object.
  Varied(const std::string& scenario, const std::vector<std::string>& set,
         scenario::InputCache& cache)
      : scenario_(scenario), set_(set), cache_(cache) {}

  // Parses "KEY=VALUES". KEY=all means every value of the key.
  Result<planner::SweepAxis> ReadAxis(const std::string& text);
  // Returns the key's value in the scenario with its overrides. Returns no value if the key is not
  // set.
  std::optional<std::string> ValueOf(const std::string& key);
  // Returns mistakes in values that no combination can make legal: misspelled keys and words,
  // invalid numbers or units, numbers out of range, and missing files. Does not check rules between
  // keys. In very long lists, checks only the first and the last values.
  Diagnostics WrongValues(const std::vector<planner::SweepAxis>& axes);

 private:
  const std::string& scenario_;
  const std::vector<std::string>& set_;
  scenario::InputCache& cache_;
};

}  // namespace stepcast::study
