#pragma once

#include <optional>
#include <span>
#include <string>

#include "src/cli/optional_output.h"
#include "src/cli/outcome.h"
#include "src/report/trace.h"

namespace stepcast::cli {

// The file that --trace names, if it does. It appears when it is complete.
class TraceFile {
 public:
  // Before the work. An outcome is a failure.
  std::optional<Outcome> Create(const std::string& path) { return file_.Create(path); }
  std::optional<Outcome> Write(std::span<const report::TraceProcess> processes,
                               const report::TraceSubject& subject);
  // The trace of a forecast.
  std::optional<Outcome> Write(const forecast::Run& run, const report::TraceSubject& subject,
                               int steps);

 private:
  OptionalOutput file_;
};

}  // namespace stepcast::cli
