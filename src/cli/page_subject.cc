#include "src/cli/page_subject.h"

namespace stepcast::cli {

std::vector<std::pair<std::string, std::string>> AskedOf(const std::string& scenario,
                                                         const std::vector<std::string>& set) {
  std::vector<std::pair<std::string, std::string>> asked{{"scenario", scenario}};
  for (const std::string& text : set) asked.emplace_back("set", text);
  return asked;
}

}  // namespace stepcast::cli
