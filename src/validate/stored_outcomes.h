#pragma once

#include <string>

#include "src/base/diagnostic.h"
#include "src/validate/published.h"

// The comparison with published steps that a release contains, so that `validate published` answers
// without simulating two thousand steps.
namespace stepcast::validate {

// The file of the data root that holds the outcomes of all cases.
inline constexpr const char* kStoredOutcomes = "calibration/published/outcomes.csv";

// One line per outcome, with exact values. The input must have the outcomes of all sources.
std::string StoredOutcomesText(const PublishedAccuracy& accuracy);

// Reads the stored outcomes of all cases, or of those of one `source`. Errors: those of the files;
// command.no-source; published.not-stored, if the file lacks a case that the data root has.
Result<PublishedAccuracy> ReadStoredOutcomes(const std::string& source);

}  // namespace stepcast::validate
