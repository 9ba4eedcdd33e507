#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/diagnostic.h"
#include "src/base/files.h"
#include "src/base/quantity.h"
#include "src/calibrate/benchmark.h"
#include "src/calibrate/calibrate.h"
#include "src/cli/backends.h"
#include "src/cli/distributed_session.h"
#include "src/cli/hardware_commands.h"
#include "src/cli/outputs.h"
#include "src/cli/progress.h"
#include "src/formats/gpu_models.h"
#include "src/messaging/launch.h"
#include "src/report/answers.h"
#include "src/report/hardware_reports.h"
#include "src/report/output_file.h"
#include "src/report/table.h"
#include "src/runtime/job.h"

namespace stepcast::cli {
namespace {

// The kinds that can be measured: microbenchmarks are step programs, so only their kinds.
std::optional<CollectiveKind> MeasuredCollectiveKind(std::string_view name) {
  for (const CollectiveKind kind : kMeasuredCollectiveKinds) {
    if (Name(kind) == name) return kind;
  }
  return std::nullopt;
}

using runtime::Attempt;
using runtime::Failure;
using runtime::Job;
using runtime::Watch;

// Shows the progress of the measurement: an overwritten line on a terminal, otherwise occasional
// lines.
class Progress {
 public:
  Progress() : terminal_(::isatty(STDERR_FILENO) == 1) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() {
    if (shown_ && terminal_) fmt::print(stderr, "\r\033[K");  // carriage return, erase the line
  }

  void Show(const std::string& what) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    next_ = now + (terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(15));
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    if (terminal_) {
      fmt::print(stderr, "\r\033[K{:.0f} s: measuring {}", seconds, what);
    } else {
      fmt::print(stderr, "stepcast: {:.0f} s: measuring {}\n", seconds, what);
    }
    std::fflush(stderr);
    shown_ = true;
  }

 private:
  const bool terminal_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point next_ = begin_;
  bool shown_ = false;
};

// Everything known before the measurement.
struct Setting {
  calibrate::Options options;
  std::unique_ptr<runtime::Backend> backend;
  runtime::WatchOptions watch;
};

std::string NowInUtc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  return std::string(text, size);
}

template <typename T, typename FromName, typename All>
void ReadWords(const char* option, const char* what, const std::vector<std::string>& words,
               const FromName& from_name, const All& all, std::vector<T>& values,
               Diagnostics& faults) {
  for (const std::string& word : words) {
    if (const std::optional<T> value = from_name(word)) {
      if (std::find(values.begin(), values.end(), *value) == values.end()) values.push_back(*value);
      continue;
    }
    std::string known;
    for (const auto& name : all) known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
    faults.push_back({"command.unknown-word",
                      {option, 0, 0},
                      fmt::format("unknown {}: {}", what, Quoted(word)),
                      fmt::format("choose from {}", known)});
  }
}

// The quantity in `text` that `parse` reads, from `least` to `most`, which `limits` names. Without
// a text, and after a mistake, it is zero.
template <typename T>
T ReadBetween(const char* option, const std::string& text, const auto& parse, T least, T most,
              const char* limits, Diagnostics& faults) {
  if (text.empty()) return {};
  const auto fault = [&](std::string message, std::string hint) {
    faults.push_back({"command.bad-quantity", {option, 0, 0}, std::move(message), std::move(hint)});
    return T();
  };
  const auto value = parse(text);
  if (!value) return fault(value.error().message, value.error().hint);
  if (*value >= least && *value <= most) return *value;
  return fault(fmt::format("must be between {}: {}", limits, Quoted(text)), "");
}

Bytes ReadSize(const char* option, const std::string& text, Diagnostics& faults) {
  return ReadBetween(option, text, ParseBytes, Bytes(4), Bytes(GiB(64)), "4 B and 64 GiB", faults);
}

Result<Setting> Prepare(const CalibrateOptions& options, MadeBackend backend) {
  Setting setting;
  Diagnostics faults;
  if (backend) {
    setting.backend = std::move(*backend);
  } else {
    faults = backend.error();
  }
  calibrate::Options& measured = setting.options;
  measured.quick = options.quick;
  std::vector<std::string_view> parts;
  for (const calibrate::Part part : calibrate::kParts) parts.push_back(calibrate::Name(part));
  ReadWords("--only", "part", options.only, calibrate::PartFromName, parts, measured.parts, faults);
  const std::string_view types[] = {"fp32", "bf16", "fp16", "fp8"};
  ReadWords("--types", "data type", options.types, DataTypeFromName, types, measured.types, faults);
  std::vector<std::string_view> kinds;
  for (const CollectiveKind kind : kMeasuredCollectiveKinds) kinds.push_back(Name(kind));
  ReadWords("--collectives", "collective", options.collectives, MeasuredCollectiveKind, kinds,
            measured.collectives, faults);
  measured.time = ReadBetween("--time", options.time, ParseTime, Time(Seconds(10)),
                              Time(Seconds(24 * 3600)), "10 s and 24 h", faults);
  measured.group_sizes = options.groups;
  measured.from = ReadSize("--from", options.from, faults);
  measured.to = ReadSize("--to", options.to, faults);
  if (measured.from > Bytes() && measured.to > Bytes() && measured.from > measured.to) {
    faults.push_back({"command.bad-quantity",
                      {"--to", 0, 0},
                      fmt::format("the value of --to is smaller than the value of --from: {}",
                                  Quoted(options.to)),
                      ""});
  }
  const auto timeout = ReadTimeout(options.timeout);
  if (timeout) {
    setting.watch.timeout = *timeout;
  } else {
    faults.insert(faults.end(), timeout.error().begin(), timeout.error().end());
  }
  // A state file that does not exist yet starts with this run.
  std::error_code error;
  if (!options.resume.empty() && std::filesystem::exists(options.resume, error)) {
    if (auto text = ReadTextFile(options.resume, faults)) measured.state = std::move(*text);
  }
  if (!faults.empty()) return tl::unexpected(std::move(faults));
  return setting;
}

// The profile's GPU type; empty if unknown.
std::string GpuType(const CalibrateOptions& options, const runtime::Backend& backend) {
  if (!options.gpu.empty()) return options.gpu;
  if (std::string_view(backend.name()) == "host") return "host-cpu";
  for (const auto& [key, value] : backend.Describe()) {
    if (key != "gpu") continue;
    const formats::GpuModel* model = formats::FindGpuModelOfCuda(value);
    if (model != nullptr) return std::string(model->name);
  }
  return "";
}

// If MPI is used it must run, so that the backend knows its version.
void DescribeRun(const CalibrateOptions& options, Setting& setting) {
  calibrate::Options& measured = setting.options;
  measured.machine = {{"backend", setting.backend->name()}};
  measured.gpu = GpuType(options, *setting.backend);
  for (auto& fact : setting.backend->Describe()) measured.machine.push_back(std::move(fact));
  measured.cache = setting.backend->CacheSize();
  if (setting.backend->ProductsByLayout()) {
    measured.layouts.assign(std::begin(kProductLayouts), std::end(kProductLayouts));
  }
  measured.health = [&backend = *setting.backend] { return backend.Health(); };
  measured.run = {
      {"when", NowInUtc()}, {"command", options.command}, {"stepcast", options.version}};
}

std::string OutputPath(const CalibrateOptions& options, const std::string& host) {
  return options.output.empty() ? host + ".yaml" : options.output;
}

Attempt<void> WriteFile(const std::string& path, const std::string& text) {
  auto file = report::OutputFile::Create(path);
  if (!file) return tl::unexpected(Failure{file.error(), false});
  auto written = file->Write(text);
  if (written) written = file->Commit();
  if (!written) return tl::unexpected(Failure{written.error(), false});
  return {};
}

// Checks now rather than after a long measurement; leaves no file behind.
std::optional<Outcome> Unwritable(const std::string& path) {
  if (path.empty()) return std::nullopt;
  const auto file = report::OutputFile::Create(path);
  if (file) return std::nullopt;
  return CannotCreate(path, file.error());
}

std::optional<Outcome> CheckFiles(const CalibrateOptions& options, const std::string& host) {
  OptionalOutput output;
  if (auto failed = output.Create(OutputPath(options, host))) return failed;
  return Unwritable(options.resume);
}

// The work of one rank. On failure it does not return.
calibrate::Outcome Measure(const CalibrateOptions& options, const Setting& setting, Job& job,
                           Watch& watch) {
  const int rank = job.place().rank;
  calibrate::Options own = setting.options;
  own.name = job.place().host;
  Progress progress;
  if (rank == 0) {
    own.observer.progress = [&](const std::string& what) { progress.Show(what); };
    if (!options.resume.empty()) {
      own.observer.save = [&](const std::string& state) {
        return WriteFile(options.resume, state);
      };
    }
  }
  return OrFail<calibrate::Outcome>(watch, rank, [&] {
    watch.SetStage(rank, runtime::Stage::kRunning);
    return calibrate::Calibrate(job, calibrate::RunOn(*setting.backend, job, watch), own);
  });
}

Outcome Report(const CalibrateOptions& options, const std::string& host,
               const calibrate::Outcome& measured, double seconds) {
  if (!measured.refused.empty()) {
    return WrongInput("calibrate.other-state", options.resume,
                      fmt::format("the calibration cannot be resumed: {}", measured.refused),
                      "give --resume the path of another file, or remove the file to start a new "
                      "calibration");
  }
  if (measured.no_group_of > 0) {
    return WrongInput(
        "command.bad-group", "--groups",
        fmt::format(
            "groups of {0} ranks with the same number of GPUs on each node are impossible: {0}",
            measured.no_group_of),
        measured.groups_of.empty() ? "a group of one rank does not communicate"
                                   : fmt::format("give --groups sizes from this list: {}",
                                                 fmt::join(measured.groups_of, ", ")));
  }
  const std::string path = OutputPath(options, host);
  if (auto written = WriteFile(path, report::CalibrationYaml(measured.profile)); !written) {
    return Failed(written.error().message);
  }
  Outcome outcome;
  outcome.output = options.json ? report::CalibrationJson(path, measured, seconds)
                                : report::Wrapped(report::CalibrationText(path, measured));
  outcome.messages = Lines("warning", measured.warnings);
  if (measured.profile.gpus.empty()) {
    outcome.messages +=
        "warning: the device is not a known GPU type; add --gpu with the type, or add the key "
        "'gpu' to the profile\n";
  }
  return outcome;
}

Outcome RunThreads(const CalibrateOptions& options, MadeBackend backend) {
  const Stopwatch stopwatch;
  auto setting = Prepare(options, std::move(backend));
  if (!setting) return WrongInput(setting.error());
  const int most = setting->backend->MaxLocalRanks();
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int ranks = options.ranks > 0 ? options.ranks : std::min(cores, most);
  if (ranks > most) {
    return WrongInput("launch.wrong-number", "--ranks",
                      fmt::format("the process can run at most {} ranks, not {}", most, ranks),
                      "start one process for each rank with mpirun or srun");
  }
  auto jobs = runtime::MakeThreadJobs(ranks);
  const std::string host = jobs.front()->place().host;
  if (auto end = CheckFiles(options, host)) return std::move(*end);
  DescribeRun(options, *setting);
  std::vector<runtime::Place> places;
  for (const auto& job : jobs) places.push_back(job->place());
  const auto watch = Watch::OverThreads(places, setting->watch, SayAtTheEnd);
  calibrate::Outcome measured;
  RunJobs(jobs, *watch, [&](Job& job) {
    calibrate::Outcome own = Measure(options, *setting, job, *watch);
    if (job.place().rank == 0) measured = std::move(own);
  });
  Outcome outcome = Report(options, host, measured, stopwatch.Seconds());
  watch->Finish();
  return outcome;
}

Outcome RunProcesses(const CalibrateOptions& options, Result<Setting>& setting,
                     const Stopwatch& stopwatch, DistributedSession& session) {
  const std::string host = session.job().place().host;
  std::optional<Outcome> end;
  if (!setting) end = WrongInput(setting.error());
  if (!end && session.rank() == 0) end = CheckFiles(options, host);
  if (end = session.Agree(end); end) return std::move(*end);
  DescribeRun(options, *setting);
  const calibrate::Outcome measured = Measure(options, *setting, session.job(), session.watch());
  if (session.rank() != 0) return {};
  return Report(options, host, measured, stopwatch.Seconds());
}

}  // namespace

Outcome Calibrate(const CalibrateOptions& options) {
  auto launch = messaging::FindLaunch([](const char* name) { return std::getenv(name); });
  if (!launch) return WrongInput(launch.error());
  MadeBackend backend = MakeBackend(options.backend);  // before threads start
  if (launch->launcher == messaging::Launcher::kNone)
    return RunThreads(options, std::move(backend));
  if (options.ranks > 0 && options.ranks != launch->ranks) {
    return WrongInput(
        "launch.wrong-number", "--ranks",
        fmt::format("a launcher started {} ranks, not {}", launch->ranks, options.ranks),
        "omit --ranks to use all started ranks");
  }
  const Stopwatch stopwatch;
  auto setting = Prepare(options, std::move(backend));
  return RunInSession(*launch, setting ? setting->watch : runtime::WatchOptions(),
                      [&](DistributedSession& session) {
                        return RunProcesses(options, setting, stopwatch, session);
                      });
}

}  // namespace stepcast::cli
