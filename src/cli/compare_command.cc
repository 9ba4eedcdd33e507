#include "src/cli/compare_command.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/cli/stopwatch.h"
#include "src/cli/warnings.h"
#include "src/forecast/forecast.h"
#include "src/report/compare_report.h"
#include "src/scenario/load.h"

namespace stepcast::cli {

Outcome Compare(const CompareOptions& options) {
  const Stopwatch stopwatch;
  scenario::InputCache cache;
  const auto load = [&](const std::string& file, const std::vector<std::string>& own,
                        const char* option) {
    std::vector<std::string> set = options.set;
    set.insert(set.end(), own.begin(), own.end());
    auto scenario = scenario::Load(file, set, cache);
    if (scenario) return scenario;
    // Mistakes in what one of the two has of its own are of that option.
    Diagnostics faults = std::move(scenario.error());
    for (Diagnostic& fault : faults) {
      for (const std::string& text : own) {
        if (fault.location.file == "--set " + text) {
          fault.location.file = fmt::format("{} {}", option, text);
        }
      }
    }
    return Result<scenario::Scenario>(tl::unexpected(std::move(faults)));
  };
  const std::string& second = options.b.empty() ? options.a : options.b;
  const auto a = load(options.a, options.set_a, "--set-a");
  const auto b = load(second, options.set_b, "--set-b");
  // The mistakes of both, but once where they are the same.
  Diagnostics faults;
  if (!a) faults = a.error();
  if (!b) {
    std::copy_if(b.error().begin(), b.error().end(), std::back_inserter(faults),
                 [known = faults](const Diagnostic& fault) {
                   return std::none_of(known.begin(), known.end(), [&](const Diagnostic& other) {
                     return Format(other) == Format(fault);
                   });
                 });
  }
  if (!faults.empty()) return WrongInput(faults);
  const auto of_a = forecast::Simulate(*a);
  if (!of_a) return WrongInput(of_a.error());
  const auto of_b = forecast::Simulate(*b);
  if (!of_b) return WrongInput(of_b.error());

  const report::ComparedPlan first{options.a, &*a, &of_a->forecast};
  const report::ComparedPlan other{second, &*b, &of_b->forecast};
  Outcome outcome;
  outcome.status = of_a->forecast.memory.fits && of_b->forecast.memory.fits ? kDone : kAnswerIsNo;
  outcome.output = options.json ? report::CompareJson(first, other, stopwatch.Seconds())
                                : report::CompareText(first, other);
  outcome.messages = Warnings(*a);
  if (std::string more = Warnings(*b); more != outcome.messages) outcome.messages += more;
  return outcome;
}

}  // namespace stepcast::cli
