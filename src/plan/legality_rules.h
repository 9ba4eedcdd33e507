#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/plan/framework.h"
#include "src/plan/legality.h"

// Rules by what they are about, each in a file of its own. For the .cc files of legality alone.
namespace stepcast::plan {

// What all of them have.
class Rules {
 public:
  Rules(const Request& request, const Facts& facts, std::vector<Violation>& violations)
      : request_(request), facts_(facts), violations_(violations) {}

 protected:
  void Add(std::string key, std::string code, std::string message, std::string hint) {
    violations_.push_back({std::move(key), std::move(code), std::move(message), std::move(hint)});
  }
  // The frameworks with a trait, for hints: "megatron, fsdp2 or reference".
  static std::string FrameworksWith(bool FrameworkTraits::*trait) {
    std::vector<const char*> names;
    for (const FrameworkTraits& traits : kFrameworkTraits) {
      if (traits.*trait) names.push_back(traits.name);
    }
    const std::size_t first = names.size() - 1;
    return fmt::format("{} or {}", fmt::join(names.begin(), names.begin() + first, ", "),
                       names.back());
  }
  bool Is(Framework framework) const { return request_.framework == framework; }

  const Request& request_;
  const Facts& facts_;
  std::vector<Violation>& violations_;
};

void CheckAxes(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckContext(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckExperts(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckFramework(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckLora(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckLoss(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckOffload(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckOptimizerStates(const Request& request, const Facts& facts,
                          std::vector<Violation>& violations);
void CheckSharding(const Request& request, const Facts& facts, std::vector<Violation>& violations);

}  // namespace stepcast::plan
