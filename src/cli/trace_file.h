#pragma once

#include <optional>
#include <span>
#include <string>

#include "src/cli/outcome.h"
#include "src/report/output_file.h"
#include "src/report/trace.h"

namespace stepcast::cli {

// The file that --trace names, if it does. It appears when it is complete.
class TraceFile {
 public:
  // Before the work, so that a folder that does not exist is noticed at once. An outcome is a
  // failure.
  std::optional<Outcome> Create(const std::string& path);
  std::optional<Outcome> Write(std::span<const report::TraceProcess> processes,
                               const report::TraceSubject& subject);

 private:
  std::optional<report::OutputFile> file_;
};

}  // namespace stepcast::cli
