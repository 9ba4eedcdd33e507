#pragma once

namespace stepcast::cli {

// A digest of the forecasting code, equal in all programs of one build.
const char* CodeDigest();

}  // namespace stepcast::cli
