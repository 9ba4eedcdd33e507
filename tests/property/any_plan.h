#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Random plans for testing invariants. They have models of all families and layer lists, clusters
// that are flat, described or of two kinds of nodes, and random frameworks, axes and batches. Some
// settings come from the tables of settings, so that new ones are tested too. The rules refuse most
// of these plans.
namespace stepcast {

struct PlanText {
  std::string scenario;               // YAML
  std::vector<std::string> settings;  // values of --set
  int axes = 0;                       // number of axes besides data with more than one rank
};

// Call only in a property of rapidcheck.
PlanText AnyPlan();

// The plan for a seed, always the same.
PlanText PlanOf(std::uint64_t seed);

// From now on, an internal error or an alarm (alarm(2)) that ends the test also reports the plan.
void SayWhenItEnds(const PlanText& plan);

std::string Said(const PlanText& plan);

// The number in an environment variable, or `otherwise` if it is not set.
std::uint64_t NumberFrom(const char* variable, std::uint64_t otherwise);

}  // namespace stepcast
