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

// An optional output file: a page, a trace or a document. The file appears when it is complete, and
// never replaces an input file.
class OptionalOutput {
 public:
  // Creates the file, which appears when it is complete. Call this before the work, so that a
  // missing folder is reported at once. An empty path requests no file. Returns an outcome only on
  // failure.
  std::optional<Outcome> Create(const std::string& path);
  // Writes the result of `text` to the file. Calls `text` only if a file is requested. Returns an
  // outcome only on failure.
  std::optional<Outcome> Write(const std::function<std::string()>& text);
  // Calls `put`, which writes the file piece by piece. Does nothing if no file is requested. An
  // error of `put` is a sentence. Returns an outcome only on failure.
  std::optional<Outcome> WriteBy(
      const std::function<tl::expected<void, std::string>(report::OutputFile&)>& put);

 private:
  std::string path_;
  std::optional<report::OutputFile> file_;
};

// Returns the outcome for a requested file that cannot be created. If the path is a folder, or if
// its folder is missing, the outcome is wrong input with a hint. Otherwise, it is a failure with
// the sentence `failure`.
Outcome CannotCreate(const std::string& path, const std::string& failure);

// Returns an outcome if the folder in which `path` is to be created does not exist.
std::optional<Outcome> NoFolderFor(const std::string& path);

// Writes `text` to `file`, completely or not at all, or to stdout if `file` is empty.
Outcome PutText(const std::string& file, std::string text,
                const std::vector<std::string>& notes = {});

// The optional output file of --trace, which appears when it is complete.
class TraceFile {
 public:
  // Creates the file. Call this before the work. Returns an outcome only on failure.
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
  // Makes the folder if it is missing. Call this before the work. Returns an outcome only on
  // failure.
  std::optional<Outcome> Create(const std::string& path);
  bool asked() const { return !path_.empty(); }
  // Returns the path of the file `name` in the folder.
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;  // empty: none is requested
};

// The optional folder of --trace-dir. It has one trace for each rank, "rank-0.json" and so on, for
// Holistic Trace Analysis. Each file appears when it is complete.
class TraceFolder {
 public:
  // Makes the folder if it is missing. Call this before the work. Returns an outcome only on
  // failure.
  std::optional<Outcome> Create(const std::string& path) { return folder_.Create(path); }
  // Writes one file for each of `processes`. Each process is a rank; its id is the rank's number.
  std::optional<Outcome> Write(const std::vector<report::TraceProcess>& processes,
                               const std::string& scenario, int ranks);

 private:
  OutputFolder folder_;
};

// Sets the status of `outcome` by the verdict on memory. kAnswerIsNo: the plan does not fit.
// kMayNotFit: the probability that the plan fits is below `least` (--fit-probability). Otherwise,
// the status is kDone; if the plan may not fit and `least` is not given, there is a warning.
void AnswerFit(forecast::MemoryVerdict verdict, double probability, std::optional<double> least,
               Outcome& outcome);

// The values of --emit and --force.
struct EmitOptions {
  std::string folder;  // empty: nothing is written
  bool force = false;  // replaces the plan in the folder
};

// Checks whether the plan of `scenario` can be written. Call this before the work, so that a folder
// or an input file that cannot be used is reported at once. Arguments and result: see EmitPlan.
std::optional<Outcome> CheckEmit(const scenario::Scenario& scenario, const std::string& source,
                                 const EmitOptions& options);

// Writes the plan of `scenario`, if requested. `source` is the file from which the scenario was
// loaded. Returns an outcome only on failure. Otherwise, a message about the written files is
// appended to `messages`.
std::optional<Outcome> EmitPlan(const scenario::Scenario& scenario, const std::string& source,
                                const EmitOptions& options, std::string& messages);

// Output on a terminal.

// Returns the terminal's width in columns. If the width is unknown, returns $COLUMNS or, without
// this variable, 80.
int StdoutWidth();

// Returns the style for drawing on stdout, or none if nothing is drawn. Drawings appear only on a
// terminal, unless `forced` says otherwise. The width is StdoutWidth. Colors are used only on a
// terminal that has colors, and not if $NO_COLOR is set (no-color.org).
std::optional<report::TerminalStyle> StdoutStyle(std::optional<bool> forced);

}  // namespace stepcast::cli
