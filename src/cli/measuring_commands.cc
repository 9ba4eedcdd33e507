#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/base/files.h"
#include "src/cli/command.h"
#include "src/cli/commands.h"
#include "src/cli/option_parts.h"
#include "src/cli/outcome.h"
#include "src/cli/outputs.h"
#include "src/cli/progress.h"
#include "src/cli/version.h"
#include "src/formats/nccl_tests.h"
#include "src/report/accuracy.h"
#include "src/report/answers.h"
#include "src/report/table.h"
#include "src/validate/collectives.h"
#include "src/validate/published.h"
#include "src/validate/stored_outcomes.h"

namespace stepcast::cli {
namespace {

struct CalibrateImportOptions : formats::NcclTestsOptions {  // without a name: the first log's
  std::vector<std::string> logs;
  std::string op;      // the collective; empty: from the logs
  std::string output;  // empty: stdout
};

// Writes a calibration profile with tables measured by nccl-tests.
Outcome CalibrateImport(const CalibrateImportOptions& options) {
  Diagnostics faults;
  formats::NcclTestsOptions import = options;
  if (!options.op.empty()) import.collective = ReadCollective("--op", options.op, faults);
  if (import.name.empty()) {
    import.name = std::filesystem::path(options.logs.front()).stem().string();
  }
  std::vector<formats::NcclTestsRun> runs;
  for (const std::string& log : options.logs) {
    const auto text = ReadTextFile(log, faults);
    if (!text) continue;
    auto found = formats::ParseNcclTests(*text, log);
    if (found) {
      std::move(found->begin(), found->end(), std::back_inserter(runs));
    } else {
      faults.insert(faults.end(), found.error().begin(), found.error().end());
    }
  }
  if (!faults.empty()) return WrongInput(faults);
  const auto imported = formats::ProfileOf(runs, import);
  if (!imported) return WrongInput(imported.error());
  return PutText(options.output, report::CalibrationYaml(imported->profile), imported->notes);
}

// The optional section of a document that --update names: the text between the lines '<!-- NAME:
// begin -->' and '<!-- NAME: end -->'.
class DocumentSection {
 public:
  // Call this before the work, so that a document without the section is reported at once. An
  // outcome is a failure.
  std::optional<Outcome> Open(const std::string& path, const std::string& name) {
    if (path.empty()) return std::nullopt;
    const std::string begin_line = fmt::format("<!-- {}: begin -->\n", name);
    const std::string end_line = fmt::format("<!-- {}: end -->\n", name);
    std::ifstream file(path, std::ios::binary);
    std::stringstream read;
    read << file.rdbuf();
    const std::string text = read.str();
    const std::size_t begin = text.find(begin_line);
    const std::size_t end = begin == std::string::npos ? begin : text.find(end_line, begin);
    if (!file || end == std::string::npos) {
      return WrongInput(
          file ? "command.no-section" : "file.not-found", path,
          file ? fmt::format("the document has no section for {}", name) : "there is no such file",
          fmt::format("add the lines '<!-- {0}: begin -->' and '<!-- {0}: end -->' at the position "
                      "of the section",
                      name));
    }
    before_ = text.substr(0, begin + begin_line.size());
    after_ = text.substr(end);
    return file_.Create(path);
  }

  // Rewrites the section; the rest stays as it was when the document was opened. Calls `content`
  // only if a document is requested.
  std::optional<Outcome> Write(const std::function<std::string()>& content) {
    return file_.Write([&] { return before_ + content() + after_; });
  }

 private:
  std::string before_, after_;
  OptionalOutput file_;
};

struct ValidatePublishedOptions {
  std::string source;  // only this source; empty: all
  bool run = false;    // simulate, instead of reading the stored outcomes
  AnswerForms forms;
  std::string update;  // a document whose section is rewritten; empty: none
  std::string store;   // a file to which the outcomes are written; empty: none
};

// Compares published training steps with forecasts. Status kAnswerIsNo if check rows miss the
// targets (validate/published.h).
Outcome ValidatePublished(const ValidatePublishedOptions& options) {
  AnswerPrinter printer;
  if (auto failed = printer.Create(options.forms)) return *failed;
  DocumentSection section;
  if (auto failed = section.Open(options.update, "published steps")) return *failed;
  OptionalOutput store;
  if (auto failed = store.Create(options.store)) return *failed;
  const bool run = options.run || !options.store.empty();
  const auto accuracy = run ? validate::ComparePublished(options.source)
                            : validate::ReadStoredOutcomes(options.source);
  if (!accuracy) return WrongInput(accuracy.error());
  if (auto failed = store.Write([&] { return validate::StoredOutcomesText(*accuracy); })) {
    return *failed;
  }
  if (auto failed = section.Write([&] { return report::PublishedAccuracyMarkdown(*accuracy); })) {
    return *failed;
  }
  Outcome outcome =
      printer.Print({.text = [&] { return report::PublishedAccuracyText(*accuracy); },
                     .json = [&] { return report::PublishedAccuracyJson(*accuracy); },
                     .csv = [&] { return report::PublishedAccuracyCsv(*accuracy); },
                     .page = [&] { return report::PublishedAccuracyHtml(*accuracy); }},
                    run ? ""
                        : "stepcast: the results were stored with this release; to simulate the "
                          "steps again, add --run\n");
  if (outcome.status == kDone && !accuracy->MeetsAims()) outcome.status = kAnswerIsNo;
  return outcome;
}

struct ValidateCollectivesOptions {
  AnswerForms forms;
  std::string update;  // a document whose section is rewritten; empty: none
};

// Compares published collectives with forecasts. Status kAnswerIsNo if held-back points miss the
// targets (validate/collectives.h).
Outcome ValidateCollectives(const ValidateCollectivesOptions& options) {
  AnswerPrinter printer;
  if (auto failed = printer.Create(options.forms)) return *failed;
  DocumentSection section;
  if (auto failed = section.Open(options.update, "collectives")) return *failed;
  const auto accuracy = validate::CompareCollectives();
  if (!accuracy) return WrongInput(accuracy.error());
  if (auto failed = section.Write([&] { return report::CollectiveAccuracyMarkdown(*accuracy); })) {
    return *failed;
  }
  Outcome outcome =
      printer.Print({.text = [&] { return report::CollectiveAccuracyText(*accuracy); },
                     .json = [&] { return report::CollectiveAccuracyJson(*accuracy); },
                     .csv = [&] { return report::CollectiveAccuracyCsv(*accuracy); }},
                    "");
  if (!accuracy->MeetsTargets()) outcome.status = kAnswerIsNo;
  return outcome;
}

void DescribeHardware(Question& question, HardwareOptions& hardware) {
  AddScenario(question, hardware.scenario, hardware.set);
  constexpr int kMostSteps = 100'000;
  question.Option("--backend", &hardware.backend, "NAME").Offers({"host", "cuda"}).Required();
  question.Option("--steps", &hardware.steps, "N").Between(1, kMostSteps);
  question.Option("--warmup", &hardware.warmup, "N").Between(0, kMostSteps);
  question.Flag("--barrier", &hardware.barrier);
  question.Flag("--graph", &hardware.graph);
  question.Flag("--caching-pool", &hardware.caching_pool);
  question.Option("--timeout", &hardware.timeout, "TIME");
}

void DescribeCalibrateImport(Question& question, CalibrateImportOptions& options) {
  question.Argument("LOG", &options.logs).Required();
  question.Option(
      "--op", &options.op, "NAME",
      fmt::format("The measured collective (default: from the logs): {}", CollectiveNames()));
  constexpr int kMost = 1'000'000;
  question.Option("--ranks", &options.ranks, "N").Between(2, kMost);
  question.Option("--ranks-per-node", &options.ranks_per_node, "N").Between(1, kMost);
  question.Flag("--in-place", &options.in_place);
  question.Flag("--keep-noise", &options.keep_noise);
  question.Option("--gpu", &options.gpu, "NAME");
  question.Option("--name", &options.name, "TEXT");
  AddOutput(question, options.output);
}

void DescribeExecute(Question& question, ExecuteOptions& options) {
  DescribeHardware(question, options.hardware);
  question.Flag("--check", &options.hardware.check);
  question.Flag("--json", &options.forms.json);
  AddColumns(question);
  question.Option("--trace", &options.trace, kFile);
  AddTraceFolder(question, options.trace_dir);
}

void DescribeValidate(Question& question, ValidateOptions& options) {
  DescribeHardware(question, options.hardware);
  question.Option("--within", &options.within, "PERCENT");
  question.Flag("--json", &options.forms.json);
  AddColumns(question);
  question.Option("--trace", &options.trace, kFile);
  AddReport(question, options.forms.report);
}

void DescribeValidateCollectives(Question& question, ValidateCollectivesOptions& options) {
  question.Flag("--json", &options.forms.json);
  question.Flag("--csv", &options.forms.csv).Excludes({"--json"});
  AddColumns(question);
  question.Option("--update", &options.update, kFile);
}

void DescribeValidatePublished(Question& question, ValidatePublishedOptions& options) {
  question.Option("--source", &options.source, "NAME");
  question.Flag("--run", &options.run);
  question.Option("--store", &options.store, kFile).Excludes({"--source"});
  question.Flag("--json", &options.forms.json);
  AddColumns(question);
  question.Flag("--csv", &options.forms.csv).Excludes({"--json"});
  question.Option("--report,--html", &options.forms.report, kFile);
  question.Option("--update", &options.update, kFile).Excludes({"--source"});
}

void DescribeCalibrate(Question& question, CalibrateOptions& options) {
  constexpr int kMostRanks = 4096;
  // Required, except by `import`, `runs` and `trace`; CalibrateCommand checks this.
  question.Option("--backend", &options.backend, "NAME").Offers({"host", "cuda"});
  question.Flag("--quick", &options.quick);
  question.Option("--time", &options.time, "TIME");
  question.Option("--only", &options.only, "PART,...").Commas();
  question.Option("--types", &options.types, "TYPE,...").Commas();
  question.Option("--collectives", &options.collectives, "KIND,...").Commas();
  question.Option("--groups", &options.groups, "N,...").Commas().Between(2, kMostRanks);
  question.Option("--from", &options.from, "BYTES");
  question.Option("--to", &options.to, "BYTES");
  question.Option("--ranks", &options.ranks, "N").Between(1, kMostRanks);
  question.Option("--gpu", &options.gpu, "NAME");
  question.Option("--output", &options.output, kFile);
  question.Option("--resume", &options.resume, kFile);
  question.Option("--timeout", &options.timeout, "TIME");
  question.Flag("--json", &options.json);
  AddColumns(question);
}

}  // namespace

Command ExecuteCommand(const HardwareAccess& hardware) {
  return MakeCommand<ExecuteOptions>("execute", DescribeExecute, hardware.execute);
}

Command ValidateCommand(const HardwareAccess& hardware) {
  return MakeCommand<ValidateOptions>("validate", DescribeValidate, hardware.validate);
}

Command ValidateCollectivesCommand() {
  return MakeCommand<ValidateCollectivesOptions>(
      "validate collectives", DescribeValidateCollectives,
      [](const ValidateCollectivesOptions& options) {
        const WorkNotice notice("forecasting the published collectives");
        return ValidateCollectives(options);
      });
}

Command ValidatePublishedCommand() {
  return MakeCommand<ValidatePublishedOptions>("validate published", DescribeValidatePublished,
                                               [](const ValidatePublishedOptions& options) {
                                                 std::optional<WorkNotice> notice;
                                                 if (options.run)
                                                   notice.emplace("simulating the published steps");
                                                 return ValidatePublished(options);
                                               });
}

Command CalibrateCommand(const HardwareAccess& hardware,
                         const std::vector<std::string>& arguments) {
  const auto run = [calibrate = hardware.calibrate, arguments](CalibrateOptions& options) {
    if (options.backend.empty()) {
      return WrongInput("command.wrong-use", "command line", "--backend is missing",
                        "add --backend cuda for GPUs, or --backend host for CPUs");
    }
    options.version = fmt::format("stepcast {}", kVersion);
    options.command = "stepcast";
    for (const std::string& argument : arguments) options.command += " " + argument;
    return calibrate(options);
  };
  return MakeCommand<CalibrateOptions>("calibrate", DescribeCalibrate, run);
}

Command CalibrateImportCommand() {
  return MakeCommand<CalibrateImportOptions>("calibrate import", DescribeCalibrateImport,
                                             CalibrateImport);
}

}  // namespace stepcast::cli
