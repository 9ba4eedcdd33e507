#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/cli/outcome.h"
#include "src/report/trace.h"

namespace stepcast::cli {

// The folder that --trace-dir names, if it does: a trace of each rank, "rank-0.json" and so on, as
// Holistic Trace Analysis reads them. Each file appears when it is complete.
class TraceFolder {
 public:
  // Before the work: makes the folder where it is missing. An outcome is a failure.
  std::optional<Outcome> Create(const std::string& path);
  // Each process is a rank, its id the rank's number, in a file of its own.
  std::optional<Outcome> Write(const std::vector<report::TraceProcess>& processes,
                               const std::string& scenario, int ranks);

 private:
  std::string path_;
};

}  // namespace stepcast::cli
