#include "src/cli/outputs.h"

#include <limits.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/base/files.h"
#include "src/study/output_paths.h"

namespace stepcast::cli {
std::optional<Outcome> OptionalOutput::Create(const std::string& path) {
  if (path.empty()) return std::nullopt;
  path_ = path;
  if (auto wrong = study::ReplacesInput(path_)) return WrongInput({*std::move(wrong)});
  auto file = report::OutputFile::Create(path);
  if (!file) return CannotCreate(path, file.error());
  file_.emplace(std::move(*file));
  return std::nullopt;
}

std::optional<Outcome> OptionalOutput::Write(const std::function<std::string()>& text) {
  return WriteBy([&](report::OutputFile& file) { return file.Write(text()); });
}

std::optional<Outcome> OptionalOutput::WriteBy(
    const std::function<tl::expected<void, std::string>(report::OutputFile&)>& put) {
  if (!file_) return std::nullopt;
  // Checked again, since some input files are read only during the work.
  if (auto wrong = study::ReplacesInput(path_)) return WrongInput({*std::move(wrong)});
  auto written = put(*file_);
  if (written) written = file_->Commit();
  file_.reset();
  if (!written) return Failed(written.error());
  return std::nullopt;
}

Outcome CannotCreate(const std::string& path, const std::string& failure) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    return WrongInput("file.not-a-file", path,
                      fmt::format("the path of the output leads to a folder, not to a file: {}",
                                  Quoted(path, "'", PATH_MAX)),
                      "add a file name to the path");
  }
  if (auto missing = NoFolderFor(path)) return *std::move(missing);
  return Failed(failure);
}

std::optional<Outcome> NoFolderFor(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path whole = fs::absolute(path, error);
  if (error) return std::nullopt;
  if (!whole.has_filename()) whole = whole.parent_path();  // "folder/"
  const fs::path folder = whole.parent_path();
  if (fs::is_directory(folder, error)) return std::nullopt;
  return WrongInput("file.not-found", path,
                    fmt::format("the folder of the output does not exist: {}",
                                Quoted(folder.string(), "'", PATH_MAX)),
                    "create the folder first, or write another path");
}

Outcome PutText(const std::string& file, std::string text, const std::vector<std::string>& notes) {
  Outcome outcome{kDone, "", Lines("note", notes)};
  if (file.empty()) {
    outcome.output = std::move(text);
    return outcome;
  }
  OptionalOutput output;
  if (auto failed = output.Create(file)) return *std::move(failed);
  if (auto failed = output.Write([&] { return std::move(text); })) return *std::move(failed);
  return outcome;
}

std::optional<Outcome> TraceFile::Write(std::span<const report::TraceProcess> processes,
                                        const report::TraceSubject& subject) {
  return file_.WriteBy([&](report::OutputFile& file) {
    return report::WriteTrace(processes, subject,
                              [&](std::string_view bytes) { return file.Write(bytes); });
  });
}

std::optional<Outcome> TraceFile::Write(const forecast::Run& run,
                                        const report::TraceSubject& subject, int steps) {
  return file_.WriteBy([&](report::OutputFile& file) {
    return report::WriteTrace(
        run, subject, [&](std::string_view bytes) { return file.Write(bytes); }, steps);
  });
}

std::optional<Outcome> OutputFolder::Create(const std::string& path) {
  path_ = path;
  if (path.empty()) return std::nullopt;
  const auto destination = FollowTrustedLinks(path);
  if (!destination) return Failed(destination.error());
  std::error_code error;
  std::filesystem::create_directory(path, error);
  if (error == std::errc::no_such_file_or_directory) {
    if (auto missing = NoFolderFor(path)) return missing;
  }
  // A file is in the way, so the name is mistyped.
  if (error == std::errc::not_a_directory || error == std::errc::file_exists ||
      (!error && !std::filesystem::is_directory(path, error))) {
    return WrongInput(
        "file.exists", path,
        fmt::format("the folder cannot be created, because a file has the same path: {}",
                    Quoted(path)),
        "write the path of another folder");
  }
  if (error) return Failed(fmt::format("cannot create the folder {}: {}", path, error.message()));
  return std::nullopt;
}

std::optional<Outcome> TraceFolder::Write(const std::vector<report::TraceProcess>& processes,
                                          const std::string& scenario, int ranks) {
  if (!folder_.asked()) return std::nullopt;
  for (const report::TraceProcess& process : processes) {
    TraceFile file;
    if (auto failed = file.Create(folder_.File(fmt::format("rank-{}.json", process.id)))) {
      return failed;
    }
    const report::TraceSubject subject{scenario, process.id, ranks};
    if (auto failed = file.Write({&process, 1}, subject)) return failed;
  }
  return std::nullopt;
}

std::optional<Outcome> AnswerPrinter::Create(const AnswerForms& forms) {
  forms_ = forms;
  return page_.Create(forms.report);
}

Outcome AnswerPrinter::Print(const PrintedAnswer& answer, std::string messages) {
  if (auto failed = page_.Write(answer.page)) return *std::move(failed);
  Outcome outcome{kDone, "", std::move(messages)};
  outcome.output = forms_.json    ? answer.json()
                   : forms_.csv   ? answer.csv()
                   : forms_.jsonl ? answer.jsonl()
                                  : report::Wrapped(answer.text()) + answer.below;
  if (answer.memory != nullptr) {
    AnswerFit(answer.memory->verdict(), answer.memory->fit_probability, forms_.fit_probability,
              outcome, answer.judged);
  }
  return outcome;
}

void AnswerFit(forecast::MemoryVerdict verdict, double probability, std::optional<double> least,
               Outcome& outcome, const char* plan) {
  if (verdict == forecast::MemoryVerdict::kDoesNotFit) {
    outcome.status = kAnswerIsNo;
  } else if (least && probability < *least) {
    outcome.status = kMayNotFit;
    outcome.messages += fmt::format(
        "stepcast: the probability that {} fits is {}, less than the required "
        "--fit-probability {}\n",
        plan, probability, *least);
  } else if (!least && verdict == forecast::MemoryVerdict::kMayNotFit) {
    outcome.messages += fmt::format(
        "warning: {} may not fit. Given the error of memory forecasts, the probability that it "
        "fits "
        "is {}. With --fit-probability P, the exit status is 4 if the probability is below P\n",
        plan, probability);
  }
}

std::optional<Outcome> CheckEmit(const scenario::Scenario& scenario, const std::string& source,
                                 const EmitOptions& options) {
  if (options.folder.empty()) return std::nullopt;
  const auto good = study::CheckPlanFolder(scenario, source, options.folder, options.force);
  if (!good) return OutcomeOf(good.error());
  return std::nullopt;
}

std::optional<Outcome> EmitPlan(const scenario::Scenario& scenario, const std::string& source,
                                const EmitOptions& options, std::string& messages) {
  if (options.folder.empty()) return std::nullopt;
  const auto emission = study::WritePlanFolder(scenario, source, options.folder, options.force);
  if (!emission) return OutcomeOf(emission.error());
  messages += emit::Describe(*emission, options.folder);
  return std::nullopt;
}

namespace {

int Width(bool terminal) {
  constexpr int kLeast = 40, kMost = 400, kOtherwise = 80;
  int width = 0;
  if (terminal) {
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) width = size.ws_col;
  }
  if (width == 0) {
    if (const char* columns = std::getenv("COLUMNS")) width = std::atoi(columns);
  }
  return width <= 0 ? kOtherwise : std::clamp(width, kLeast, kMost);
}

}  // namespace

int StdoutWidth() { return Width(::isatty(STDOUT_FILENO) == 1); }

std::optional<report::TerminalStyle> StdoutStyle(std::optional<bool> forced) {
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  if (!forced.value_or(terminal)) return std::nullopt;
  const char* no_colour = std::getenv("NO_COLOR");
  const char* kind = std::getenv("TERM");
  const bool colour = terminal && (no_colour == nullptr || *no_colour == '\0') && kind != nullptr &&
                      *kind != '\0' && std::string_view(kind) != "dumb";
  return report::TerminalStyle{.width = Width(terminal), .colour = colour};
}

}  // namespace stepcast::cli
