#pragma once

#include <string_view>

#include "src/scenario/document.h"

// A required key of a section: zero after a Diagnostic, and then what is read is not used.
namespace stepcast::scenario {

inline double RequiredDecimal(MappingReader& section, std::string_view key) {
  return section.ReadDecimal(key, Need::kRequired, {}).value_or(0);
}
inline Time RequiredTime(MappingReader& section, std::string_view key) {
  return section.ReadTime(key, Need::kRequired, Zero::kAllowed).value_or(Time());
}
inline Bytes RequiredBytes(MappingReader& section, std::string_view key) {
  return section.ReadBytes(key, Need::kRequired, Zero::kAllowed).value_or(Bytes());
}

}  // namespace stepcast::scenario
