#include "src/cli/validate_collectives_command.h"

#include "src/cli/document_section.h"
#include "src/report/collective_accuracy.h"
#include "src/report/text_wrap.h"
#include "src/validate/collectives.h"

namespace stepcast::cli {

Outcome ValidateCollectives(const ValidateCollectivesOptions& options) {
  DocumentSection section;
  if (auto failed = section.Open(options.update, "collectives")) return *failed;
  const auto accuracy = validate::CompareCollectives();
  if (!accuracy) return WrongInput(accuracy.error());
  if (auto failed = section.Write([&] { return report::CollectiveAccuracyMarkdown(*accuracy); })) {
    return *failed;
  }
  Outcome outcome;
  outcome.status = accuracy->MeetsTargets() ? kDone : kAnswerIsNo;
  outcome.output = options.json  ? report::CollectiveAccuracyJson(*accuracy)
                   : options.csv ? report::CollectiveAccuracyCsv(*accuracy)
                                 : report::Wrapped(report::CollectiveAccuracyText(*accuracy));
  return outcome;
}

}  // namespace stepcast::cli
