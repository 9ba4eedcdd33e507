#pragma once

namespace stepcast::cli {

// Returns a digest of the forecasting code. All programs of one build have the same digest.
const char* CodeDigest();

}  // namespace stepcast::cli
