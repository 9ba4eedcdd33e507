#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/foreign/draft.h"

namespace stepcast::foreign {

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
