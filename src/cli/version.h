#pragma once

#include <string>

namespace stepcast::cli {

// This release, which tools/release reads here, too.
inline constexpr const char* kVersion = "0.1.0";

// Version, commit and backends, a line each.
std::string VersionText(const std::string& backends);

}  // namespace stepcast::cli
