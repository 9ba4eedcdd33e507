#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/planner/sweep_grid.h"
#include "src/scenario/input_contents.h"

// What --vary asks for, held to the scenario: for all commands that vary keys.
namespace stepcast::study {

class Varied {
 public:
  // The scenario and what is set in it beside what varies. All must outlive this.
  Varied(const std::string& scenario, const std::vector<std::string>& set,
         scenario::InputCache& cache)
      : scenario_(scenario), set_(set), cache_(cache) {}

  // "KEY=VALUES"; KEY=all is every value that the key has.
  Result<planner::SweepAxis> ReadAxis(const std::string& text);
  // The value of the key, as the scenario is written and set; nothing: it does not have the key.
  std::optional<std::string> ValueOf(const std::string& key);
  // Values that no combination makes right: misspelled keys and words, what is no number or has no
  // unit, numbers out of range, files that are not there. What rules between keys refuse is none of
  // these. Of very long lists the first and the last values are looked at.
  Diagnostics WrongValues(const std::vector<planner::SweepAxis>& axes);

 private:
  const std::string& scenario_;
  const std::vector<std::string>& set_;
  scenario::InputCache& cache_;
};

}  // namespace stepcast::study
