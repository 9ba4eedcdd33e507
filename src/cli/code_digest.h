#pragma once

namespace stepcast::cli {

// A digest of the code that forecasts come from, the same in all programs of one build.
const char* CodeDigest();

}  // namespace stepcast::cli
