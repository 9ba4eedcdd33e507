#include "src/formats/kineto_trace.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <istream>
#include <limits>
#include <unordered_map>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace stepcast::formats {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kStep = "ProfilerStep#";
constexpr std::string_view kLoader = "enumerate(DataLoader)";
constexpr std::string_view kLoading = "load_micro_batch";  // in traces that stepcast writes
constexpr std::string_view kUpdate = "Optimizer.step#";
constexpr std::string_view kNode = "autograd::engine::evaluate_function: ";
constexpr std::string_view kAccumulate = "torch::autograd::AccumulateGrad";

constexpr std::size_t kMostNames = 50'000;
constexpr std::size_t kLongestName = 256;

// Escaped, since names are printed on terminals.
std::string Shown(const std::string& text) { return Quoted(text, "", kLongestName); }

// The fields read from an event in the array of events.
struct Event {
  std::string phase, category, name;
  std::optional<double> start, duration;  // us
  std::optional<std::int64_t> thread, process;
  // From its "args".
  std::optional<std::int64_t> sequence, correlation, message_elements, group_size, step, waited_ns;
  std::string collective, data_type, group, ranks, work_phase;
  std::int64_t elements = 0;  // of the first of "Input Dims", [[64, 3, 7, 7], []]; 0: none
};

// Builds the trace from its events.
class TraceBuilder {
 public:
  // Returns false if there are too many events.
  bool Add(const Event& event) {
    if (event.phase != "X" || !event.start || !std::isfinite(*event.start)) return true;
    const double duration = event.duration.value_or(0);
    if (!(duration >= 0)) return true;
    if (!base_) base_ = event.start;
    constexpr double kMostMicroseconds = 1e10;  // three hours on either side
    if (std::abs(*event.start - *base_) > kMostMicroseconds || duration > kMostMicroseconds) {
      return true;
    }
    const Moment begin = std::llround((*event.start - *base_) * 1e6);
    const Moment end = begin + std::llround(duration * 1e6);
    const std::string category = LowerCase(event.category);
    if (category == "user_annotation" && event.name.starts_with(kStep)) {
      KinetoAnnotation step{0, begin, end};
      const char* digits = event.name.data() + kStep.size();
      std::from_chars(digits, event.name.data() + event.name.size(), step.number);
      trace_.steps.push_back(step);
    } else if (category == "user_annotation" && event.name.starts_with(kUpdate)) {
      trace_.updates.push_back({0, begin, end});
    } else if (event.name == kLoading ||
               (event.name.starts_with(kLoader) && category != "gpu_user_annotation")) {
      trace_.host.push_back({KinetoHost::kDataLoading, begin, end});
    } else if (category == "cpu_op" || category == "operator") {
      AddOperator(event, begin, end);
    } else if (category == "cuda_runtime" || category == "cuda_driver" || category == "runtime") {
      AddCall(event, begin, end);
    } else if (category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset") {
      AddKernel(event, category, begin, end);
    }
    return trace_.steps.size() + trace_.updates.size() + trace_.operators.size() +
                   trace_.kernels.size() + trace_.host.size() + launches_.size() <=
               kMostKinetoEvents &&
           trace_.collectives.size() <= kMostKinetoCollectives &&
           trace_.nodes.size() <= kMostNames && trace_.names.size() <= kMostNames;
  }

  KinetoTrace Finish() {
    for (KinetoKernel& kernel : trace_.kernels) {
      const auto launch = launches_.find(kernel.correlation);
      const bool known = launch != launches_.end();
      kernel.launch = known ? launch->second.start : kernel.start;
      kernel.launched = known ? launch->second.end : kernel.start;
      kernel.launch_known = known;
    }
    const auto by_start = [](const auto& a, const auto& b) { return a.start < b.start; };
    std::stable_sort(trace_.steps.begin(), trace_.steps.end(), by_start);
    std::stable_sort(trace_.updates.begin(), trace_.updates.end(), by_start);
    std::stable_sort(trace_.operators.begin(), trace_.operators.end(), by_start);
    std::stable_sort(trace_.host.begin(), trace_.host.end(), by_start);
    std::stable_sort(
        trace_.kernels.begin(), trace_.kernels.end(),
        [](const KinetoKernel& a, const KinetoKernel& b) { return a.launch < b.launch; });
    return std::move(trace_);
  }

 private:
  void AddOperator(const Event& event, Moment begin, Moment end) {
    const bool node = event.name.starts_with(kNode);
    const bool accumulates = event.name == kAccumulate;
    if (!node && !accumulates && !event.sequence) return;
    std::int32_t name = -1;
    if (node) {
      const auto [known, added] =
          names_.emplace(Shown(event.name.substr(kNode.size())), trace_.nodes.size());
      if (added) trace_.nodes.push_back(known->first);
      name = static_cast<std::int32_t>(known->second);
    }
    trace_.operators.push_back(
        {event.thread.value_or(0), begin, end, event.sequence, event.elements, name, accumulates});
  }

  // A call of the driver: a launch, if a kernel has its correlation, or one that blocks the host.
  void AddCall(const Event& event, Moment begin, Moment end) {
    if (event.correlation) launches_.emplace(*event.correlation, Call{begin, end});
    const std::string& name = event.name;
    const auto has = [&name](std::string_view part) { return name.find(part) != name.npos; };
    if (has("Synchronize")) {
      trace_.host.push_back({KinetoHost::kWaiting, begin, end});
    } else if ((has("Malloc") || has("Free") || has("MemMap") || has("MemUnmap") ||
                has("MemCreate") || has("MemRelease")) &&
               !has("Async")) {
      trace_.host.push_back({KinetoHost::kAllocator, begin, end});
    }
  }

  void AddKernel(const Event& event, const std::string& category, Moment begin, Moment end) {
    KinetoKernel kernel{.start = begin, .end = end, .correlation = event.correlation.value_or(-1)};
    const auto [known, added] =
        kernel_names_.emplace(Shown(event.name), static_cast<std::int32_t>(trace_.names.size()));
    if (added) trace_.names.push_back(known->first);
    kernel.name = known->second;
    kernel.step = static_cast<std::int32_t>(event.step.value_or(-1));
    constexpr std::int64_t kMostWaited = 10'000'000'000'000;  // ns, three hours
    kernel.waited = 1000 * std::clamp<std::int64_t>(event.waited_ns.value_or(0), 0, kMostWaited);
    kernel.process = static_cast<std::int32_t>(event.process.value_or(0));
    kernel.optimizer = event.work_phase == "optimizer";
    if (category != "kernel") {
      kernel.work = category == "gpu_memcpy" ? KinetoWork::kCopy : KinetoWork::kSet;
    }
    if (event.name.starts_with("nccl")) {
      kernel.collective = static_cast<std::int32_t>(trace_.collectives.size());
      KinetoCollective& collective = trace_.collectives.emplace_back();
      collective.collective = Shown(event.collective);
      if (collective.collective.empty()) collective.collective = KindOf(event.name);
      collective.elements = event.message_elements.value_or(0);
      collective.data_type = Shown(event.data_type);
      collective.group = Shown(event.group);
      collective.ranks = Shown(event.ranks);
      collective.group_size = event.group_size.value_or(0);
    }
    trace_.kernels.push_back(kernel);
  }

  // "allreduce" from "ncclKernel_AllReduce_RING_LL_Sum_float(...)".
  static std::string KindOf(const std::string& name) {
    const std::string lower = LowerCase(name);
    for (const char* kind : {"allreduce", "reducescatter", "allgather", "broadcast", "sendrecv"}) {
      if (lower.find(kind) != std::string::npos) return kind;
    }
    return "other";
  }

  struct Call {
    Moment start = 0, end = 0;
  };

  KinetoTrace trace_;
  std::optional<double> base_;
  std::unordered_map<std::string, std::size_t> names_;          // in KinetoTrace::nodes
  std::unordered_map<std::string, std::int32_t> kernel_names_;  // in KinetoTrace::names
  std::unordered_map<std::int64_t, Call> launches_;             // by correlation
};

// Receives the values that the JSON parser finds, so that no tree of the document is in memory. A
// function that returns false stops the parser.
class Collector {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  enum class End : std::uint8_t { kWhole, kNotJson, kTooDeep, kTooMany };

  explicit Collector(BlockBuffer& text) : text_(text) {}

  bool null() { return Scalar(); }
  bool boolean(bool) { return Scalar(); }
  bool number_integer(number_integer_t value) { return Integer(value); }
  bool number_unsigned(number_unsigned_t value) {
    if (value <= static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) {
      return Integer(static_cast<std::int64_t>(value));
    }
    return number_float(static_cast<double>(value), "");
  }
  bool number_float(number_float_t value, const string_t&) {
    if (InEvent()) SetNumber(value);
    return Scalar();
  }
  bool string(string_t& value) {
    if (InEvent()) SetText(value);
    if (InArguments()) SetArgument(value);
    return Scalar(false);
  }
  bool binary(binary_t&) { return true; }  // not in text
  bool start_object(std::size_t) { return Open(true); }
  bool start_array(std::size_t) { return Open(false); }
  bool end_object() {
    if (depth_ == kEvent) {
      event_.elements = dims_.valid ? dims_.elements : 0;
      if (!builder_.Add(event_)) return Stop(End::kTooMany);
    }
    return Close();
  }
  bool end_array() { return Close(); }
  bool key(string_t& name) {
    text_.Used();
    levels_[depth_].key.assign(name, 0, kLongestName);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) {
    return Stop(End::kNotJson);
  }

  End end() const { return is_object_ || end_ != End::kWhole ? end_ : End::kNotJson; }
  KinetoTrace Finish() {
    KinetoTrace trace = builder_.Finish();
    trace.rank = rank_;
    return trace;
  }

 private:
  // The number of open containers within an event: document, array and event.
  static constexpr std::size_t kEvent = 3;
  static constexpr std::size_t kArguments = kEvent + 1;
  // The depth limit; lists of shapes are nested a few levels deep.
  static constexpr std::size_t kDeepest = 64;

  struct Level {
    bool object = false;
    std::size_t elements = 0;
    std::string key;  // of an object: the last one
  };
  // The state while the event's "Input Dims" are read.
  struct Dims {
    bool valid = false;
    std::int64_t elements = 1;
  };

  bool InEvent() const { return depth_ == kEvent && levels_[kEvent].object; }
  bool InArguments() const {
    return depth_ == kArguments && levels_[kEvent].object && levels_[kArguments].object &&
           levels_[kEvent].key == "args";
  }
  // Whether the parser is in the sizes of the first input.
  bool InFirstDims() const {
    return depth_ == kArguments + 2 && levels_[kArguments].object &&
           levels_[kArguments].key == "Input Dims" && levels_[kEvent].key == "args" &&
           !levels_[kArguments + 1].object && levels_[kArguments + 1].elements == 0 &&
           !levels_[kArguments + 2].object;
  }

  bool Stop(End end) {
    end_ = end;
    return false;
  }
  bool Open(bool object) {
    text_.Used();
    if (InFirstDims()) dims_ = {.valid = false, .elements = 0};
    if (InArguments() && levels_[kArguments].key == "Input Dims") dims_ = Dims();
    if (depth_ == kDeepest) return Stop(End::kTooDeep);
    if (depth_ == 0) is_object_ = object;
    ++depth_;
    Level& level = levels_[depth_];
    level.object = object;
    level.elements = 0;
    level.key.clear();
    if (depth_ == kEvent) {
      event_ = Event();
      dims_ = Dims();
    }
    return true;
  }
  bool Close() {
    text_.Used();
    --depth_;
    ++levels_[depth_].elements;
    return true;
  }
  // Handles a scalar; `size`: it may be a size of an input.
  bool Scalar(bool size = false) {
    text_.Used();
    if (!size && InFirstDims()) dims_ = {.valid = false, .elements = 0};
    ++levels_[depth_].elements;
    return true;
  }
  bool Integer(std::int64_t value) {
    if (InEvent()) {
      SetNumber(static_cast<double>(value));
      if (levels_[kEvent].key == "tid") event_.thread = value;
      if (levels_[kEvent].key == "pid") event_.process = value;
    } else if (InArguments()) {
      SetArgument(value);
    } else if (InFirstDims()) {
      MultiplyDims(value);
      return Scalar(true);
    } else if (depth_ == 2 && levels_[1].key == "distributedInfo" && levels_[2].key == "rank") {
      rank_ = value;
    }
    return Scalar();
  }

  void MultiplyDims(std::int64_t size) {
    constexpr std::int64_t kMost = 1'000'000'000'000'000;
    const bool possible = dims_.elements > 0 && size >= 1 && dims_.elements <= kMost / size;
    dims_ = {.valid = possible, .elements = possible ? dims_.elements * size : 0};
  }
  void SetNumber(double value) {
    const std::string& key = levels_[kEvent].key;
    if (key == "ts") event_.start = value;
    if (key == "dur") event_.duration = value;
  }
  void SetText(std::string& value) {
    const std::string& key = levels_[kEvent].key;
    if (key == "ph")
      event_.phase = std::move(value);
    else if (key == "cat")
      event_.category = std::move(value);
    else if (key == "name")
      event_.name = std::move(value);
  }
  void SetArgument(std::int64_t value) {
    const std::string& key = levels_[kArguments].key;
    if (key == "Sequence number")
      event_.sequence = value;
    else if (key == "correlation")
      event_.correlation = value;
    else if (key == "In msg nelems")
      event_.message_elements = value;
    else if (key == "Group size")
      event_.group_size = value;
    else if (key == "step")
      event_.step = value;
    else if (key == "waited_ns")
      event_.waited_ns = value;
  }
  void SetArgument(std::string& value) {
    const std::string& key = levels_[kArguments].key;
    if (key == "Collective name")
      event_.collective = std::move(value);
    else if (key == "dtype")
      event_.data_type = std::move(value);
    else if (key == "Process Group Description")
      event_.group = std::move(value);
    else if (key == "group" && event_.group.empty())  // in traces that stepcast writes
      event_.group = std::move(value);
    else if (key == "Process Group Ranks")
      event_.ranks = std::move(value);
    else if (key == "phase")
      event_.work_phase = std::move(value);
  }

  BlockBuffer& text_;
  End end_ = End::kWhole;
  bool is_object_ = false;
  std::size_t depth_ = 0;  // containers that are open
  std::optional<std::int64_t> rank_;
  std::array<Level, kDeepest + 1> levels_;
  Event event_;
  Dims dims_;
  TraceBuilder builder_;
};

}  // namespace

std::string LowerCase(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::vector<KinetoStep> StepsOf(const KinetoTrace& trace) {
  std::vector<KinetoStep> steps;
  for (std::size_t i = 0; i < trace.steps.size(); ++i) {
    const bool last = i + 1 == trace.steps.size();
    steps.push_back({trace.steps[i].number, trace.steps[i].start,
                     last ? trace.steps[i].end : trace.steps[i + 1].start});
  }
  if (!steps.empty() || trace.operators.empty()) return steps;
  Moment begin = trace.operators.front().start, end = begin;
  for (const KinetoOperator& op : trace.operators) end = std::max(end, op.end);
  for (const KinetoAnnotation& update : trace.updates) {
    steps.push_back({static_cast<std::int64_t>(steps.size()), begin, update.end});
    begin = update.end;
  }
  if (steps.empty()) steps.push_back({0, begin, end});
  return steps;
}

tl::unexpected<Diagnostics> NoKinetoStep(const std::string& file) {
  return tl::unexpected(
      Diagnostics{{"kineto.no-step",
                   {file, 0, 0},
                   "the trace has neither annotations ProfilerStep#N nor operators",
                   "trace CPU activities; with a profiler schedule, also call profiler.step() "
                   "after each step"}});
}

tl::unexpected<Diagnostics> TooManyKinetoEvents(const std::string& file) {
  return tl::unexpected(Diagnostics{
      {"kineto.too-many",
       {file, 0, 0},
       fmt::format("the trace has more than {} relevant events, {} collectives or {} layers",
                   kMostKinetoEvents, kMostKinetoCollectives, kMostKinetoLayers),
       "trace fewer steps"}});
}

Result<KinetoTrace> ReadKinetoTrace(std::string_view text, const std::string& file) {
  return ReadKinetoTrace([&text] { return std::exchange(text, {}); }, file);
}

Result<KinetoTrace> ReadKinetoTrace(const TextBlocks& blocks, const std::string& file) {
  const auto fail = [&](const char* code, std::string message, std::string hint) {
    return tl::unexpected(Diagnostics{{code, {file, 0, 0}, std::move(message), std::move(hint)}});
  };
  constexpr std::size_t kLongestValue = std::size_t{16} << 20;
  BlockBuffer text(blocks, kLongestValue);
  Collector collector(text);
  Collector::End end = Collector::End::kNotJson;
  try {
    std::istream stream(&text);
    Json::sax_parse(stream, &collector);
    end = collector.end();
  } catch (const BlockBuffer::TooFarAhead&) {
  }
  switch (end) {
    case Collector::End::kWhole:
      break;
    case Collector::End::kNotJson:
      return fail("file.not-json", "the file is not a complete trace in JSON",
                  "use an output file of torch.profiler's export_chrome_trace");
    case Collector::End::kTooDeep:
      return fail("json.too-deep", "brackets are nested too deeply for a trace",
                  "use an output file of torch.profiler's export_chrome_trace");
    case Collector::End::kTooMany:
      return TooManyKinetoEvents(file);
  }
  return collector.Finish();
}

}  // namespace stepcast::formats
