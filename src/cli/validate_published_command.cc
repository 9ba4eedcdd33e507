#include "src/cli/validate_published_command.h"

#include "src/cli/document_section.h"
#include "src/cli/output_text.h"
#include "src/report/published_accuracy.h"
#include "src/validate/published.h"

namespace stepcast::cli {

Outcome ValidatePublished(const ValidatePublishedOptions& options) {
  const auto accuracy = validate::ComparePublished(options.source);
  if (!accuracy) return WrongInput(accuracy.error());
  if (!options.update.empty()) {
    if (auto failed = UpdateSection(options.update, "published steps",
                                    report::PublishedAccuracyMarkdown(*accuracy))) {
      return *failed;
    }
  }
  if (!options.html.empty()) {
    Outcome written = PutText(options.html, report::PublishedAccuracyHtml(*accuracy));
    if (written.status != kDone) return written;
  }
  Outcome outcome;
  outcome.status = accuracy->MeetsAims() ? kDone : kAnswerIsNo;
  outcome.output = options.json  ? report::PublishedAccuracyJson(*accuracy)
                   : options.csv ? report::PublishedAccuracyCsv(*accuracy)
                                 : report::PublishedAccuracyText(*accuracy);
  return outcome;
}

}  // namespace stepcast::cli
