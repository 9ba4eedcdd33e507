#include "src/program/validator.h"

#include <algorithm>
#include <ostream>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "src/program/description.h"

namespace stepcast::program {

const char* Name(ViolationKind kind) {
  switch (kind) {
    case ViolationKind::kIndex:
      return "index";
    case ViolationKind::kRace:
      return "race";
    case ViolationKind::kUseUnallocated:
      return "use-unallocated";
    case ViolationKind::kReleaseUnallocated:
      return "release-unallocated";
    case ViolationKind::kRecordUnallocated:
      return "record-unallocated";
    case ViolationKind::kAllocatedTwice:
      return "allocated-twice";
    case ViolationKind::kLeak:
      return "leak";
    case ViolationKind::kReleasedInUse:
      return "released-in-use";
    case ViolationKind::kUsedBeforeAllocation:
      return "used-before-allocation";
    case ViolationKind::kReadUnwritten:
      return "read-unwritten";
  }
  return "";
}

std::ostream& operator<<(std::ostream& out, const Violation& violation) {
  return out << Name(violation.kind) << ": " << violation.message;
}

namespace {

std::string Place(bool in_prologue, Index instruction) {
  return fmt::format("{}[{}]", in_prologue ? "prologue" : "step", instruction);
}

// Tables and instructions that point to what does not exist.
class IndexCheck {
 public:
  explicit IndexCheck(const Program& program) : program_(program) {}

  std::vector<Violation> Run() {
    CheckTables();
    for (Index i = 0; i < program_.prologue.size(); ++i) {
      CheckInstruction(true, i, program_.prologue[i]);
    }
    for (Index i = 0; i < program_.step.size(); ++i) {
      CheckInstruction(false, i, program_.step[i]);
    }
    return std::move(violations_);
  }

 private:
  void Report(std::string message) {
    violations_.push_back({ViolationKind::kIndex, false, kNone, std::move(message)});
  }
  void Report(bool in_prologue, Index instruction, std::string_view message) {
    violations_.push_back({ViolationKind::kIndex, in_prologue, instruction,
                           fmt::format("{} {}", Place(in_prologue, instruction), message)});
  }

  void CheckTables() {
    for (std::size_t i = 0; i < program_.communicators.size(); ++i) {
      if (program_.communicators[i].group >= program_.groups.size()) {
        Report(
            fmt::format("communicators[{}] has no group: {}", i, program_.communicators[i].group));
      }
    }
    for (std::size_t i = 0; i < program_.collectives.size(); ++i) {
      if (program_.collectives[i].communicator >= program_.communicators.size()) {
        Report(fmt::format("collectives[{}] has no communicator: {}", i,
                           program_.collectives[i].communicator));
      }
    }
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
      if (program_.buffers[i].size < Bytes(0)) {
        Report(fmt::format("buffers[{}] has a negative size: {} B", i,
                           program_.buffers[i].size.count()));
      }
    }
  }

  // The size of the table that the operand points into.
  std::size_t TableSize(Opcode opcode) const {
    switch (opcode) {
      case Opcode::kKernel:
        return program_.kernels.size();
      case Opcode::kCopy:
        return program_.copies.size();
      case Opcode::kCollective:
        return program_.collectives.size();
      case Opcode::kHostTask:
        return program_.host_tasks.size();
      case Opcode::kRecordEvent:
      case Opcode::kWaitEvent:
      case Opcode::kHostWaitEvent:
        return program_.events.size();
      case Opcode::kAllocate:
      case Opcode::kRelease:
      case Opcode::kRecordStream:
        return program_.buffers.size();
    }
    return 0;
  }

  void CheckInstruction(bool in_prologue, Index index, const Instruction& instruction) {
    const Opcode opcode = instruction.opcode;
    if (instruction.operand >= TableSize(opcode)) {
      Report(in_prologue, index,
             fmt::format("({}) has no operand: {}", Name(opcode), instruction.operand));
    }
    const bool has_stream =
        RunsOnStream(opcode) || opcode == Opcode::kAllocate || opcode == Opcode::kRecordStream;
    if (has_stream && instruction.stream >= program_.streams.size()) {
      Report(in_prologue, index,
             fmt::format("({}) has no stream: {}", Name(opcode), instruction.stream));
    }
    if (instruction.label != kNone && instruction.label >= program_.labels.size()) {
      Report(in_prologue, index,
             fmt::format("({}) has no label: {}", Name(opcode), instruction.label));
    }
    const std::size_t end = std::size_t{instruction.first_use} + instruction.use_count;
    if (end > program_.uses.size()) {
      Report(in_prologue, index, fmt::format("({}) has no uses up to: {}", Name(opcode), end));
      return;
    }
    for (std::size_t i = instruction.first_use; i < end; ++i) {
      CheckUse(in_prologue, index, program_.uses[i]);
    }
  }

  void CheckUse(bool in_prologue, Index index, const BufferUse& use) {
    if (use.buffer >= program_.buffers.size()) {
      Report(in_prologue, index, fmt::format("uses a buffer that does not exist: {}", use.buffer));
      return;
    }
    const Buffer& buffer = program_.buffers[use.buffer];
    if (use.offset < Bytes(0) || use.size < Bytes(0) || use.offset > buffer.size ||
        use.size > buffer.size - use.offset) {
      Report(in_prologue, index,
             fmt::format("uses bytes [{}, {}) of buffer '{}', which has {}", use.offset.count(),
                         use.offset.count() + use.size.count(), buffer.name, buffer.size.count()));
    }
  }

  const Program& program_;
  std::vector<Violation> violations_;
};

// One vector clock for each stream, for the host, and as left behind in each communicator and
// event: rows of one table.
class Clocks {
 public:
  Clocks(std::size_t rows, std::size_t width) : width_(width), counts_(rows * width, 0) {}

  std::uint32_t* operator[](std::size_t row) { return counts_.data() + row * width_; }

  // Whatever `from` knows to have ended, `into` knows too.
  void Join(std::size_t into, std::size_t from) {
    std::uint32_t* const target = (*this)[into];
    const std::uint32_t* const source = (*this)[from];
    for (std::size_t i = 0; i < width_; ++i) target[i] = std::max(target[i], source[i]);
  }
  void Copy(std::size_t into, std::size_t from) {
    std::copy_n((*this)[from], width_, (*this)[into]);
  }

 private:
  std::size_t width_;
  std::vector<std::uint32_t> counts_;
};

// An instruction as it was issued: the prologue is pass 0, the steps are passes 1 and 2.
struct Position {
  std::uint32_t pass = 0;
  std::uint32_t index = 0;
};

class RaceCheck {
 public:
  explicit RaceCheck(const Program& program)
      : program_(program),
        host_(program.streams.size()),
        first_communicator_(host_ + 1),
        first_event_(first_communicator_ + program.communicators.size()),
        clocks_(first_event_ + program.events.size(), host_ + 1),
        host_seen_(program.streams.size(), 0),
        recorded_(program.events.size(), false),
        buffers_(program.buffers.size()) {}

  std::vector<Violation> Run() {
    RunPass(program_.prologue, 0);
    std::vector<bool> before(buffers_.size());
    for (std::size_t b = 0; b < buffers_.size(); ++b) before[b] = buffers_[b].allocated;
    RunPass(program_.step, 1);
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      if (before[b] || !buffers_[b].allocated) continue;
      ReportLeak(buffers_[b].allocated_at, static_cast<Index>(b));
      buffers_[b].allocated = false;  // said once is enough
    }
    RunPass(program_.step, 2);
    return std::move(violations_);
  }

 private:
  // An operation that used a range: it had ended when clock `actor` reached `count`.
  struct Access {
    std::uint32_t actor = 0;  // a stream, or the host
    std::uint32_t count = 0;
    Position position;
  };
  struct Reader {
    Access access;
    std::uint32_t next = kNone;
  };
  // The bytes [begin, end) have all been used alike.
  struct Segment {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    bool written = false;
    Access write;                   // the last one, if `written`
    std::uint32_t readers = kNone;  // since then: one for each stream, in `readers_`
  };
  struct BufferState {
    bool allocated = false;
    bool initialised = false;  // by the prologue, or whoever filled it before
    std::uint16_t owner = 0;
    Position allocated_at;
    // What the owner's stream knew to have ended then; empty where memory is as good as new.
    std::vector<std::uint32_t> allocated_after;
    std::vector<Segment> segments;  // in order, without gaps
    std::vector<std::uint16_t> recorded_streams;
  };

  void RunPass(std::span<const Instruction> instructions, std::uint32_t pass) {
    for (std::uint32_t i = 0; i < instructions.size(); ++i) {
      const Instruction& instruction = instructions[i];
      const Position position = {pass, i};
      switch (instruction.opcode) {
        case Opcode::kKernel:
        case Opcode::kCopy:
          JoinHost(instruction.stream);
          RunOperation(instruction, instruction.stream, position);
          break;
        case Opcode::kCollective: {
          const std::size_t communicator =
              first_communicator_ + program_.collectives[instruction.operand].communicator;
          JoinHost(instruction.stream);
          clocks_.Join(instruction.stream, communicator);
          RunOperation(instruction, instruction.stream, position);
          clocks_.Copy(communicator, instruction.stream);
          break;
        }
        case Opcode::kHostTask:
          RunOperation(instruction, static_cast<std::uint32_t>(host_), position);
          ++host_version_;
          break;
        case Opcode::kRecordEvent:
          JoinHost(instruction.stream);
          clocks_.Copy(first_event_ + instruction.operand, instruction.stream);
          recorded_[instruction.operand] = true;
          break;
        case Opcode::kWaitEvent:
          if (recorded_[instruction.operand]) {
            clocks_.Join(instruction.stream, first_event_ + instruction.operand);
          }
          break;
        case Opcode::kHostWaitEvent:
          if (recorded_[instruction.operand]) {
            clocks_.Join(host_, first_event_ + instruction.operand);
            ++host_version_;
          }
          break;
        case Opcode::kAllocate:
          Allocate(instruction, position);
          break;
        case Opcode::kRelease:
          Release(instruction, position);
          break;
        case Opcode::kRecordStream:
          if (!buffers_[instruction.operand].allocated) {
            Report(ViolationKind::kRecordUnallocated, position, instruction.operand,
                   "which is not allocated then");
          } else {
            buffers_[instruction.operand].recorded_streams.push_back(instruction.stream);
          }
          break;
      }
    }
  }

  // What the host knows when it issues something, the stream knows when it runs that.
  void JoinHost(std::uint16_t stream) {
    if (host_seen_[stream] == host_version_) return;
    host_seen_[stream] = host_version_;
    clocks_.Join(stream, host_);
  }

  void RunOperation(const Instruction& instruction, std::uint32_t actor, Position position) {
    std::uint32_t* const clock = clocks_[actor];
    const Access access = {actor, ++clock[actor], position};
    for (std::size_t i = 0; i < instruction.use_count; ++i) {
      const BufferUse& use = program_.uses[instruction.first_use + i];
      if (use.size == Bytes(0)) continue;
      BufferState& buffer = buffers_[use.buffer];
      if (!buffer.allocated) {
        Report(ViolationKind::kUseUnallocated, position, use.buffer, "which is not allocated then");
        continue;
      }
      CheckAllocated(buffer, use, access, clock);
      if (use.write) {
        Write(buffer, use, access, clock);
      } else {
        Read(buffer, use, access, clock);
      }
    }
  }

  static bool Ordered(const Access& earlier, const std::uint32_t* clock) {
    return clock[earlier.actor] >= earlier.count;
  }

  // Clocks only grow, so a stream that has once followed the allocation does so ever after.
  void CheckAllocated(BufferState& buffer, const BufferUse& use, const Access& access,
                      const std::uint32_t* clock) {
    if (buffer.allocated_after.empty() || access.actor == buffer.owner) return;
    if (std::equal(buffer.allocated_after.begin(), buffer.allocated_after.end(), clock,
                   [](std::uint32_t needed, std::uint32_t known) { return known >= needed; })) {
      return;
    }
    Report(ViolationKind::kUsedBeforeAllocation, access.position, use.buffer,
           fmt::format("whose memory stream '{}' may still be using as something else",
                       program_.streams[buffer.owner].name));
  }

  void Read(BufferState& buffer, const BufferUse& use, const Access& access,
            const std::uint32_t* clock) {
    const auto [first, last] = Cut(buffer, use);
    for (std::size_t i = first; i < last; ++i) {
      Segment& segment = buffer.segments[i];
      if (!segment.written && !buffer.initialised) ReportUnwritten(access, use.buffer, segment);
      if (segment.written && !Ordered(segment.write, clock)) {
        ReportRace(access, "reads", use.buffer, segment, segment.write, "writes");
      }
      AddReader(segment, access);
    }
  }

  void Write(BufferState& buffer, const BufferUse& use, const Access& access,
             const std::uint32_t* clock) {
    const auto [first, last] = Cut(buffer, use);
    for (std::size_t i = first; i < last; ++i) {
      Segment& segment = buffer.segments[i];
      if (segment.written && !Ordered(segment.write, clock)) {
        ReportRace(access, "writes", use.buffer, segment, segment.write, "writes");
      }
      for (std::uint32_t r = segment.readers; r != kNone; r = readers_[r].next) {
        if (!Ordered(readers_[r].access, clock)) {
          ReportRace(access, "writes", use.buffer, segment, readers_[r].access, "reads");
        }
      }
      DropReaders(segment);
    }
    // The range is of one piece again.
    Segment& whole = buffer.segments[first];
    whole.end = buffer.segments[last - 1].end;
    whole.written = true;
    whole.write = access;
    if (last - first > 1) {
      buffer.segments.erase(buffer.segments.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                            buffer.segments.begin() + static_cast<std::ptrdiff_t>(last));
    }
  }

  // Cuts segments so that [first, last) are exactly the bytes of a use.
  std::pair<std::size_t, std::size_t> Cut(BufferState& buffer, const BufferUse& use) {
    const std::int64_t begin = use.offset.count();
    const std::int64_t end = begin + use.size.count();
    std::vector<Segment>& segments = buffer.segments;
    auto first = std::partition_point(segments.begin(), segments.end(),
                                      [begin](const Segment& s) { return s.end <= begin; });
    if (first->begin < begin) first = Split(segments, first, begin) + 1;
    auto last = first;
    while (last->end < end) ++last;
    const std::ptrdiff_t first_index = first - segments.begin();
    if (last->end > end) last = Split(segments, last, end);
    return {static_cast<std::size_t>(first_index),
            static_cast<std::size_t>(last - segments.begin()) + 1};
  }

  std::vector<Segment>::iterator Split(std::vector<Segment>& segments,
                                       std::vector<Segment>::iterator segment, std::int64_t at) {
    Segment right = *segment;
    right.begin = at;
    right.readers = kNone;
    for (std::uint32_t r = segment->readers; r != kNone; r = readers_[r].next) {
      PushReader(right, readers_[r].access);
    }
    segment->end = at;
    return segments.insert(segment + 1, right) - 1;
  }

  void AddReader(Segment& segment, const Access& access) {
    for (std::uint32_t r = segment.readers; r != kNone; r = readers_[r].next) {
      if (readers_[r].access.actor == access.actor) {
        readers_[r].access = access;  // a stream's later read ends later
        return;
      }
    }
    PushReader(segment, access);
  }

  void PushReader(Segment& segment, Access access) {
    std::uint32_t reader = free_reader_;
    if (reader == kNone) {
      reader = static_cast<std::uint32_t>(readers_.size());
      readers_.emplace_back();
    } else {
      free_reader_ = readers_[reader].next;
    }
    readers_[reader] = {access, segment.readers};
    segment.readers = reader;
  }

  void DropReaders(Segment& segment) {
    while (segment.readers != kNone) {
      const std::uint32_t reader = segment.readers;
      segment.readers = readers_[reader].next;
      readers_[reader].next = free_reader_;
      free_reader_ = reader;
    }
  }

  void Allocate(const Instruction& instruction, Position position) {
    BufferState& buffer = buffers_[instruction.operand];
    if (buffer.allocated) {
      Report(ViolationKind::kAllocatedTwice, position, instruction.operand,
             fmt::format("which {} has allocated already", Where(buffer.allocated_at)));
    }
    for (Segment& segment : buffer.segments) DropReaders(segment);
    buffer.segments.clear();
    Segment whole;
    whole.end = program_.buffers[instruction.operand].size.count();
    buffer.segments.push_back(whole);
    buffer.recorded_streams.clear();
    buffer.allocated = true;
    buffer.initialised = position.pass == 0;
    buffer.owner = instruction.stream;
    buffer.allocated_at = position;
    JoinHost(buffer.owner);
    buffer.allocated_after.clear();
    if (position.pass > 0) {
      buffer.allocated_after.assign(clocks_[buffer.owner], clocks_[buffer.owner] + host_ + 1);
    }
  }

  void Release(const Instruction& instruction, Position position) {
    BufferState& buffer = buffers_[instruction.operand];
    if (!buffer.allocated) {
      Report(ViolationKind::kReleaseUnallocated, position, instruction.operand,
             "which is not allocated then");
      return;
    }
    buffer.allocated = false;
    JoinHost(buffer.owner);
    const std::uint32_t* const clock = clocks_[buffer.owner];
    for (const Segment& segment : buffer.segments) {
      if (segment.written) CheckEnded(buffer, segment.write, clock, position, instruction.operand);
      for (std::uint32_t r = segment.readers; r != kNone; r = readers_[r].next) {
        CheckEnded(buffer, readers_[r].access, clock, position, instruction.operand);
      }
    }
  }

  void CheckEnded(const BufferState& buffer, const Access& access, const std::uint32_t* clock,
                  Position release, Index index) {
    if (Ordered(access, clock)) return;
    const auto& recorded = buffer.recorded_streams;
    if (std::find(recorded.begin(), recorded.end(), access.actor) != recorded.end()) return;
    if (!First(ViolationKind::kReleasedInUse, release, index, access.position)) return;
    Add(ViolationKind::kReleasedInUse, release,
        fmt::format("{} gives the memory of buffer '{}' back to stream '{}' while {} may still use "
                    "it",
                    Who(release), program_.buffers[index].name, program_.streams[buffer.owner].name,
                    Who(access.position, release)));
  }

  const Instruction& At(Position position) const {
    return position.pass == 0 ? program_.prologue[position.index] : program_.step[position.index];
  }
  static std::string Where(Position position) { return Place(position.pass == 0, position.index); }
  std::string Who(Position position) const {
    return fmt::format("{} {}", Where(position), Describe(program_, At(position)));
  }
  // As seen from an instruction that came later.
  std::string Who(Position position, Position seen_from) const {
    const bool earlier_step = position.pass == 1 && seen_from.pass == 2;
    return Who(position) + (earlier_step ? ", issued in the step before," : "");
  }

  // The second step repeats what the first has shown; only the first time counts.
  bool First(ViolationKind kind, Position position, Index buffer, Position other = {}) {
    const std::uint32_t distance = other.pass == 0 ? 2 : position.pass - other.pass;
    return reported_
        .emplace(kind, position.pass == 0, position.index, buffer, distance, other.index)
        .second;
  }

  void Add(ViolationKind kind, Position position, std::string message) {
    violations_.push_back({kind, position.pass == 0, position.index, std::move(message)});
  }

  void Report(ViolationKind kind, Position position, Index buffer, std::string_view what) {
    if (!First(kind, position, buffer)) return;
    const bool names_itself = At(position).opcode == Opcode::kAllocate ||
                              At(position).opcode == Opcode::kRelease ||
                              At(position).opcode == Opcode::kRecordStream;
    if (names_itself) {
      Add(kind, position, fmt::format("{}, {}", Who(position), what));
    } else {
      Add(kind, position,
          fmt::format("{} uses buffer '{}', {}", Who(position), program_.buffers[buffer].name,
                      what));
    }
  }

  void ReportLeak(Position position, Index buffer) {
    if (!First(ViolationKind::kLeak, position, buffer)) return;
    Add(ViolationKind::kLeak, position,
        fmt::format("{} is never released: the step would allocate it again", Who(position)));
  }

  void ReportUnwritten(const Access& access, Index buffer, const Segment& segment) {
    if (!First(ViolationKind::kReadUnwritten, access.position, buffer)) return;
    Add(ViolationKind::kReadUnwritten, access.position,
        fmt::format("{} reads bytes [{}, {}) of buffer '{}', which nothing has written since its "
                    "allocation",
                    Who(access.position), segment.begin, segment.end,
                    program_.buffers[buffer].name));
  }

  void ReportRace(const Access& later, const char* what, Index buffer, const Segment& segment,
                  const Access& earlier, const char* what_earlier) {
    if (!First(ViolationKind::kRace, later.position, buffer, earlier.position)) return;
    Add(ViolationKind::kRace, later.position,
        fmt::format("{} {} bytes [{}, {}) of buffer '{}' but is not ordered after {} which {} them",
                    Who(later.position), what, segment.begin, segment.end,
                    program_.buffers[buffer].name, Who(earlier.position, later.position),
                    what_earlier));
  }

  const Program& program_;
  const std::size_t host_;  // its row; the streams come before, what is left behind after it
  const std::size_t first_communicator_;
  const std::size_t first_event_;
  Clocks clocks_;
  std::uint32_t host_version_ = 0;        // grows when the host learns something
  std::vector<std::uint32_t> host_seen_;  // the version that each stream has joined
  std::vector<bool> recorded_;
  std::vector<BufferState> buffers_;
  std::vector<Reader> readers_;
  std::uint32_t free_reader_ = kNone;
  std::vector<Violation> violations_;
  std::set<std::tuple<ViolationKind, bool, std::uint32_t, Index, std::uint32_t, std::uint32_t>>
      reported_;
};

}  // namespace

std::vector<Violation> Validate(const Program& program) {
  std::vector<Violation> violations = IndexCheck(program).Run();
  if (!violations.empty()) return violations;
  return RaceCheck(program).Run();
}

}  // namespace stepcast::program
