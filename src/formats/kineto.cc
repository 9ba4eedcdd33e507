#include "src/formats/kineto.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <istream>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace stepcast::formats {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kStep = "ProfilerStep#";
constexpr std::string_view kUpdate = "Optimizer.step#";
constexpr std::string_view kNode = "autograd::engine::evaluate_function: ";
constexpr std::string_view kAccumulate = "torch::autograd::AccumulateGrad";

// Picoseconds since the first event in the file. The trace has microseconds since 1970, with
// fractions.
using Moment = std::int64_t;

// An operator with a sequence number for autograd; other operators are ignored.
struct Operator {
  std::int64_t thread = 0;
  Moment start = 0, end = 0;
  std::optional<std::int64_t> sequence;
  std::int64_t elements = 0;  // of its first input; 0: not recorded
  std::int32_t node = -1;     // engine's event: index in Trace::nodes; -1: another operator
  bool accumulates = false;   // AccumulateGrad itself
};

struct Kernel {
  Moment start = 0, end = 0;
  Moment launch = 0;
  std::int64_t correlation = 0;
  std::int32_t collective = -1;  // NCCL kernel: index in Trace::collectives; -1: another kernel
  bool nccl() const { return collective >= 0; }
};

struct Annotation {
  std::int64_t number = 0;
  Moment start = 0, end = 0;
};

struct Trace {
  std::vector<Annotation> steps;
  std::vector<Annotation> updates;  // of the optimizer
  std::vector<Operator> operators;
  std::vector<Kernel> kernels;
  std::vector<TracedCollective> collectives;
  std::vector<std::string> nodes;  // "AddmmBackward0", distinct names
};

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Limits on the data in memory, many times those of a step of a large model.
constexpr std::size_t kMostEvents = 4'000'000;
constexpr std::size_t kMostCollectives = 500'000;
constexpr std::size_t kMostNames = 50'000;
constexpr std::size_t kMostLayers = 100'000;
constexpr std::size_t kLongestName = 256;

// Escaped, since names are printed on terminals.
std::string Shown(const std::string& text) { return Quoted(text, "", kLongestName); }

// The fields read from an event in the array of events.
struct Event {
  std::string phase, category, name;
  std::optional<double> start, duration;  // us
  std::optional<std::int64_t> thread;
  // From its "args".
  std::optional<std::int64_t> sequence, correlation, message_elements, group_size;
  std::string collective, data_type;
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
    const std::string category = Lower(event.category);
    if (category == "user_annotation" && event.name.starts_with(kStep)) {
      Annotation step{0, begin, end};
      const char* digits = event.name.data() + kStep.size();
      std::from_chars(digits, event.name.data() + event.name.size(), step.number);
      trace_.steps.push_back(step);
    } else if (category == "user_annotation" && event.name.starts_with(kUpdate)) {
      trace_.updates.push_back({0, begin, end});
    } else if (category == "cpu_op" || category == "operator") {
      AddOperator(event, begin, end);
    } else if (category == "cuda_runtime" || category == "cuda_driver" || category == "runtime") {
      if (event.correlation) launches_.emplace(*event.correlation, begin);
    } else if (category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset") {
      AddKernel(event, begin, end);
    }
    return trace_.steps.size() + trace_.updates.size() + trace_.operators.size() +
                   trace_.kernels.size() + launches_.size() <=
               kMostEvents &&
           trace_.collectives.size() <= kMostCollectives && trace_.nodes.size() <= kMostNames;
  }

  Trace Finish() {
    for (Kernel& kernel : trace_.kernels) {
      const auto launch = launches_.find(kernel.correlation);
      kernel.launch = launch == launches_.end() ? kernel.start : launch->second;
    }
    const auto by_start = [](const auto& a, const auto& b) { return a.start < b.start; };
    std::stable_sort(trace_.steps.begin(), trace_.steps.end(), by_start);
    std::stable_sort(trace_.updates.begin(), trace_.updates.end(), by_start);
    std::stable_sort(trace_.operators.begin(), trace_.operators.end(), by_start);
    std::stable_sort(trace_.kernels.begin(), trace_.kernels.end(),
                     [](const Kernel& a, const Kernel& b) { return a.launch < b.launch; });
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

  void AddKernel(const Event& event, Moment begin, Moment end) {
    Kernel kernel{begin, end, 0, event.correlation.value_or(-1), -1};
    if (event.name.starts_with("nccl")) {
      kernel.collective = static_cast<std::int32_t>(trace_.collectives.size());
      TracedCollective& collective = trace_.collectives.emplace_back();
      collective.collective = Shown(event.collective);
      if (collective.collective.empty()) collective.collective = KindOf(event.name);
      collective.elements = event.message_elements.value_or(0);
      collective.data_type = Shown(event.data_type);
      collective.ranks = event.group_size.value_or(0);
    }
    trace_.kernels.push_back(kernel);
  }

  // "allreduce" from "ncclKernel_AllReduce_RING_LL_Sum_float(...)".
  static std::string KindOf(const std::string& name) {
    const std::string lower = Lower(name);
    for (const char* kind : {"allreduce", "reducescatter", "allgather", "broadcast", "sendrecv"}) {
      if (lower.find(kind) != std::string::npos) return kind;
    }
    return "other";
  }

  Trace trace_;
  std::optional<double> base_;
  std::unordered_map<std::string, std::size_t> names_;  // in Trace::nodes
  std::unordered_map<std::int64_t, Moment> launches_;   // by correlation
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
  Trace Finish() { return builder_.Finish(); }

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
    } else if (InArguments()) {
      SetArgument(value);
    } else if (InFirstDims()) {
      MultiplyDims(value);
      return Scalar(true);
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
  }
  void SetArgument(std::string& value) {
    const std::string& key = levels_[kArguments].key;
    if (key == "Collective name")
      event_.collective = std::move(value);
    else if (key == "dtype")
      event_.data_type = std::move(value);
  }

  BlockBuffer& text_;
  End end_ = End::kWhole;
  bool is_object_ = false;
  std::size_t depth_ = 0;  // containers that are open
  std::array<Level, kDeepest + 1> levels_;
  Event event_;
  Dims dims_;
  TraceBuilder builder_;
};

bool IsAllReduce(const TracedCollective& collective) {
  std::string name = Lower(collective.collective);
  name.erase(std::remove(name.begin(), name.end(), '_'), name.end());
  return name.find("allreduce") != std::string::npos;
}

tl::unexpected<Diagnostics> TooMany(const std::string& file) {
  return tl::unexpected(Diagnostics{
      {"kineto.too-many",
       {file, 0, 0},
       fmt::format("the trace has more than {} events that are read, {} collectives or {} layers",
                   kMostEvents, kMostCollectives, kMostLayers),
       "trace fewer steps"}});
}

Time Duration(Moment from, Moment to) { return Time::FromPicoseconds(std::max(from, to) - from); }

// When the work that the host issued before a given time was done.
class Pace {
 public:
  explicit Pace(const std::vector<Kernel>& by_launch) {
    Moment latest = std::numeric_limits<Moment>::min();
    for (const Kernel& kernel : by_launch) {
      if (kernel.nccl()) continue;
      latest = std::max(latest, kernel.end);
      launches_.push_back(kernel.launch);
      latest_.push_back(latest);
    }
  }
  // The later of `moment` and the end of the kernels launched before it.
  Moment At(Moment moment) const {
    const auto after = std::lower_bound(launches_.begin(), launches_.end(), moment);
    if (after == launches_.begin()) return moment;
    const auto i = static_cast<std::size_t>(after - launches_.begin()) - 1;
    return std::max(moment, latest_[i]);
  }

 private:
  std::vector<Moment> launches_, latest_;
};

// An autograd node that ran in the backward pass.
struct Node {
  const Operator* event = nullptr;
  std::string_view what;  // "AddmmBackward0"
  bool accumulates() const { return what == kAccumulate; }
};

// Gradients that became ready without another node in between.
struct Group {
  std::optional<std::int64_t> sequence;  // of the node that made them
  std::string_view node;
  std::vector<std::int64_t> elements;  // in order of readiness; empty: not recorded
  Moment ready = 0;                    // of the host
};

class StepReader {
 public:
  StepReader(const Trace& trace, const std::string& file, Moment begin, Moment end,
             const std::vector<std::int64_t>& sizes)
      : trace_(trace), file_(file), pace_(trace.kernels), begin_(begin), end_(end), sizes_(sizes) {}

  Result<TracedStep> Read(std::int64_t number) {
    step_.number = number;
    for (const Operator& op : trace_.operators) {
      if (op.start < begin_ || op.start >= end_) continue;
      if (op.node >= 0) {
        nodes_.push_back({&op, trace_.nodes[static_cast<std::size_t>(op.node)]});
      }
    }
    if (nodes_.empty()) {
      return Fail("kineto.no-backward", fmt::format("step {} has no autograd nodes", number),
                  "trace with torch.profiler.ProfilerActivity.CPU, around forward and backward");
    }
    KeepLastMicroBatch();
    backward_begin_ = nodes_.front().event->start;
    FindCollectives();
    std::vector<Group> groups = Groups();
    if (groups.empty() && !sizes_.empty()) {
      const auto gradients = static_cast<std::size_t>(std::count_if(
          nodes_.begin(), nodes_.end(), [](const Node& node) { return node.accumulates(); }));
      if (gradients != sizes_.size()) {
        return Fail("kineto.other-model",
                    fmt::format("the traced step has the gradients of {} parameters, the model has "
                                "{} parameters",
                                gradients, sizes_.size()),
                    "name the model that was traced");
      }
      groups = GroupsOfModel();
    }
    if (groups.empty()) groups = GroupsOfBuckets();
    if (groups.empty()) {
      return Fail("kineto.no-sizes",
                  "the trace tells neither the parameters' sizes nor those of NCCL's collectives",
                  "name the model that was traced, --model NAME, or trace with record_shapes=True");
    }
    if (groups.size() > kMostLayers) return TooMany(file_);
    Fill(groups);
    return std::move(step_);
  }

 private:
  tl::unexpected<Diagnostics> Fail(const char* code, std::string message, std::string hint) const {
    return tl::unexpected(Diagnostics{{code, {file_, 0, 0}, std::move(message), std::move(hint)}});
  }

  bool InsideNode(const Operator& op) const {
    const auto after =
        std::upper_bound(nodes_.begin(), nodes_.end(), op.start,
                         [](Moment start, const Node& node) { return start < node.event->start; });
    if (after == nodes_.begin()) return false;
    const Operator& node = *(after - 1)->event;
    return node.thread == op.thread && op.start < node.end;
  }

  // With gradient accumulation a step has several forward and backward passes; gradients are
  // reduced in the last.
  void KeepLastMicroBatch() {
    std::size_t first = 0;
    forward_begin_ = begin_;
    for (const Operator& op : trace_.operators) {
      // An operator of a forward pass after backward nodes have run. Operators inside a node may
      // have a sequence number too.
      const bool forward = op.sequence && *op.sequence >= 0 && op.node < 0 && !InsideNode(op);
      if (!forward || op.start < nodes_[first].event->start || op.start >= end_) continue;
      std::size_t next = first;
      while (next < nodes_.size() && nodes_[next].event->start < op.start) ++next;
      if (next == nodes_.size()) break;  // a forward without a backward: an evaluation
      if (next == first) continue;
      ++step_.micro_batches;
      forward_begin_ = nodes_[next - 1].event->end;
      first = next;
    }
    nodes_.erase(nodes_.begin(), nodes_.begin() + static_cast<std::ptrdiff_t>(first));
    if (step_.micro_batches > 1) {
      step_.notes.push_back(
          fmt::format("the step has {} micro-batches; layer times are those of the last one",
                      step_.micro_batches));
    }
  }

  void FindCollectives() {
    const Moment backward_end = nodes_.back().event->end;
    bool unsized = false;
    for (const Kernel& kernel : trace_.kernels) {
      if (!kernel.nccl() || kernel.launch < begin_ || kernel.launch >= end_) continue;
      TracedCollective collective = trace_.collectives[static_cast<std::size_t>(kernel.collective)];
      collective.start = Duration(begin_, kernel.start);
      collective.duration = Duration(kernel.start, kernel.end);
      collective.gradients = IsAllReduce(collective) && kernel.launch >= backward_begin_ &&
                             kernel.launch <= backward_end;
      if (collective.gradients) {
        bucket_launches_.push_back(kernel.launch);
        last_bucket_end_ = std::max(last_bucket_end_, kernel.end);
        unsized = unsized || collective.elements == 0;
      }
      step_.collectives.push_back(std::move(collective));
    }
    if (bucket_launches_.empty()) {
      step_.notes.emplace_back(
          "no all-reduce was launched during the backward: the trace is not one of DDP on several "
          "GPUs, or was taken without CUDA activities");
    } else if (unsized) {
      step_.notes.emplace_back("NCCL's sizes were not recorded (torch 2.1 and later do)");
    }
  }

  // Groups by AccumulateGrad, if shapes were recorded.
  std::vector<Group> Groups() const {
    // Shapes are in the node's own event, inside the engine's event.
    std::map<std::int64_t, std::vector<const Operator*>> shapes;  // by thread, by start
    for (const Operator& op : trace_.operators) {
      if (op.accumulates && op.start >= backward_begin_ && op.start < end_) {
        shapes[op.thread].push_back(&op);
      }
    }
    const auto elements_of = [&](const Operator& event) -> std::int64_t {
      if (event.elements > 0) return event.elements;
      const auto found = shapes.find(event.thread);
      if (found == shapes.end()) return 0;
      const auto inner =
          std::lower_bound(found->second.begin(), found->second.end(), event.start,
                           [](const Operator* op, Moment start) { return op->start < start; });
      if (inner == found->second.end() || (*inner)->start > event.end) return 0;
      return (*inner)->elements;
    };
    return GroupedBy(elements_of);
  }

  // The same with the sizes of a model's parameters, in reverse order.
  std::vector<Group> GroupsOfModel() {
    std::size_t left = sizes_.size();
    std::vector<Group> groups = GroupedBy([&](const Operator&) { return sizes_[--left]; });
    step_.notes.emplace_back(
        "the parameters' shapes were not recorded (record_shapes=True): sizes are the model's, "
        "gradients in the reverse order of its parameters");
    return groups;
  }

  // Groups by AccumulateGrad, with the elements from `elements_of`; nothing if that is 0.
  template <typename ElementsOf>
  std::vector<Group> GroupedBy(const ElementsOf& elements_of) const {
    std::vector<Group> groups;
    const Node* maker = nullptr;
    bool open = false;
    for (const Node& node : nodes_) {
      if (!node.accumulates()) {
        maker = &node;
        open = false;
        continue;
      }
      const std::int64_t elements = elements_of(*node.event);
      if (elements == 0) return {};
      if (!open) {
        groups.emplace_back();
        if (maker != nullptr) {
          groups.back().sequence = maker->event->sequence;
          groups.back().node = maker->what;
        }
        open = true;
      }
      groups.back().elements.push_back(elements);
      groups.back().ready = node.event->end;
    }
    return groups;
  }

  // One group per bucket: all that is known without shapes.
  std::vector<Group> GroupsOfBuckets() {
    std::vector<Group> groups;
    std::size_t launch = 0;
    for (const TracedCollective& collective : step_.collectives) {
      if (!collective.gradients) continue;
      if (collective.elements == 0) return {};
      Group group;
      group.node = "bucket";
      group.elements = {collective.elements};
      group.ready = bucket_launches_[launch++];
      groups.push_back(std::move(group));
    }
    if (!groups.empty()) {
      step_.notes.emplace_back(
          "the parameters' shapes were not recorded (record_shapes=True): each bucket is one "
          "tensor, so other bucket sizes cannot be forecast");
    }
    return groups;
  }

  // Start times of forward operators on the host, by the sequence number shared with their nodes.
  // Of nested operators, the outermost counts.
  std::unordered_map<std::int64_t, Moment> ForwardStarts() const {
    std::unordered_map<std::int64_t, Moment> starts;
    for (const Operator& op : trace_.operators) {  // by start
      if (op.start < forward_begin_ || !op.sequence || op.node >= 0) continue;
      if (op.start >= backward_begin_) break;
      starts.emplace(*op.sequence, op.start);
    }
    return starts;
  }

  // "convolution.7" from ConvolutionBackward0.
  static std::string NameOf(std::string_view node, std::size_t index) {
    std::string name;
    for (const char c : node.substr(0, node.find("Backward"))) {
      const auto byte = static_cast<unsigned char>(c);
      name += std::isalnum(byte) ? static_cast<char>(std::tolower(byte)) : '_';
    }
    return fmt::format("{}.{}", name.empty() ? "layer" : name, index);
  }

  void Fill(const std::vector<Group>& groups) {
    const Moment forward_begin = pace_.At(forward_begin_);
    const Moment turn = std::max(forward_begin, pace_.At(backward_begin_));
    std::vector<model::ListedLayer> ready(groups.size());  // in the order of readiness
    Moment before = turn;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      model::ListedLayer& layer = ready[i];
      layer.name = NameOf(groups[i].node, groups.size() - 1 - i);
      layer.parameters.assign(groups[i].elements.rbegin(), groups[i].elements.rend());
      const Moment now = std::max(before, pace_.At(groups[i].ready));
      layer.backward = Time::FromPicoseconds(now - before);
      before = now;
    }
    const Moment backward_end = before;
    FillForward(groups, forward_begin, turn, ready);

    step_.forward = Time::FromPicoseconds(turn - forward_begin);
    step_.backward = Time::FromPicoseconds(backward_end - turn);
    step_.exposed_communication = Duration(backward_end, last_bucket_end_);
    const Moment begin = pace_.At(begin_);
    step_.duration = Duration(begin, pace_.At(end_));
    // Micro-batches of equal length may add up to more than the step; then nothing is left.
    const Time passes = step_.forward + step_.backward;
    const Time left = step_.duration - std::min(step_.duration, step_.exposed_communication);
    const bool more =
        passes > Time() && left.picoseconds() / passes.picoseconds() < step_.micro_batches;
    step_.layers.optimizer_step = more ? Time() : left - step_.micro_batches * passes;
    for (const Kernel& kernel : trace_.kernels) {
      if (kernel.nccl() || kernel.launch < begin_ || kernel.launch >= end_) continue;
      const Time duration = Duration(kernel.start, kernel.end);
      if (step_.kernels < Time::Max() - duration) step_.kernels += duration;
    }
    step_.layers.layers.assign(std::make_move_iterator(ready.rbegin()),
                               std::make_move_iterator(ready.rend()));
    step_.notes.emplace_back(
        "the trace does not tell what is kept from forward to backward: activation is 0 B");
  }

  // Divides the forward pass at the operators that made the layers' nodes. Time before the first
  // operator belongs to the first layer.
  void FillForward(const std::vector<Group>& groups, Moment begin, Moment end,
                   std::vector<model::ListedLayer>& ready) {
    std::vector<std::pair<Moment, std::size_t>> starts;
    const std::unordered_map<std::int64_t, Moment> operators = ForwardStarts();
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (!groups[i].sequence) continue;
      const auto found = operators.find(*groups[i].sequence);
      if (found != operators.end()) starts.emplace_back(found->second, i);
    }
    if (starts.empty()) {
      // In proportion to the backward times.
      step_.notes.emplace_back(
          "forward and backward are not tied by sequence numbers: the forward is divided as the "
          "backward is");
      const std::int64_t total = std::accumulate(
          ready.begin(), ready.end(), std::int64_t{0},
          [](std::int64_t sum, const auto& layer) { return sum + layer.backward.picoseconds(); });
      Moment given = 0, sum = 0;
      for (std::size_t i = 0; i < ready.size(); ++i) {
        sum += ready[i].backward.picoseconds();
        const Moment until = i + 1 == ready.size() || total == 0
                                 ? (i + 1 == ready.size() ? end - begin : 0)
                                 : static_cast<Moment>(static_cast<long double>(end - begin) *
                                                       static_cast<long double>(sum) /
                                                       static_cast<long double>(total));
        ready[i].forward = Time::FromPicoseconds(std::max<Moment>(until - given, 0));
        given = std::max(given, until);
      }
      return;
    }
    std::sort(starts.begin(), starts.end());
    Moment before = begin;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const Moment until = i + 1 == starts.size()
                               ? end
                               : std::min(end, std::max(before, pace_.At(starts[i + 1].first)));
      ready[starts[i].second].forward += Time::FromPicoseconds(until - before);
      before = until;
    }
  }

  const Trace& trace_;
  const std::string& file_;
  const Pace pace_;
  const Moment begin_, end_;  // of the step, on the host
  const std::vector<std::int64_t>& sizes_;
  Moment forward_begin_ = 0, backward_begin_ = 0;
  Moment last_bucket_end_ = std::numeric_limits<Moment>::min();
  std::vector<Node> nodes_;
  std::vector<Moment> bucket_launches_;
  TracedStep step_;
};

// A step that may be chosen.
struct Candidate {
  std::int64_t number;
  Moment begin, end;
};

// A step lasts until the next one begins, and the last one as long as its annotation. Without
// annotations it ends with the optimizer's annotation, or is the whole trace.
std::vector<Candidate> StepsOf(const Trace& trace) {
  std::vector<Candidate> steps;
  for (std::size_t i = 0; i < trace.steps.size(); ++i) {
    const bool last = i + 1 == trace.steps.size();
    steps.push_back({trace.steps[i].number, trace.steps[i].start,
                     last ? trace.steps[i].end : trace.steps[i + 1].start});
  }
  if (!steps.empty() || trace.operators.empty()) return steps;
  Moment begin = trace.operators.front().start, end = begin;
  for (const Operator& op : trace.operators) end = std::max(end, op.end);
  for (const Annotation& update : trace.updates) {
    steps.push_back({static_cast<std::int64_t>(steps.size()), begin, update.end});
    begin = update.end;
  }
  if (steps.empty()) steps.push_back({0, begin, end});
  return steps;
}

bool HasBackward(const Trace& trace, const Candidate& step) {
  return std::any_of(trace.operators.begin(), trace.operators.end(), [&step](const Operator& op) {
    return op.node >= 0 && op.start >= step.begin && op.start < step.end;
  });
}

}  // namespace

Result<TracedStep> ParseKineto(std::string_view text, const std::string& file,
                               std::optional<std::int64_t> step,
                               const std::vector<std::int64_t>& sizes) {
  return ParseKineto([&text] { return std::exchange(text, {}); }, file, step, sizes);
}

Result<TracedStep> ParseKineto(const TextBlocks& blocks, const std::string& file,
                               std::optional<std::int64_t> step,
                               const std::vector<std::int64_t>& sizes) {
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
      return fail("file.not-json", "this is not a trace in JSON, or it was cut off",
                  "name what torch.profiler's export_chrome_trace wrote");
    case Collector::End::kTooDeep:
      return fail("json.too-deep", "brackets are nested deeper than those of a trace",
                  "name what torch.profiler's export_chrome_trace wrote");
    case Collector::End::kTooMany:
      return TooMany(file);
  }
  const Trace trace = collector.Finish();
  std::vector<Candidate> candidates = StepsOf(trace);
  if (candidates.empty()) {
    return fail(
        "kineto.no-step", "the trace has no annotation ProfilerStep#N, and no operators",
        "trace CPU activities; with a schedule, call step() of the profiler after each step");
  }
  const auto read = [&](const Candidate& candidate) {
    auto traced =
        StepReader(trace, file, candidate.begin, candidate.end, sizes).Read(candidate.number);
    if (traced && trace.steps.empty()) {
      traced->notes.emplace_back(
          trace.updates.empty()
              ? "the trace has no annotation ProfilerStep#N: all of it is taken as one step"
              : "the trace has no annotation ProfilerStep#N: steps end with the optimizer's");
    }
    return traced;
  };
  if (step) {
    for (const Candidate& candidate : candidates) {
      if (candidate.number == *step) return read(candidate);
    }
    return fail(
        "kineto.no-such-step", fmt::format("the trace has no ProfilerStep#{}", *step),
        fmt::format("it has {} to {}", candidates.front().number, candidates.back().number));
  }
  std::vector<Candidate> trained;
  std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(trained),
               [&trace](const Candidate& candidate) { return HasBackward(trace, candidate); });
  if (trained.empty()) return read(candidates.front());  // which says so
  std::stable_sort(trained.begin(), trained.end(), [](const Candidate& a, const Candidate& b) {
    return a.end - a.begin < b.end - b.begin;
  });
  return read(trained[(trained.size() - 1) / 2]);
}

}  // namespace stepcast::formats
