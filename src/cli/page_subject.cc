#include "src/cli/page_subject.h"

#include "src/scenario/memory_document.h"

namespace stepcast::cli {

std::vector<std::pair<std::string, std::string>> AskedOf(const std::string& scenario,
                                                         const std::vector<std::string>& set) {
  const auto document = scenario::MemoryDocument::Find(scenario);
  std::vector<std::pair<std::string, std::string>> asked{
      {"scenario", document == nullptr ? scenario : document->title}};
  for (const std::string& text : set) asked.emplace_back("set", text);
  return asked;
}

}  // namespace stepcast::cli
