#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/cli/outcome.h"
#include "src/forecast/values.h"
#include "src/report/output_file.h"
#include "src/report/timeline_text.h"
#include "src/report/trace.h"
#include "src/scenario/scenario.h"
#include "tl/expected.hpp"

namespace stepcast::cli {

// An optional output file: a page, a trace, a document. It appears when it is complete, and never
// replaces an input file.
class OptionalOutput {
 public:
  // Call this before the work, so that a missing folder is reported at once. An outcome is a
  // failure.
  std::optional<Outcome> Create(const std::string& path);
  // Calls `text` only if a file is requested.
  std::optional<Outcome> Write(const std::function<std::string()>& text);
  // Lets `put` write piece by piece if a file is requested. Its error is a sentence.
  std::optional<Outcome> WriteBy(
      const std::function<tl::expected<void, std::string>(report::OutputFile&)>& put);

 private:
  std::string path_;
  std::optional<report::OutputFile> file_;
};

// Why a requested file cannot be created. A mistyped name, or a missing folder, is wrong input with
// a hint; anything else is `failure`.
Outcome CannotCreate(const std::string& path, const std::string& failure);

// An outcome if the folder in which `path` is to be created does not exist.
std::optional<Outcome> NoFolderFor(const std::string& path);

// Writes `text` to `file`, completely or not at all, or to stdout if `file` is empty.
Outcome PutText(const std::string& file, std::string text);

// The optional output file of --trace. It appears when it is complete.
class TraceFile {
 public:
  // Call this before the work. An outcome is a failure.
  std::optional<Outcome> Create(const std::string& path) { return file_.Create(path); }
  std::optional<Outcome> Write(std::span<const report::TraceProcess> processes,
                               const report::TraceSubject& subject);
  // Writes the trace of a forecast.
  std::optional<Outcome> Write(const forecast::Run& run, const report::TraceSubject& subject,
                               int steps);

 private:
  OptionalOutput file_;
};

// An optional folder with output files.
class OutputFolder {
 public:
  // Call this before the work: makes the folder if it is missing. An outcome is a failure.
  std::optional<Outcome> Create(const std::string& path);
  bool asked() const { return !path_.empty(); }
  // The path of a file in it.
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;  // empty: none is requested
};

// The optional folder of --trace-dir, with a trace per rank, "rank-0.json" and so on, for Holistic
// Trace Analysis. Each file appears when it is complete.
class TraceFolder {
 public:
  // Call this before the work: makes the folder if it is missing. An outcome is a failure.
  std::optional<Outcome> Create(const std::string& path) { return folder_.Create(path); }
  // Writes one file per process; a process is a rank and its id the rank's number.
  std::optional<Outcome> Write(const std::vector<report::TraceProcess>& processes,
                               const std::string& scenario, int ranks);

 private:
  OutputFolder folder_;
};

// Sets the exit status by whether the plan fits. kAnswerIsNo: it does not fit. kMayNotFit: the
// probability is below `least` (--fit-probability). Otherwise kDone, with a warning if it may not
// fit and `least` is not given.
void AnswerFit(forecast::MemoryVerdict verdict, double probability, std::optional<double> least,
               Outcome& outcome);

// Values of --emit and --force.
struct EmitOptions {
  std::string folder;  // empty: nothing is written
  bool force = false;  // replaces the plan in the folder
};

// Call this before the work, so that an impossible folder is reported at once. An outcome is a
// failure.
std::optional<Outcome> CheckEmit(const EmitOptions& options);

// Writes the plan of the scenario, loaded from the file `source`, if requested. An outcome is a
// failure; otherwise a message about the written files is appended to `messages`.
std::optional<Outcome> EmitPlan(const scenario::Scenario& scenario, const std::string& source,
                                const EmitOptions& options, std::string& messages);

// Output on a terminal.

// The terminal's width, else $COLUMNS, else 80.
int StdoutWidth();

// How to draw on stdout; nothing if it is not a terminal, unless `forced`. The width is
// StdoutWidth. Colors are used only on a terminal that has them, and not if $NO_COLOR is set
// (no-color.org).
std::optional<report::TerminalStyle> StdoutStyle(std::optional<bool> forced);

}  // namespace stepcast::cli
