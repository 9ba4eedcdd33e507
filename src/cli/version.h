#pragma once

#include <string>

namespace stepcast::cli {

// This release; tools/release also reads it here.
inline constexpr const char* kVersion = "0.1.0";

// Version, commit and backends, one per line.
std::string VersionText(const std::string& backends);

}  // namespace stepcast::cli
