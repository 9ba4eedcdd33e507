#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/cli/outcome.h"
#include "src/forecast/values.h"
#include "src/report/output_file.h"
#include "src/report/trace.h"
#include "src/scenario/scenario.h"
#include "tl/expected.hpp"

namespace stepcast::cli {

// A file that an option names, if it does: a page, a trace, a document. It appears when it is
// complete, and replaces no file that was read.
class OptionalOutput {
 public:
  // Before the work, so that a folder that does not exist is noticed at once. An outcome is a
  // failure.
  std::optional<Outcome> Create(const std::string& path);
  // Makes the text only where a file is asked for.
  std::optional<Outcome> Write(const std::function<std::string()>& text);
  // Lets `put` write piece by piece, only where a file is asked for. The error is a sentence.
  std::optional<Outcome> WriteBy(
      const std::function<tl::expected<void, std::string>(report::OutputFile&)>& put);

 private:
  std::string path_;
  std::optional<report::OutputFile> file_;
};

// Why a file that was asked for cannot be made: a slip in its name, a folder that is not there or
// the name of one, is wrong input with a hint; anything else failed, as `failure` says.
Outcome CannotCreate(const std::string& path, const std::string& failure);

// The folder that `path`, a file or a folder, is to be made in does not exist: an outcome if so.
std::optional<Outcome> NoFolderFor(const std::string& path);

// Puts `text` into `file`, complete or not at all, or on stdout when `file` is empty.
Outcome PutText(const std::string& file, std::string text);

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

// Whether the plan fits, as exit status and messages: kAnswerIsNo where it does not; kMayNotFit
// where it does with a probability below `least` (--fit-probability); else kDone, with a warning
// where it may not and no probability is asked for.
void AnswerFit(forecast::MemoryVerdict verdict, double probability, std::optional<double> least,
               Outcome& outcome);

// What --emit and --force ask for.
struct EmitOptions {
  std::string folder;  // empty: nothing is written
  bool force = false;  // replace the plan that the folder holds
};

// Before the work, so that a folder that cannot be is noticed at once. An outcome is a failure.
std::optional<Outcome> CheckEmit(const EmitOptions& options);

// Writes the plan of the scenario, which was loaded from the file `source`, if that is asked for.
// An outcome is a failure; otherwise what was written is added to `messages`.
std::optional<Outcome> EmitPlan(const scenario::Scenario& scenario, const std::string& source,
                                const EmitOptions& options, std::string& messages);

}  // namespace stepcast::cli
