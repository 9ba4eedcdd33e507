#pragma once

#include <string>
#include <vector>

// Plans at random, for laws that hold for all of them: frameworks, axes and batches, and a few
// settings out of the tables that say what settings there are, so that new ones are tried, too. The
// rules refuse most of them.
namespace stepcast {

struct PlanText {
  std::string scenario;               // YAML
  std::vector<std::string> settings;  // what --set takes
};

// Only in a property of rapidcheck.
PlanText AnyPlan();

// An internal error ends a test where it stands: from now on it says of which plan.
void SayWhenItEnds(const PlanText& plan);

std::string Said(const PlanText& plan);

}  // namespace stepcast
