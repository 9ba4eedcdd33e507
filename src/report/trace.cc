#include "src/report/trace.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/check.h"
#include "src/base/data_type.h"
#include "src/base/quantity.h"
#include "src/program/description.h"
#include "src/report/answer.h"
#include "src/report/message_arrows.h"
#include "src/report/step_figures.h"

namespace stepcast::report {
namespace {

using program::Index;
using program::Instruction;
using program::kNone;
using program::Opcode;

// Track numbers ("tid"): streams follow.
constexpr int kStepsTrack = 0;
constexpr int kHostTrack = 1;
constexpr int kFirstStreamTrack = 2;

std::string Quote(std::string_view text) { return OneLine(text); }

std::string Microseconds(Time time) {
  constexpr std::int64_t kPicoseconds = 1'000'000;
  STEPCAST_CHECK(time >= Time(), "a trace must start at zero");
  return fmt::format("{}.{:06}", time.picoseconds() / kPicoseconds,
                     time.picoseconds() % kPicoseconds);
}

// The name in NCCL's kernels: "AllReduce" for "all_reduce".
std::string CollectiveName(CollectiveKind kind) {
  std::string name;
  bool first = true;
  for (const char c : Name(kind)) {
    if (c != '_')
      name += first ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    first = c == '_';
  }
  return name;
}

// c10d's name of the operation (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp,
// RECORD_PARAM_COMMS).
std::string_view KinetoName(CollectiveKind kind) {
  if (kind == CollectiveKind::kAllReduce) return "allreduce";
  if (kind == CollectiveKind::kReduceScatter) return "_reduce_scatter_base";
  if (kind == CollectiveKind::kAllGather) return "_allgather_base";
  return kind == CollectiveKind::kSendRecv ? "send" : Name(kind);
}

// PyTorch's names of data types (c10/core/ScalarType.h), in the order of DataType.
constexpr const char* kKinetoTypes[] = {
    "Float", "BFloat16", "Half", "Float8_e4m3fn", "Float", "Float8_e4m3fn", "Float4_e2m1fn_x2"};
static_assert(std::size(kKinetoTypes) == kDataTypeCount);

std::string RankList(const std::vector<int>& ranks, std::size_t most) {
  const std::size_t shown = std::min(ranks.size(), most);
  return fmt::format("[{}{}]", fmt::join(ranks.begin(), ranks.begin() + shown, ", "),
                     shown < ranks.size() ? ", ..." : "");
}

// The fields that analyzers of PyTorch's traces read from a collective. Elements are counted as in
// c10d: those that a rank sends, and those that it receives.
std::string KinetoArgs(const program::Collective& collective, std::size_t group_number,
                       const program::ProcessGroup& group) {
  const auto ranks = static_cast<std::int64_t>(std::max<std::size_t>(1, group.ranks.size()));
  const std::int64_t whole = collective.bytes.count() / SizeOf(collective.data_type);
  std::int64_t in = whole, out = whole;
  if (collective.kind == CollectiveKind::kAllGather || collective.kind == CollectiveKind::kGather) {
    in /= ranks;
  }
  if (collective.kind == CollectiveKind::kReduceScatter ||
      collective.kind == CollectiveKind::kScatter) {
    out /= ranks;
  }
  constexpr std::size_t kMostRanks = 30;  // as many as PyTorch writes before "..."
  return fmt::format(
      ", \"Collective name\": \"{}\", \"In msg nelems\": {}, \"Out msg nelems\": {}, "
      "\"Group size\": {}, \"dtype\": \"{}\", \"In split size\": \"[]\", "
      "\"Out split size\": \"[]\", \"Process Group Name\": \"{}\", "
      "\"Process Group Description\": {}, \"Process Group Ranks\": \"{}\"",
      KinetoName(collective.kind), in, out, ranks,
      kKinetoTypes[static_cast<std::size_t>(collective.data_type)], group_number, Quote(group.name),
      RankList(group.ranks, kMostRanks));
}

// The part of `distributedInfo` with the groups of collectives.
std::string GroupConfigurations(const program::Program& program) {
  std::string text;
  for (std::size_t i = 0; i < program.groups.size(); ++i) {
    const program::ProcessGroup& group = program.groups[i];
    text += fmt::format(
        "{}{{\"pg_name\": \"{}\", \"pg_desc\": {}, \"backend_config\": \"cuda:nccl\", "
        "\"pg_size\": {}, \"ranks\": {}}}",
        i == 0 ? "" : ", ", i, Quote(group.name), group.ranks.size(),
        RankList(group.ranks, group.ranks.size()));
  }
  return text;
}

// In the order of program::CopyDirection.
constexpr const char* kCopyNames[] = {"Memcpy DtoD", "Memcpy HtoD", "Memcpy DtoH"};

// The steps whose counters are written: the written steps, and steps up to the peak.
struct CountedSteps {
  std::uint32_t first = 0, last = 0;
};

CountedSteps CountedStepsOf(const TraceProcess& process) {
  const auto steps = static_cast<std::uint32_t>(process.timeline->step_ends.size());
  const std::uint32_t last = process.last_step.value_or(steps == 0 ? 0 : steps - 1);
  const std::uint32_t peak =
      memory::StepOfPeak(*process.program, process.memory, process.first_step, last);
  return {.first = std::min(process.first_step, peak), .last = std::max(last, peak)};
}

// The number of steps up to the last one written.
std::size_t StepsOf(const TraceProcess& process) {
  const std::size_t run = process.timeline->step_ends.size();
  return process.last_step ? std::min<std::size_t>(run, *process.last_step + 1) : run;
}

bool IsWritten(const TraceProcess& process, std::uint32_t step) {
  return step >= process.first_step && step < StepsOf(process);
}

// The text of all processes.
class Document {
 public:
  explicit Document(const TraceSink& sink) : sink_(sink) {}

  const char* Separator() { return std::exchange(first_event_, false) ? "" : ","; }

  // An end of an arrow: the slice of a track at a time. Viewers draw the arrow from the first
  // slice's end.
  struct ArrowEnd {
    int process = 0, track = 0;
    Time time;
  };
  void Arrow(const char* name, const ArrowEnd& from, const ArrowEnd& to) {
    const auto end = [&](char phase, const char* binding, const ArrowEnd& end) {
      Append(
          "{}\n{{\"ph\": \"{}\", {}\"cat\": \"event\", \"name\": \"{}\", \"id\": {}, "
          "\"pid\": {}, \"tid\": {}, \"ts\": {}}}",
          Separator(), phase, binding, name, arrows_, end.process, end.track,
          Microseconds(end.time));
    };
    end('s', "", from);
    end('f', "\"bp\": \"e\", ", to);
    ++arrows_;
  }

  template <typename... Args>
  void Append(fmt::string_view form, const Args&... args) {
    fmt::vformat_to(std::back_inserter(buffer_), form, fmt::make_format_args(args...));
    constexpr std::size_t kEnough = 1 << 16;
    if (buffer_.size() >= kEnough) Flush();
  }

  tl::expected<void, std::string> End() {
    buffer_.append(std::string_view("\n]}\n"));
    Flush();
    if (failure_) return tl::unexpected(*failure_);
    return {};
  }

 private:
  void Flush() {
    if (!failure_) {
      const auto result = sink_({buffer_.data(), buffer_.size()});
      if (!result) failure_ = result.error();
    }
    buffer_.clear();
  }

  const TraceSink& sink_;
  fmt::memory_buffer buffer_;
  bool first_event_ = true;
  std::int64_t arrows_ = 0;
  std::optional<std::string> failure_;
};

class TraceWriter {
 public:
  // `up`: the shift that makes all times of the trace nonnegative.
  TraceWriter(const TraceProcess& process, Time up, Document& document)
      : process_(process),
        program_(*process.program),
        timeline_(*process.timeline),
        shift_(process.shift + up),
        document_(document),
        steps_(StepsOf(process)),
        first_step_(process.first_step),
        last_ends_(process.program->streams.size()) {
    PrepareOperations();
    PrepareRecords();
    for (const std::string& label : program_.labels) labels_.push_back(Quote(label));
  }

  void Write() {
    Begin();
    Steps();
    for (const program::OperationRecord& record : timeline_.operations) {
      if (IsWritten(record.step)) Operation(record);
    }
    for (const program::WaitRecord& record : timeline_.waits) {
      if (IsWritten(record.step)) HostWait(record);
    }
    Memory();
    Arrows();
  }

 private:
  // The constant part of a table entry's slices: its name and part of its args.
  struct Slice {
    std::string name;  // quoted
    std::string args;  // `, "key": value` ...
  };

  bool IsWritten(std::uint32_t step) const { return report::IsWritten(process_, step); }

  const Instruction& At(Index instruction) const {
    STEPCAST_CHECK(instruction < program_.step.size(),
                   "a record must refer to an instruction of "
                   "the step");
    return program_.step[instruction];
  }

  void PrepareOperations() {
    static const cost::Prices kNone{};
    const cost::Prices& prices = process_.prices != nullptr ? *process_.prices : kNone;
    const auto provenance = [](const cost::Demand& demand) {
      return fmt::format(", \"provenance\": \"{}\"", cost::Name(demand.provenance));
    };
    for (std::size_t i = 0; i < program_.kernels.size(); ++i) {
      const Kernel& kernel = program_.kernels[i];
      std::string args = fmt::format(", \"flops\": {}, \"bytes\": {}", kernel.flops,
                                     kernel.read.count() + kernel.written.count());
      if (i < prices.kernels.size()) args += provenance(prices.kernels[i]);
      kernels_.push_back({Quote(kernel.name), std::move(args)});
    }
    for (std::size_t i = 0; i < program_.copies.size(); ++i) {
      const program::Copy& copy = program_.copies[i];
      std::string args = fmt::format(", \"bytes\": {}", copy.bytes.count());
      if (i < prices.copies.size()) args += provenance(prices.copies[i]);
      copies_.push_back(
          {Quote(fmt::format("{} ({})", kCopyNames[static_cast<std::size_t>(copy.direction)],
                             FormatBytes(copy.bytes))),
           std::move(args)});
    }
    for (std::size_t i = 0; i < program_.collectives.size(); ++i) {
      const program::Collective& collective = program_.collectives[i];
      const program::Communicator& communicator = program_.communicators[collective.communicator];
      const program::ProcessGroup& group = program_.groups[communicator.group];
      std::string name = fmt::format("ncclDevKernel_{}", CollectiveName(collective.kind));
      std::string args = fmt::format(
          ", \"collective\": \"{}\", \"bytes\": {}, \"group\": {}, \"group_size\": {}",
          Name(collective.kind), collective.bytes.count(), Quote(group.name), group.ranks.size());
      args += KinetoArgs(collective, communicator.group, group);
      if (i < prices.collectives.size()) {
        const cost::CollectivePrice& price = prices.collectives[i];
        name += '_';
        for (const char* c = price.algorithm; *c != '\0'; ++c) {
          name += static_cast<char>(std::toupper(static_cast<unsigned char>(*c)));
        }
        args += fmt::format(", \"algorithm\": {}", Quote(price.algorithm));
        args += provenance(price.demand);
      }
      collectives_.push_back(
          {Quote(fmt::format("{} ({})", name, FormatBytes(collective.bytes))), std::move(args)});
    }
    for (std::size_t i = 0; i < program_.exchanges.size(); ++i) {
      const program::Exchange& exchange = program_.exchanges[i];
      std::string args = ExchangeArgs(exchange);
      if (i < prices.exchanges.size()) args += provenance(prices.exchanges[i].front().demand);
      Bytes moved;
      for (const program::Message& message : exchange.messages) moved += message.bytes;
      exchanges_.push_back(
          {Quote(fmt::format("ncclDevKernel_SendRecv ({})", FormatBytes(moved))), std::move(args)});
    }
    for (const program::HostTask& task : program_.host_tasks) {
      host_tasks_.push_back({Quote(task.name), ""});
    }
  }

  // The bytes sent and received, and the peers' ranks.
  std::string ExchangeArgs(const program::Exchange& exchange) const {
    const program::ProcessGroup& group =
        program_.groups[program_.communicators[exchange.communicator].group];
    const int own = group.PositionOf(program_.rank);
    std::string messages;
    for (const program::Message& message : exchange.messages) {
      if (!messages.empty()) messages += ", ";
      const int peer = exchange.PeerPosition(message, own, static_cast<int>(group.ranks.size()));
      messages += fmt::format("{{\"direction\": \"{}\", \"peer\": {}, \"bytes\": {}}}",
                              Name(message.direction), group.ranks[static_cast<std::size_t>(peer)],
                              message.bytes.count());
    }
    return fmt::format(", \"group\": {}, \"messages\": [{}]", Quote(group.name), messages);
  }

  // Indexes records by instruction and step, for the arrows.
  void PrepareRecords() {
    const auto index = [this](const auto& records, std::vector<Index>& by_key) {
      by_key.assign(steps_ * program_.step.size(), kNone);
      for (std::size_t i = 0; i < records.size(); ++i) {
        if (IsWritten(records[i].step)) by_key[Key(records[i])] = static_cast<Index>(i);
      }
    };
    index(timeline_.operations, records_);
    index(timeline_.waits, waits_);
  }

  template <typename Record>
  std::size_t Key(const Record& record) const {
    return record.step * program_.step.size() + record.instruction;
  }

  // Links a launch to its operation. Greater than zero, since analyzers ignore zero.
  std::size_t Correlation(const program::OperationRecord& record) const { return Key(record) + 1; }

  void Begin() {
    Metadata("process_name", kStepsTrack, process_.name);
    Append(
        "{}\n{{\"ph\": \"M\", \"name\": \"process_sort_index\", \"pid\": {}, \"args\": "
        "{{\"sort_index\": {}}}}}",
        Separator(), process_.id, process_.id);
    Track(kStepsTrack, "steps");
    Track(kHostTrack, "host");
    for (std::size_t i = 0; i < program_.streams.size(); ++i) {
      Track(kFirstStreamTrack + static_cast<int>(i), program_.streams[i].name);
    }
  }

  void Track(int track, const std::string& name) {
    Metadata("thread_name", track, name);
    Append(
        "{}\n{{\"ph\": \"M\", \"name\": \"thread_sort_index\", \"pid\": {}, \"tid\": {}, "
        "\"args\": {{\"sort_index\": {}}}}}",
        Separator(), process_.id, track, track);
  }

  void Metadata(const char* what, int track, const std::string& name) {
    Append(
        "{}\n{{\"ph\": \"M\", \"name\": \"{}\", \"pid\": {}, \"tid\": {}, "
        "\"args\": {{\"name\": {}}}}}",
        Separator(), what, process_.id, track, Quote(name));
  }

  // The start of the first written step.
  Time Origin() const { return first_step_ == 0 ? Time() : timeline_.step_ends[first_step_ - 1]; }

  void Steps() {
    Time begin = Origin();
    for (std::size_t i = first_step_; i < steps_; ++i) {
      const Time end = timeline_.step_ends[i];
      BeginSlice(fmt::format("\"ProfilerStep#{}\"", i), "user_annotation", kStepsTrack, begin, end);
      Append("\"step\": {}, \"forecast\": {}}}}}", i, i == process_.marked_step);
      begin = end;
    }
  }

  void BeginSlice(std::string_view quoted_name, const char* category, int track, Time start,
                  Time end) {
    Append(
        "{}\n{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": {}, \"pid\": {}, \"tid\": {}, "
        "\"ts\": {}, \"dur\": {}, \"args\": {{",
        Separator(), category, quoted_name, process_.id, track, Microseconds(start + shift_),
        Microseconds(end - start));
  }

  void Operation(const program::OperationRecord& record) {
    const Instruction& instruction = At(record.instruction);
    const auto launched = [&](const char* call, Time cost, const std::vector<Slice>& slices,
                              const char* category) {
      Issue(call, cost, record);
      StreamSlice(slices[instruction.operand], category, record);
    };
    const cost::Prices* const prices = process_.prices;
    const Time collective = prices != nullptr ? prices->issue_collective : Time();
    switch (instruction.opcode) {
      case Opcode::kKernel:
        return launched(
            "cudaLaunchKernel",
            prices != nullptr ? prices->IssueOf(program_.kernels[instruction.operand]) : Time(),
            kernels_, "kernel");
      case Opcode::kCopy:
        return launched("cudaMemcpyAsync", prices != nullptr ? prices->issue_copy : Time(), copies_,
                        "gpu_memcpy");
      case Opcode::kCollective:
        return launched("cudaLaunchKernelExC", collective, collectives_, "kernel");
      case Opcode::kExchange:
        return launched("cudaLaunchKernelExC", collective, exchanges_, "kernel");
      case Opcode::kHostTask:
        BeginSlice(host_tasks_[instruction.operand].name, "cpu_op", kHostTrack, record.start,
                   record.end);
        return EndArgs(record, instruction);
      default:
        STEPCAST_CHECK(false, "only operations may have operation records");
    }
  }

  void StreamSlice(const Slice& slice, const char* category,
                   const program::OperationRecord& record) {
    const Instruction& instruction = At(record.instruction);
    // Measured operations may start slightly before the previous one's end.
    Time& last = last_ends_[instruction.stream];
    const Time start = std::max(record.start, std::min(last, record.end));
    const Time reached = std::max(record.ready, last);
    last = std::max(last, record.end);
    BeginSlice(slice.name, category, kFirstStreamTrack + instruction.stream, start, record.end);
    Append("\"stream\": {}, \"correlation\": {}{}, ", instruction.stream, Correlation(record),
           slice.args);
    // The time for which the stream waited for other ranks.
    constexpr std::int64_t kNanosecond = 1000;
    const std::int64_t waited = (start - reached).picoseconds() / kNanosecond;
    if (waited > 0) Append("\"waited_ns\": {}, ", waited);
    EndArgs(record, instruction);
  }

  // A measurement knows when, and not for how long.
  void Issue(const char* name, Time cost, const program::OperationRecord& record) {
    if (cost == Time() && process_.prices != nullptr) return;
    BeginSlice(fmt::format("\"{}\"", name), "cuda_runtime", kHostTrack, record.issued - cost,
               record.issued);
    Append("\"correlation\": {}}}}}", Correlation(record));
  }

  void EndArgs(const program::OperationRecord& record, const Instruction& instruction) {
    Append("\"phase\": \"{}\", \"micro_batch\": {}, \"step\": {}", Name(instruction.phase),
           instruction.micro_batch, record.step);
    if (instruction.label != kNone) Append(", \"label\": {}", labels_[instruction.label]);
    Append("}}}}");
  }

  void HostWait(const program::WaitRecord& record) {
    const Instruction& instruction = At(record.instruction);
    if (instruction.opcode != Opcode::kHostWaitEvent) return;
    BeginSlice("\"cudaEventSynchronize\"", "cuda_runtime", kHostTrack, record.start, record.end);
    Append("\"event\": {}, \"step\": {}}}}}",
           Quote(program_.NameOf(program_.events[instruction.operand])), record.step);
  }

  // Counters start with the buffers of the prologue and of earlier steps.
  void Memory() {
    const std::vector<memory::Change>& changes = process_.memory.changes;
    if (changes.empty()) return;
    const CountedSteps counted = CountedStepsOf(process_);
    const std::uint32_t from = counted.first;
    memory::Balance balance;
    memory::BytesByCategory fullest{};
    auto next = changes.begin();
    for (; next != changes.end() && (next->step < from || next->instruction == kNone); ++next) {
      balance.Apply(program_, *next);
      if (next->step < from || balance.total() > Total(fullest)) fullest = balance.by_category();
    }
    // The host may run ahead of the device, and allocate for a step before the previous one ends.
    Time time = from == 0 ? Time() : timeline_.step_ends[from - 1];
    if (next != changes.end()) time = std::min(time, next->time);
    memory::BytesByCategory shown{};
    bool first = true;
    const auto show = [&](const memory::BytesByCategory& bytes) {
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (!first && bytes[i] == shown[i]) continue;
        Append(
            "{}\n{{\"ph\": \"C\", \"name\": \"memory: {}\", \"pid\": {}, \"ts\": {}, "
            "\"args\": {{\"bytes\": {}}}}}",
            Separator(), kCategoryNames[i], process_.id, Microseconds(time + shift_),
            bytes[i].count());
      }
      shown = bytes;
      first = false;
    };
    // At equal times, only the largest state and the last one are shown.
    const auto show_instant = [&] {
      if (Total(fullest) > balance.total()) show(fullest);
      show(balance.by_category());
    };
    for (; next != changes.end() && next->step <= counted.last; ++next) {
      if (next->time != time) {
        show_instant();
        time = next->time;
        fullest = balance.by_category();
      }
      balance.Apply(program_, *next);
      if (balance.total() > Total(fullest)) fullest = balance.by_category();
    }
    show_instant();
  }

  // An event marks the last operation issued on its stream; a wait for the event waits for that
  // operation.
  void Arrows() {
    const std::size_t streams = program_.streams.size();
    std::vector<Index> last(streams, kNone);                   // records
    std::vector<std::vector<Index>> waited_for(streams);       // records
    std::vector<Index> marked(program_.events.size(), kNone);  // records
    for (std::size_t step = 0; step < steps_; ++step) {
      for (std::size_t i = 0; i < program_.step.size(); ++i) {
        const Instruction& instruction = program_.step[i];
        const std::size_t key = step * program_.step.size() + i;
        if (program::IsLaunched(instruction.opcode)) {
          const Index here = records_[key];
          if (here == kNone) continue;  // its step is not written
          last[instruction.stream] = here;
          for (const Index source : waited_for[instruction.stream]) Arrow(source, here);
          waited_for[instruction.stream].clear();
        } else if (instruction.opcode == Opcode::kRecordEvent) {
          marked[instruction.operand] = last[instruction.stream];
        } else if (instruction.opcode == Opcode::kWaitEvent) {
          const Index source = marked[instruction.operand];
          if (source != kNone && StreamOf(source) != instruction.stream) {
            waited_for[instruction.stream].push_back(source);
          }
        } else if (instruction.opcode == Opcode::kHostWaitEvent) {
          const Index source = marked[instruction.operand];
          const Index wait = waits_[key];
          if (source != kNone && wait != kNone) {
            Arrow(source, timeline_.waits[wait].start, kHostTrack);
          }
        }
      }
    }
  }

  std::uint16_t StreamOf(Index record) const {
    return program_.step[timeline_.operations[record].instruction].stream;
  }

  void Arrow(Index source, Index target) {
    Arrow(source, timeline_.operations[target].start, kFirstStreamTrack + StreamOf(target));
  }

  void Arrow(Index source, Time target_start, int target_track) {
    document_.Arrow("waits for",
                    {process_.id, kFirstStreamTrack + StreamOf(source),
                     timeline_.operations[source].start + shift_},
                    {process_.id, target_track, target_start + shift_});
  }

  const char* Separator() { return document_.Separator(); }

  template <typename... Args>
  void Append(fmt::string_view form, const Args&... args) {
    document_.Append(form, args...);
  }

  const TraceProcess& process_;
  const program::Program& program_;
  const program::Timeline& timeline_;
  const Time shift_;
  Document& document_;
  const std::size_t steps_;
  const std::uint32_t first_step_;  // earlier ones are not written

  std::vector<Slice> kernels_, copies_, collectives_, exchanges_, host_tasks_;
  std::vector<std::string> labels_;  // quoted
  std::vector<Index> records_;       // by step and instruction: index into timeline operations
  std::vector<Index> waits_;         // likewise, into timeline waits
  std::vector<Time> last_ends_;      // by stream, of the slices written
};

// Arrows from sends of one process to receives of another. An exchange that receives may have
// started before its peer reached it.
void WriteMessages(std::span<const TraceProcess> processes, Time up, Document& document) {
  std::vector<RankTimeline> ranks;
  for (const TraceProcess& process : processes) {
    ranks.push_back({process.program, process.timeline});
  }
  for (const MessageArrow& arrow : MessageArrows(ranks)) {
    const TraceProcess& sender = processes[arrow.from_rank];
    const TraceProcess& receiver = processes[arrow.to_rank];
    const program::OperationRecord& send = sender.timeline->operations[arrow.send];
    const program::OperationRecord& receive = receiver.timeline->operations[arrow.receive];
    if (!IsWritten(sender, send.step) || !IsWritten(receiver, receive.step)) continue;
    const auto track = [](const TraceProcess& process, const program::OperationRecord& record) {
      return kFirstStreamTrack + process.program->step[record.instruction].stream;
    };
    const Time sent = send.start + sender.shift + up;
    const Time received = receive.start + receiver.shift + up;
    document.Arrow("message", {sender.id, track(sender, send), sent},
                   {receiver.id, track(receiver, receive), std::max(sent, received)});
  }
}

// The earliest time in a process.
Time Earliest(const TraceProcess& process) {
  Time earliest;
  const auto see = [&](std::uint32_t step, Time time) {
    if (step > process.last_step.value_or(step)) return;
    if (step >= process.first_step) earliest = std::min(earliest, time + process.shift);
  };
  see(process.first_step,
      process.first_step == 0 ? Time() : process.timeline->step_ends[process.first_step - 1]);
  for (const program::OperationRecord& record : process.timeline->operations) {
    see(record.step, std::min(record.issued, record.start));
  }
  for (const program::WaitRecord& record : process.timeline->waits) see(record.step, record.start);
  const CountedSteps counted = CountedStepsOf(process);
  for (const memory::Change& change : process.memory.changes) {
    if (change.step < counted.first || change.step > counted.last) continue;
    earliest = std::min(earliest, change.time + process.shift);
  }
  return earliest;
}

}  // namespace

tl::expected<void, std::string> WriteTrace(std::span<const TraceProcess> processes,
                                           const TraceSubject& subject, const TraceSink& sink) {
  Document document(sink);
  document.Append(
      "{{\"schemaVersion\": 1, \"displayTimeUnit\": \"ms\",\n"
      "\"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {}, \"world_size\": {}, "
      "\"pg_count\": {}, \"pg_config\": [{}]}},\n"
      "\"otherData\": {{\"generator\": \"stepcast\", \"scenario\": {}}},\n"
      "\"traceEvents\": [",
      subject.rank, subject.ranks, processes.empty() ? 0 : processes.front().program->groups.size(),
      processes.empty() ? "" : GroupConfigurations(*processes.front().program),
      Quote(subject.scenario));
  Time earliest;
  for (const TraceProcess& process : processes) earliest = std::min(earliest, Earliest(process));
  for (const TraceProcess& process : processes) {
    TraceWriter(process, Time() - earliest, document).Write();
  }
  WriteMessages(processes, Time() - earliest, document);
  return document.End();
}

TraceProcess ForecastProcess(const forecast::Run& run, const forecast::ClassRun& own, int id,
                             std::string name, int steps) {
  STEPCAST_CHECK(run.first_step < own.timeline.step_ends.size(),
                 "the step of the forecast must "
                 "have been simulated");
  const auto before = static_cast<std::uint32_t>(std::max(steps, 1) - 1);
  return {.id = id,
          .name = std::move(name),
          .program = &own.program,
          .timeline = &own.timeline,
          .memory = own.memory,
          .prices = &own.prices,
          .first_step = run.first_step > before ? run.first_step - before : 0,
          .last_step = run.first_step,
          .marked_step = run.first_step};
}

std::vector<TraceProcess> ForecastProcesses(const forecast::Run& run, int steps) {
  std::vector<TraceProcess> processes;
  for (const forecast::ClassRun& own : run.classes) {
    processes.push_back(
        ForecastProcess(run, own, own.first_rank, fmt::format("rank {}", own.first_rank), steps));
  }
  return processes;
}

tl::expected<void, std::string> WriteTrace(const forecast::Run& run, const TraceSubject& subject,
                                           const TraceSink& sink, int steps) {
  return WriteTrace(ForecastProcesses(run, steps), subject, sink);
}

}  // namespace stepcast::report
