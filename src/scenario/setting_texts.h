#pragma once

#include <string>
#include <string_view>

namespace stepcast::scenario {

// The documentation of a setting, in Markdown: its values, and its default.
struct SettingText {
  std::string values, default_value;
};

// Returns the text of the setting `key` of a section, for example "training", from the tables in
// docs/formats. Empty texts: no table has the setting.
SettingText SettingTextOf(std::string_view section, std::string_view key);

// Returns the tables, which are embedded at build time.
std::string_view SettingTables();

}  // namespace stepcast::scenario
