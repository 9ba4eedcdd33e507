#include "src/cli/compare_command.h"

#include "src/cli/stopwatch.h"
#include "src/cli/warnings.h"
#include "src/report/compare_report.h"

namespace stepcast::cli {

Outcome Compare(const CompareOptions& options) {
  const Stopwatch stopwatch;
  const auto both = study::Compare(options);
  if (!both) return WrongInput(both.error());

  const report::ComparedPlan a{options.a, &both->a, &both->of_a};
  const report::ComparedPlan b{options.b.empty() ? options.a : options.b, &both->b, &both->of_b};
  Outcome outcome;
  outcome.output =
      options.json ? report::CompareJson(a, b, stopwatch.Seconds()) : report::CompareText(a, b);
  outcome.messages = Warnings(both->a);
  if (std::string more = Warnings(both->b); more != outcome.messages) outcome.messages += more;
  return outcome;
}

}  // namespace stepcast::cli
