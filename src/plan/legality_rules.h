#pragma once

#include <string>
#include <utility>
#include <vector>

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
  bool Is(Framework framework) const { return request_.framework == framework; }

  const Request& request_;
  const Facts& facts_;
  std::vector<Violation>& violations_;
};

// False: an axis is asked for that is not supported.
bool CheckAxes(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckContext(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckFramework(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckLora(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckOffload(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckOptimizerStates(const Request& request, const Facts& facts,
                          std::vector<Violation>& violations);
void CheckSharding(const Request& request, const Facts& facts, std::vector<Violation>& violations);

}  // namespace stepcast::plan
