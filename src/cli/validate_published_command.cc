#include "src/cli/validate_published_command.h"

#include "src/cli/document_section.h"
#include "src/cli/optional_output.h"
#include "src/report/published_accuracy.h"
#include "src/report/text_wrap.h"
#include "src/validate/published.h"

namespace stepcast::cli {

Outcome ValidatePublished(const ValidatePublishedOptions& options) {
  OptionalOutput page;
  if (auto failed = page.Create(options.html)) return *failed;
  DocumentSection section;
  if (auto failed = section.Open(options.update, "published steps")) return *failed;
  const auto accuracy = validate::ComparePublished(options.source);
  if (!accuracy) return WrongInput(accuracy.error());
  if (auto failed = section.Write([&] { return report::PublishedAccuracyMarkdown(*accuracy); })) {
    return *failed;
  }
  if (auto failed = page.Write([&] { return report::PublishedAccuracyHtml(*accuracy); })) {
    return *failed;
  }
  Outcome outcome;
  outcome.status = accuracy->MeetsAims() ? kDone : kAnswerIsNo;
  outcome.output = options.json  ? report::PublishedAccuracyJson(*accuracy)
                   : options.csv ? report::PublishedAccuracyCsv(*accuracy)
                                 : report::Wrapped(report::PublishedAccuracyText(*accuracy));
  return outcome;
}

}  // namespace stepcast::cli
