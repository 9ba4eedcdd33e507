#pragma once

#include <string>
#include <vector>

#include "src/cli/outcome.h"

namespace stepcast::cli {

struct CalibrateRunsOptions {
  std::string runs;      // a table, or published steps
  std::string scenario;  // of runs of a table that name none
  std::vector<std::string> set;
  std::string profile;  // which profile is written anew; empty: the one that all runs have
  std::string output;   // empty: none is written
  bool json = false;
};

// Learns from measured steps what forecasts leave out, says how well it predicts each run from the
// others, and writes a profile that forecasts use.
Outcome CalibrateRuns(const CalibrateRunsOptions& options);

}  // namespace stepcast::cli
