#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Plans at random, for laws that hold for all of them: models of all families and layer lists,
// clusters flat, described and of two kinds of nodes, frameworks, axes and batches, and a few
// settings out of the tables that say what settings there are, so that new ones are tried, too. The
// rules refuse most of them.
namespace stepcast {

struct PlanText {
  std::string scenario;               // YAML
  std::vector<std::string> settings;  // what --set takes
  int axes = 0;                       // beside data, that have more than one rank
};

// Only in a property of rapidcheck.
PlanText AnyPlan();

// The plan of a seed, always the same.
PlanText PlanOf(std::uint64_t seed);

// An internal error ends a test where it stands, and so does an alarm (alarm(2)): from now on it
// says of which plan.
void SayWhenItEnds(const PlanText& plan);

std::string Said(const PlanText& plan);

// The number in an environment variable; `otherwise` where the variable is not set.
std::uint64_t NumberFrom(const char* variable, std::uint64_t otherwise);

}  // namespace stepcast
