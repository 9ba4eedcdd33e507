#pragma once

#include <string>
#include <vector>

#include "src/cli/outcome.h"

namespace stepcast::cli {

struct CalibrateOptions {
  std::string backend;  // "host" or "cuda"
  bool quick = false;
  std::string time;                      // how long to measure; empty: as calibrate.h says
  std::vector<std::string> only;         // parts; empty: all
  std::vector<std::string> types;        // data types; empty: fp32, bf16
  std::vector<std::string> collectives;  // kinds; empty: as calibrate.h says
  std::string from, to;                  // sizes of collectives; empty: as calibrate.h says
  std::vector<int> groups;               // sizes of groups; empty: all that there are
  std::string gpu;                       // the GPU type; empty: as the backend's device tells
  std::string output;                    // empty: <host>.yaml
  std::string resume;                    // the state file; empty: none
  int ranks = 0;                         // threads, without a launcher; 0: a rank a core
  std::string timeout = "120 s";
  bool json = false;
  std::string command;  // the whole command line, for the provenance
  std::string version;  // of stepcast
};

// Measures on all ranks: those that a launcher started, or threads of this process. Rank 0 writes
// the profile, and has something to say.
Outcome Calibrate(const CalibrateOptions& options);

}  // namespace stepcast::cli
