#pragma once

#include <string>

#include "src/base/diagnostic.h"
#include "src/validate/published.h"

// The stored comparison with published steps, which a release contains. `validate published` reads
// this comparison instead of simulating two thousand steps.
namespace stepcast::validate {

// The file in the data root that contains the outcomes of all cases.
inline constexpr const char* kStoredOutcomes = "calibration/published/outcomes.csv";

// Returns a text with one line per outcome, with exact values. The input must have the outcomes of
// all sources.
std::string StoredOutcomesText(const PublishedAccuracy& accuracy);

// Reads the stored outcomes of all cases, or of the cases of one `source`. Errors: the errors of
// the files; command.no-source; published.not-stored, if a case of the data root is missing in the
// file.
Result<PublishedAccuracy> ReadStoredOutcomes(const std::string& source);

}  // namespace stepcast::validate
