#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/cli/outcome.h"
#include "src/cli/progress.h"
#include "src/forecast/values.h"
#include "src/report/output_file.h"
#include "src/report/table.h"
#include "src/report/trace.h"
#include "src/scenario/scenario.h"
#include "tl/expected.hpp"

namespace stepcast::cli {

// An optional output file: a page, a trace or a document. The file appears only when it is
// complete, and never replaces an input file.
class OptionalOutput {
 public:
  // Opens the file. Call this function before the work, so that a missing folder is reported at
  // once. An empty path means that no file is requested. Returns an outcome only on failure.
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

// Returns the outcome for an output file that cannot be created. If `path` is a folder, or if its
// folder is missing, the outcome is wrong input with a hint. Otherwise, the outcome is a failure
// with the sentence `failure`.
Outcome CannotCreate(const std::string& path, const std::string& failure);

// Returns an outcome if the parent folder of `path` does not exist.
std::optional<Outcome> NoFolderFor(const std::string& path);

// Writes `text` to `file`, completely or not at all. Writes to stdout if `file` is empty.
Outcome PutText(const std::string& file, std::string text,
                const std::vector<std::string>& notes = {});

// The optional output file of --trace, which appears only when it is complete.
class TraceFile {
 public:
  // Opens the file. Call this function before the work. Returns an outcome only on failure.
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
  // Creates the folder if it is missing. Call this function before the work. Returns an outcome
  // only on failure.
  std::optional<Outcome> Create(const std::string& path);
  bool asked() const { return !path_.empty(); }
  // Returns the path of the file `name` in the folder.
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;  // empty: no folder is requested
};

// The optional folder of --trace-dir. The folder contains one trace per rank ("rank-0.json", ...)
// for Holistic Trace Analysis. Each file appears only when it is complete.
class TraceFolder {
 public:
  // Creates the folder if it is missing. Call this function before the work. Returns an outcome
  // only on failure.
  std::optional<Outcome> Create(const std::string& path) { return folder_.Create(path); }
  // Writes one file for each of `processes`. The id of each process is its rank.
  std::optional<Outcome> Write(const std::vector<report::TraceProcess>& processes,
                               const std::string& scenario, int ranks);

 private:
  OutputFolder folder_;
};

// The values of --json, --csv, --jsonl, --report and --fit-probability. A command has some of these
// options.
struct AnswerForms {
  bool json = false;
  bool csv = false;
  bool jsonl = false;
  std::string report;                     // HTML page to write; empty: none
  std::optional<double> fit_probability;  // below it the status is kMayNotFit
};

// An answer in each form that its command offers.
struct PrintedAnswer {
  std::function<std::string()> text;  // wrapped to the width of the terminal
  std::function<std::string()> json;
  std::function<std::string()> csv{};
  std::function<std::string()> jsonl{};
  std::function<std::string()> page{};
  std::string below{};                               // follows the wrapped text
  const forecast::MemoryForecast* memory = nullptr;  // sets the status by AnswerFit; null: kDone
  const char* judged = "the plan";                   // what needs this memory
};

// Prints an answer in the form that the user chose, and writes its page.
class AnswerPrinter {
 public:
  // Opens the page and starts the clock. Call this function before the work. Returns an outcome
  // only on failure.
  std::optional<Outcome> Create(const AnswerForms& forms);
  // Returns the outcome with the answer and `messages`, or a failure to write the page.
  Outcome Print(const PrintedAnswer& answer, std::string messages);
  // Returns the time since Create, for the key `run` of JSON documents.
  double Seconds() const { return stopwatch_.Seconds(); }

 private:
  AnswerForms forms_;
  OptionalOutput page_;
  Stopwatch stopwatch_;
};

// Sets the status of `outcome` by the memory forecast. kAnswerIsNo: the plan does not fit.
// kMayNotFit: the probability that the plan fits is below `least` (--fit-probability). kDone
// otherwise. Without `least`, a plan that may not fit causes a warning. `plan` is the plan's name
// in messages.
void AnswerFit(forecast::MemoryVerdict verdict, double probability, std::optional<double> least,
               Outcome& outcome, const char* plan = "the plan");

// The values of --emit and --force.
struct EmitOptions {
  std::string folder;  // empty: do not write the plan
  bool force = false;  // replace the existing plan in the folder
};

// Checks whether the plan of `scenario` can be written. Call this function before the work, so that
// an unusable folder or input file is reported at once. For arguments and result, see EmitPlan.
std::optional<Outcome> CheckEmit(const scenario::Scenario& scenario, const std::string& source,
                                 const EmitOptions& options);

// Writes the plan of `scenario`, if requested. `source` is the file that the scenario was loaded
// from. On success, appends a message about the written files to `messages`. Returns an outcome
// only on failure.
std::optional<Outcome> EmitPlan(const scenario::Scenario& scenario, const std::string& source,
                                const EmitOptions& options, std::string& messages);

// Output on a terminal.

// Returns the terminal's width in columns. If the width is unknown, returns $COLUMNS, or 80 if
// $COLUMNS is not set.
int StdoutWidth();

// Returns the style of drawings on stdout, or none if drawings are disabled. By default, drawings
// are enabled only on a terminal; `forced` overrides the default. The width is StdoutWidth. Colors
// are used only on a terminal with colors, and only if $NO_COLOR is not set (no-color.org).
std::optional<report::TerminalStyle> StdoutStyle(std::optional<bool> forced);

}  // namespace stepcast::cli
