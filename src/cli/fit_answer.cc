#include "src/cli/fit_answer.h"

#include "fmt/format.h"

namespace stepcast::cli {

void AnswerFit(forecast::MemoryVerdict verdict, double probability, std::optional<double> least,
               Outcome& outcome) {
  if (verdict == forecast::MemoryVerdict::kDoesNotFit) {
    outcome.status = kAnswerIsNo;
  } else if (least && probability < *least) {
    outcome.status = kMayNotFit;
    outcome.messages += fmt::format(
        "stepcast: the plan fits with a probability of {}, less than --fit-probability {}\n",
        probability, *least);
  } else if (!least && verdict == forecast::MemoryVerdict::kMayNotFit) {
    outcome.messages += fmt::format(
        "warning: the plan may not fit: by the error of forecasts of memory it does with a "
        "probability of {}; --fit-probability P makes a probability below P exit status 4\n",
        probability);
  }
}

}  // namespace stepcast::cli
