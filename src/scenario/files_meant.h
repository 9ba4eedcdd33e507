#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepcast::scenario {

// The data root's files that may have been meant by one that was not found: for a name without a
// folder ("h100") all of the key's folder that contain it; else the nearest of its folder.
std::vector<std::string> FilesMeant(std::string_view path, std::string_view key);

}  // namespace stepcast::scenario
