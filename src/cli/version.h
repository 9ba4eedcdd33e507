#pragma once

#include <string>

namespace stepcast::cli {

// The version of this release. tools/release also reads it from this file.
inline constexpr const char* kVersion = "0.1.0";

// Returns the version, the commit and the backends, one per line.
std::string VersionText(const std::string& backends);

}  // namespace stepcast::cli
