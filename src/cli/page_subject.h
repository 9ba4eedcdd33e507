#pragma once

#include <string>
#include <utility>
#include <vector>

namespace stepcast::cli {

// What a page says was asked: the scenario and what was set in it.
std::vector<std::pair<std::string, std::string>> AskedOf(const std::string& scenario,
                                                         const std::vector<std::string>& set);

}  // namespace stepcast::cli
