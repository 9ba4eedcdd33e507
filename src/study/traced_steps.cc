#include "src/study/traced_steps.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/formats/kineto_trace.h"
#include "src/formats/trace_text.h"

namespace stepcast::study {
namespace {

using formats::KinetoCollective;
using formats::KinetoKernel;
using formats::KinetoStep;
using formats::KinetoTrace;
using formats::Moment;
using validate::Activity;
using validate::RankStep;
using validate::StepEvent;

tl::unexpected<Diagnostics> Fail(const char* code, const std::string& file, std::string message,
                                 std::string hint) {
  return tl::unexpected(Diagnostics{{code, {file, 0, 0}, std::move(message), std::move(hint)}});
}

// The integers in a text: "[0, 1, 2]".
std::vector<int> NumbersIn(std::string_view text) {
  std::vector<int> numbers;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (at != end) {
    int number = 0;
    const auto [after, error] = std::from_chars(at, end, number);
    if (error == std::errc()) numbers.push_back(number);
    at = error == std::errc() ? after : at + 1;
  }
  return numbers;
}

Time At(Moment moment) { return Time::FromPicoseconds(moment); }

struct TraceFile {
  std::string path;
  int rank = 0;
  KinetoTrace trace;
  bool of_stepcast = false;         // its steps lie on the device, and its kernels have our names
  std::vector<KinetoStep> steps{};  // whole ones, in the device's time
  std::vector<KinetoStep> on_host{};
};

// When the device has done what was launched before a time on the host.
class Done {
 public:
  explicit Done(const KinetoTrace& trace) {
    Moment latest = std::numeric_limits<Moment>::min();
    for (const KinetoKernel& kernel : trace.kernels) {
      latest = std::max(latest, kernel.end);
      launches_.push_back(kernel.launch);
      latest_.push_back(latest);
    }
  }
  Moment operator()(Moment moment) const {
    const auto after = std::lower_bound(launches_.begin(), launches_.end(), moment);
    if (after == launches_.begin()) return moment;
    return std::max(moment, latest_[static_cast<std::size_t>(after - launches_.begin()) - 1]);
  }

 private:
  std::vector<Moment> launches_, latest_;
};

std::optional<int> RankInName(const std::string& path) {
  const std::string name = formats::LowerCase(std::filesystem::path(path).filename().string());
  for (const char* word : {"rank", "worker"}) {
    const std::size_t at = name.find(word);
    if (at == std::string::npos) continue;
    const std::vector<int> numbers = NumbersIn(std::string_view(name).substr(at));
    // "rank-3" is of rank 3.
    if (!numbers.empty()) return std::abs(numbers.front());
  }
  return std::nullopt;
}

Result<TraceFile> ReadTrace(const std::string& path) {
  Diagnostics faults;
  auto text = formats::TraceText::Open(path, faults);
  if (!text) return tl::unexpected(std::move(faults));
  auto trace = formats::ReadKinetoTrace([&] { return text->Next(); }, path);
  if (!faults.empty()) return tl::unexpected(std::move(faults));
  if (!trace) return tl::unexpected(std::move(trace.error()));
  TraceFile file{.path = path, .trace = *std::move(trace)};
  const std::vector<KinetoKernel>& kernels = file.trace.kernels;
  if (kernels.empty()) {
    return Fail("kineto.no-kernels", path, "the trace has no kernels",
                "repeat the trace with torch.profiler.ProfilerActivity.CUDA");
  }
  file.of_stepcast = kernels.front().step >= 0;
  file.rank = static_cast<int>(file.trace.rank.value_or(RankInName(path).value_or(0)));
  if (file.of_stepcast && std::any_of(kernels.begin(), kernels.end(), [&](const auto& kernel) {
        return kernel.process != kernels.front().process;
      })) {
    return Fail("traced.several-ranks", path, "the file contains traces of several ranks",
                "write one file for each rank: stepcast simulate --trace-dir FOLDER, not --trace");
  }
  file.on_host = formats::StepsOf(file.trace);
  if (file.on_host.empty()) return formats::NoKinetoStep(path);
  const Done done(file.trace);
  for (const KinetoStep& step : file.on_host) {
    file.steps.push_back(
        file.of_stepcast ? step : KinetoStep{step.number, done(step.begin), done(step.end)});
  }
  return file;
}

std::vector<std::string> FilesOf(const std::string& path) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().string();
    if (name.ends_with(".json") || name.ends_with(".json.gz")) files.push_back(name);
  }
  std::sort(files.begin(), files.end());
  return files;
}

Result<std::vector<TraceFile>> ReadTraces(const std::string& path, int devices) {
  std::vector<std::string> files{path};
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    files = FilesOf(path);
    if (files.empty()) {
      return Fail(
          "traced.no-traces", path, "the folder has no traces (.json or .json.gz)",
          "write the path of a folder with one output of export_chrome_trace for each rank");
    }
  }
  std::vector<TraceFile> traces;
  std::map<int, std::string> of_rank;
  for (const std::string& file : files) {
    auto trace = ReadTrace(file);
    if (!trace) return tl::unexpected(std::move(trace.error()));
    if (trace->rank < 0 || trace->rank >= devices) {
      return Fail(
          "traced.other-cluster", file,
          fmt::format("the trace is from rank {}, but the scenario has only {} ranks", trace->rank,
                      devices),
          "change the cluster to the cluster of the traced run, for example --set cluster.nodes=4");
    }
    const auto [known, added] = of_rank.emplace(trace->rank, file);
    if (!added) {
      return Fail("traced.same-rank", file,
                  fmt::format("two traces are from rank {}; the other trace is {}", trace->rank,
                              known->second),
                  "remove one of the two traces, or rename the files to rank0.json, rank1.json");
    }
    traces.push_back(*std::move(trace));
  }
  std::stable_sort(traces.begin(), traces.end(),
                   [](const TraceFile& a, const TraceFile& b) { return a.rank < b.rank; });
  return traces;
}

const KinetoStep* StepOf(const std::vector<KinetoStep>& steps, std::int64_t number) {
  const auto found = std::find_if(steps.begin(), steps.end(),
                                  [number](const KinetoStep& s) { return s.number == number; });
  return found == steps.end() ? nullptr : &*found;
}

// Whether the trace has the step, with kernels.
bool Has(const TraceFile& file, std::int64_t number) {
  const KinetoStep* const step = StepOf(file.on_host, number);
  return step != nullptr && std::any_of(file.trace.kernels.begin(), file.trace.kernels.end(),
                                        [&](const KinetoKernel& kernel) {
                                          return file.of_stepcast ? kernel.step == number
                                                                  : kernel.launch >= step->begin &&
                                                                        kernel.launch < step->end;
                                        });
}

// The step of median duration on the first rank, of those that all ranks have. The first is left
// out if there are others: what the device still did before it is not known.
std::optional<std::int64_t> CommonStep(const std::vector<TraceFile>& traces) {
  std::vector<KinetoStep> common;
  for (const KinetoStep& step : traces.front().steps) {
    if (step.end <= step.begin) continue;
    if (std::all_of(traces.begin(), traces.end(),
                    [&](const TraceFile& trace) { return Has(trace, step.number); })) {
      common.push_back(step);
    }
  }
  if (common.empty()) return std::nullopt;
  if (common.size() > 1 && !traces.front().of_stepcast) common.erase(common.begin());
  const auto middle = common.begin() + static_cast<std::ptrdiff_t>((common.size() - 1) / 2);
  std::nth_element(
      common.begin(), middle, common.end(),
      [](const KinetoStep& a, const KinetoStep& b) { return a.end - a.begin < b.end - b.begin; });
  return middle->number;
}

// The forecast's names for what a trace has.
class Names {
 public:
  Names(const forecast::Run& run, int rank) : program_(run.class_of(rank).program) {
    for (const StepEvent& event : validate::EventsOf(run, run.class_of(rank)).events) {
      activities_.emplace(event.name, event.activity);
      exchanges_ = exchanges_ || event.activity == Activity::kMessage;
    }
    std::set<std::string> names;
    for (const program::Communicator& communicator : program_.communicators) {
      names.insert(program_.groups[communicator.group].name);
    }
    if (names.size() == 1) only_ = *names.begin();
  }

  // Nothing if the forecast has no such kernel.
  std::optional<Activity> OfKernel(const std::string& name) const {
    const auto found = activities_.find(name);
    if (found == activities_.end()) return std::nullopt;
    return found->second;
  }

  std::string AxisOf(const KinetoCollective& collective) const {
    const std::vector<int> ranks = NumbersIn(collective.ranks);
    std::set<std::string> of_size;
    for (const program::Communicator& communicator : program_.communicators) {
      const program::ProcessGroup& group = program_.groups[communicator.group];
      if (group.name == collective.group || (!ranks.empty() && group.ranks == ranks)) {
        return group.name;
      }
      if (static_cast<std::int64_t>(group.ranks.size()) == collective.group_size) {
        of_size.insert(group.name);
      }
    }
    if (of_size.size() == 1) return *of_size.begin();
    if (!only_.empty()) return only_;
    return collective.group.empty() ? "unknown group" : collective.group;
  }

  // NCCL's kernel of sends and receives also does all-to-all.
  bool IsMessage(const KinetoCollective& collective) const {
    const std::string name = formats::LowerCase(collective.collective);
    if (name == "sendrecv") return exchanges_;
    return name.find("send") != name.npos || name.find("recv") != name.npos;
  }

 private:
  const program::Program& program_;
  std::map<std::string, Activity> activities_;
  bool exchanges_ = false;
  std::string only_;  // the name of the only group that communicates
};

Bytes BytesOf(const KinetoCollective& collective) {
  const std::string& type = collective.data_type;
  const auto has = [&type](std::string_view part) { return type.find(part) != type.npos; };
  const int size = has("Float8") || has("Byte") || has("Char") || has("Bool") ? 1
                   : has("BFloat16") || has("Half")                           ? 2
                   : has("Double") || has("Long")                             ? 8
                                                                              : 4;
  return Bytes(collective.elements * size);
}

Result<RankStep> RankStepOf(const TraceFile& file, std::int64_t number, const Names& names) {
  const KinetoTrace& trace = file.trace;
  const KinetoStep& own = *StepOf(file.steps, number);
  RankStep step{.rank = file.rank, .begin = At(own.begin), .end = At(own.end)};
  const auto place = static_cast<int>(StepOf(file.on_host, number) - file.on_host.data());
  const auto relative_step = [&](const KinetoKernel& kernel) {
    if (file.of_stepcast) return kernel.step - static_cast<int>(number);
    const auto after =
        std::upper_bound(file.on_host.begin(), file.on_host.end(), kernel.launch,
                         [](Moment moment, const KinetoStep& s) { return moment < s.begin; });
    return static_cast<int>(after - file.on_host.begin()) - 1 - place;
  };
  const auto in_update = [&](const KinetoKernel& kernel) {
    const auto after =
        std::upper_bound(trace.updates.begin(), trace.updates.end(), kernel.launch,
                         [](Moment moment, const auto& update) { return moment < update.start; });
    return after != trace.updates.begin() && kernel.launch < (after - 1)->end;
  };
  std::size_t known = 0, kernels = 0;
  for (const KinetoKernel& kernel : trace.kernels) {
    StepEvent event{
        .step = relative_step(kernel), .begin = At(kernel.start), .end = At(kernel.end)};
    if (kernel.launch_known) event.launched = At(kernel.launched);
    if (event.step < -1 || event.step > 1) continue;
    if (kernel.nccl()) {
      const KinetoCollective& collective =
          trace.collectives[static_cast<std::size_t>(kernel.collective)];
      event.activity = names.IsMessage(collective) ? Activity::kMessage : Activity::kCollective;
      event.name = names.AxisOf(collective);
      event.members = fmt::format("{}", fmt::join(NumbersIn(collective.ranks), ","));
      event.bytes = BytesOf(collective);
      // Ours begin when the last rank does.
      if (file.of_stepcast) {
        event.transfer = event.end - event.begin;
        event.begin -= At(kernel.waited);
      }
    } else if (kernel.work == formats::KinetoWork::kCopy) {
      event.activity = Activity::kCopy;
    } else {
      event.name = trace.names[static_cast<std::size_t>(kernel.name)];
      const std::optional<Activity> ours = names.OfKernel(event.name);
      // Those of the optimizer are alike in all models.
      if (!kernel.optimizer) ++kernels;
      if (!kernel.optimizer && ours) ++known;
      event.activity = ours ? *ours : ActivityOf(event.name);
      const bool updates = kernel.optimizer || in_update(kernel);
      if (updates && event.activity == Activity::kElementwise) {
        event.activity = Activity::kOptimizer;
      }
    }
    step.events.push_back(std::move(event));
  }
  if (file.of_stepcast && 2 * known < kernels) {
    return Fail("traced.other-model", file.path,
                fmt::format("only {} of the {} kernels in the trace also occur in the forecast",
                            known, kernels),
                "use the scenario of the traced run, including its --set options");
  }
  for (const formats::KinetoHostSpan& span : trace.host) {
    const auto activity =
        span.what == formats::KinetoHost::kDataLoading ? validate::HostActivity::kDataLoading
        : span.what == formats::KinetoHost::kAllocator ? validate::HostActivity::kAllocator
                                                       : validate::HostActivity::kWaiting;
    step.host.push_back({activity, At(span.start), At(span.end)});
  }
  return step;
}

}  // namespace

Activity ActivityOf(std::string_view kernel) {
  const std::string name = formats::LowerCase(std::string(kernel));
  const auto any = [&name](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(),
                       [&name](std::string_view word) { return name.find(word) != name.npos; });
  };
  if (any({"flash", "fmha", "attention", "attn", "sdpa"})) return Activity::kAttention;
  if (any({"multi_tensor_apply", "multitensorapply", "adam", "sgd"})) return Activity::kOptimizer;
  // cuBLAS, CUTLASS, hipBLASLt, cuDNN's and MIOpen's convolutions.
  if (any({"gemm", "gemv", "xmma", "cutlass", "nvjet", "cijk_", "splitk", "conv", "wgrad", "dgrad",
           "fprop", "winograd", "scudnn"}) &&
      !any({"convert"})) {
    return Activity::kProduct;
  }
  return Activity::kElementwise;
}

Result<TracedSteps> ReadTracedSteps(const std::string& path, const forecast::Run& run,
                                    int devices) {
  const auto traces = ReadTraces(path, devices);
  if (!traces) return tl::unexpected(traces.error());
  const auto number = CommonStep(*traces);
  if (!number) {
    return Fail("traced.no-common-step", path, "no step number occurs in the traces of all ranks",
                "trace the same steps on all ranks, with torch.profiler.ProfilerActivity.CUDA");
  }
  TracedSteps traced{.number = *number, .ranks = {}, .notes = {}};
  for (const TraceFile& trace : *traces) {
    auto step = RankStepOf(trace, *number, Names(run, trace.rank));
    if (!step) return tl::unexpected(std::move(step.error()));
    traced.ranks.push_back(*std::move(step));
  }
  const TraceFile& first = traces->front();
  if (first.trace.steps.empty()) {
    traced.notes.emplace_back(
        "the trace has no annotation ProfilerStep#N. The step is assumed to end with "
        "Optimizer.step; if this event is missing, at the end of the trace");
  }
  const bool launched = std::any_of(first.trace.kernels.begin(), first.trace.kernels.end(),
                                    [](const KinetoKernel& kernel) { return kernel.launch_known; });
  if (!launched) {
    traced.notes.emplace_back(
        "the trace has no kernel launches, so the remainder includes the time in which the device "
        "waits for the host. Also trace CPU activities");
  }
  if (first.steps.size() == 1 && !first.of_stepcast) {
    traced.notes.emplace_back(
        "the trace has only one step, and the step time includes unfinished work of the previous "
        "step. Trace at least two steps");
  }
  return traced;
}

}  // namespace stepcast::study
