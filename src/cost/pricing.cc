#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "src/cost/exact_time.h"
#include "src/cost/program_price.h"

namespace stepcast::cost {

Pricing::Pricing(const program::Program& program, const scenario::Scenario& scenario, bool textbook)
    : program(program), scenario(scenario), reference(textbook) {
  if (scenario.calibration == nullptr) return;
  profile = scenario.calibration->location;
  if (scenario.calibration->links) links = &*scenario.calibration->links;
  if (scenario.gpu && scenario.calibration->kernels) {
    kernels = &scenario.calibration->KernelsOf(scenario.plan.software.torch);
  }
}

void Pricing::Report(std::string code, Location location, std::string message, std::string hint) {
  const bool known =
      std::any_of(diagnostics.begin(), diagnostics.end(), [&](const Diagnostic& diagnostic) {
        return diagnostic.code == code && diagnostic.message == message;
      });
  if (known) return;
  diagnostics.push_back(
      {std::move(code), std::move(location), std::move(message), std::move(hint)});
}

void Pricing::ReportEndless(const std::string& what) {
  Report("cost.too-long", scenario.cluster_location,
         fmt::format("a single operation takes a day or more: {}", what),
         "check the units of its bandwidths and latencies");
}

void Pricing::ReportNoLinkCosts(const std::string& what) {
  Report("cost.no-link-costs", profile,
         fmt::format("the calibration has no 'links' section and no table for: {}", what),
         "add the section, or a table for exactly this collective, ranks and nodes");
}

bool Endless(const Demand& demand) { return demand.alone() >= kLongestTime; }

}  // namespace stepcast::cost
