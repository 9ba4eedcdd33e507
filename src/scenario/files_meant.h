#pragma once

#include <string>
#include <string_view>
#include <vector>

// Names that may have been meant by one that is not known.
namespace stepcast::scenario {

// The data root's files that may have been meant by one that was not found: for a name without a
// folder ("h100") the names of all of the key's folder that contain it; else the path of the
// nearest of its folder.
std::vector<std::string> FilesMeant(std::string_view path, std::string_view key);

// Of `known`: all that contain the word ("h100" is part of "h100-sxm"), else the nearest one; none
// where no name is near.
std::vector<std::string> NamesMeant(std::string_view word, const std::vector<std::string>& known);

}  // namespace stepcast::scenario
