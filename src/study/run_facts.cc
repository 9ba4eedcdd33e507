#include "src/study/run_facts.h"

#include "fmt/format.h"
#include "src/scenario/data_root.h"
#include "src/scenario/memory_document.h"

namespace stepcast::study {
namespace {

std::string InDataRoot(const std::string& path, const std::string& root) {
  const bool within = !root.empty() && path.starts_with(root + "/");
  return within ? path.substr(root.size() + 1) : path;
}

}  // namespace

std::vector<planner::StoreFact> RunFacts(const std::string& command, const std::string& code,
                                         const std::string& scenario,
                                         const std::vector<std::string>& set,
                                         const std::map<std::string, std::string>& files) {
  std::vector<planner::StoreFact> facts;
  facts.push_back({"the command", command, false});
  facts.push_back({"the program", code, true});
  facts.push_back({"--set", fmt::format("{}", fmt::join(set, " ")), false});
  if (const auto document = scenario::MemoryDocument::Find(scenario)) {
    facts.push_back({"the scenario", document->text, true});
  }
  const std::string root = scenario::DataRoot();
  for (const auto& [path, digest] : files) {
    facts.push_back({fmt::format("file {}", InDataRoot(path, root)), digest, true});
  }
  return facts;
}

std::string ToText(const std::vector<planner::StoreFact>& facts) {
  std::string text;
  for (const planner::StoreFact& fact : facts) {
    text += fmt::format("{}: {}\n", fact.name, fact.value);
  }
  return text;
}

}  // namespace stepcast::study
