#include "src/formats/kineto.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "fmt/format.h"
#include "src/formats/kineto_trace.h"

namespace stepcast::formats {
namespace {

using Operator = KinetoOperator;
using Kernel = KinetoKernel;
using Annotation = KinetoAnnotation;
using Trace = KinetoTrace;
using Candidate = KinetoStep;

constexpr std::string_view kAccumulate = "torch::autograd::AccumulateGrad";

bool IsAllReduce(const TracedCollective& collective) {
  std::string name = LowerCase(collective.collective);
  name.erase(std::remove(name.begin(), name.end(), '_'), name.end());
  return name.find("allreduce") != std::string::npos;
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
                  "trace the forward and backward passes with torch.profiler.ProfilerActivity.CPU");
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
                    fmt::format("the traced step has gradients of {} parameters, but the model "
                                "has {} parameters",
                                gradients, sizes_.size()),
                    "add the option --model with the traced model");
      }
      groups = GroupsOfModel();
    }
    if (groups.empty()) groups = GroupsOfBuckets();
    if (groups.empty()) {
      return Fail(
          "kineto.no-sizes",
          "the trace does not contain the sizes of parameters or of NCCL's collectives",
          "add the option --model NAME with the traced model, or trace with record_shapes=True");
    }
    if (groups.size() > kMostKinetoLayers) return TooManyKinetoEvents(file_);
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
          fmt::format("the step has {} micro-batches; the layer times in the model file are from "
                      "the last micro-batch",
                      step_.micro_batches));
    }
  }

  void FindCollectives() {
    const Moment backward_end = nodes_.back().event->end;
    bool unsized = false;
    for (const Kernel& kernel : trace_.kernels) {
      if (!kernel.nccl() || kernel.launch < begin_ || kernel.launch >= end_) continue;
      const KinetoCollective& traced =
          trace_.collectives[static_cast<std::size_t>(kernel.collective)];
      TracedCollective collective{.collective = traced.collective,
                                  .elements = traced.elements,
                                  .data_type = traced.data_type,
                                  .ranks = traced.group_size,
                                  .start = Duration(begin_, kernel.start),
                                  .duration = Duration(kernel.start, kernel.end)};
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
          "the backward pass launched no all-reduce. The trace is not from DDP on several GPUs, or "
          "the trace has no CUDA activities");
    } else if (unsized) {
      step_.notes.emplace_back(
          "the trace has no sizes of NCCL's collectives; torch 2.1 or later records the sizes");
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
        "the trace has no shapes of parameters (record_shapes=True). Assumed: the sizes of the "
        "parameters of --model, with gradients in reverse order");
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
          "the trace has no shapes of parameters (record_shapes=True). Each bucket is modelled as "
          "one tensor, so forecasts with other bucket sizes are wrong");
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
        "the trace does not show the activations that are stored for the backward pass, so the key "
        "'activation' is 0 B");
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
          "the trace has no sequence numbers that connect forward and backward operations. "
          "Assumed: the forward time of each layer is proportional to its backward time");
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
  auto parsed = ReadKinetoTrace(blocks, file);
  if (!parsed) return tl::unexpected(std::move(parsed.error()));
  const Trace& trace = *parsed;
  std::vector<Candidate> candidates = StepsOf(trace);
  if (candidates.empty()) return NoKinetoStep(file);
  const auto read = [&](const Candidate& candidate) {
    auto traced =
        StepReader(trace, file, candidate.begin, candidate.end, sizes).Read(candidate.number);
    if (traced && trace.steps.empty()) {
      traced->notes.emplace_back(trace.updates.empty()
                                     ? "the trace has no annotation ProfilerStep#N, so the "
                                       "complete trace is used as one step"
                                     : "the trace has no annotation ProfilerStep#N. Assumed: each "
                                       "step ends with the optimizer's step");
    }
    return traced;
  };
  if (step) {
    for (const Candidate& candidate : candidates) {
      if (candidate.number == *step) return read(candidate);
    }
    return fail("kineto.no-such-step", fmt::format("the trace has no step ProfilerStep#{}", *step),
                fmt::format("choose a step from {} to {}", candidates.front().number,
                            candidates.back().number));
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
