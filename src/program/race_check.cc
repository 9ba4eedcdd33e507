#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "src/program/description.h"
#include "src/program/validator.h"

namespace stepcast::program {
namespace {

// A table of vector clocks: one for each stream, one for the host, and one left in each
// communicator and event.
class Clocks {
 public:
  Clocks(std::size_t rows, std::size_t width) : width_(width), counts_(rows * width, 0) {}

  std::uint32_t* operator[](std::size_t row) { return counts_.data() + row * width_; }

  // Adds to `into` all that `from` knows to have ended.
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

// An issued instruction: the prologue is pass 0, the steps are passes 1 and 2.
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
        buffers_(program.buffers.size()),
        allocations_(program.buffers.size(), host_ + 1),
        recorded_streams_(program.buffers.size()) {}

  std::vector<Violation> Run() {
    RunPass(program_.prologue, 0);
    std::vector<bool> before(buffers_.size());
    for (std::size_t b = 0; b < buffers_.size(); ++b) before[b] = buffers_[b].allocated;
    RunPass(program_.step, 1);
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      if (before[b] || !buffers_[b].allocated) continue;
      ReportLeak(buffers_[b].allocated_at, static_cast<Index>(b));
      buffers_[b].allocated = false;  // so that the violation is reported only once
    }
    RunPass(program_.step, 2);
    return std::move(violations_);
  }

 private:
  // An operation that used a range: it had ended when clock `actor` (a stream's or the host's)
  // reached `count`. Counts begin at 1; 0 means none.
  struct Access {
    std::uint32_t actor = 0;
    std::uint32_t count = 0;
  };
  struct Reader {
    Access access;
    std::uint32_t next = kNone;
  };
  // All bytes of [begin, end) have the same uses.
  struct Segment {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    Access write;                   // the last one
    Access read;                    // since then, of one stream;
    std::uint32_t readers = kNone;  // of the others, in `readers_`
  };
  struct BufferState {
    bool allocated = false;
    bool initialised = false;  // by the prologue, or before the program
    bool reuses = false;       // memory that may have been something else: see `allocations_`
    std::uint16_t owner = 0;
    Position allocated_at;
    Segment whole;               // all of it, unless
    std::vector<Segment> parts;  // there are several: in order, without gaps
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
        case Opcode::kCollective:
        case Opcode::kExchange: {
          if (instruction.opcode == Opcode::kExchange) CheckMessages(instruction, position);
          const std::size_t communicator =
              first_communicator_ + CommunicatorOf(program_, instruction);
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
                   "which is not allocated at that point");
          } else {
            recorded_streams_[instruction.operand].push_back(instruction.stream);
          }
          break;
      }
    }
  }

  // The messages of an exchange are transferred concurrently.
  void CheckMessages(const Instruction& instruction, Position position) {
    const auto uses =
        std::span(program_.uses).subspan(instruction.first_use, instruction.use_count);
    for (std::size_t i = 0; i < uses.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const BufferUse& a = uses[j];
        const BufferUse& b = uses[i];
        if (a.buffer != b.buffer || !(a.write || b.write)) continue;
        if (a.offset + a.size <= b.offset || b.offset + b.size <= a.offset) continue;
        if (!First(ViolationKind::kRace, position, b.buffer, {position.pass, kNone})) continue;
        Add(ViolationKind::kRace, position,
            fmt::format("{} receives into bytes of buffer '{}' that another message of the same "
                        "exchange uses",
                        Who(position), program_.NameOf(program_.buffers[b.buffer])));
      }
    }
  }

  // A stream knows, when it runs an operation, what the host knew when it issued the operation.
  void JoinHost(std::uint16_t stream) {
    if (host_seen_[stream] == host_version_) return;
    host_seen_[stream] = host_version_;
    clocks_.Join(stream, host_);
  }

  void RunOperation(const Instruction& instruction, std::uint32_t actor, Position position) {
    std::uint32_t* const clock = clocks_[actor];
    const Access access = {actor, ++clock[actor]};
    const auto uses =
        std::span(program_.uses).subspan(instruction.first_use, instruction.use_count);
    for (const BufferUse& use : uses) {
      if (use.size == Bytes(0)) continue;
      BufferState& buffer = buffers_[use.buffer];
      if (!buffer.allocated) {
        Report(ViolationKind::kUseUnallocated, position, use.buffer,
               "which is not allocated at "
               "that point");
        continue;
      }
      if (buffer.reuses && actor != buffer.owner) CheckAllocated(buffer, use, position, clock);
      const std::span<Segment> used = Cut(buffer, use);
      if (use.write) {
        Write(buffer, used, use.buffer, access, position, clock);
      } else {
        Read(buffer, used, use.buffer, access, position, clock);
      }
    }
  }

  static bool Ordered(const Access& earlier, const std::uint32_t* clock) {
    return clock[earlier.actor] >= earlier.count;
  }

  // Clocks only grow, so a stream that was once ordered after the allocation remains ordered.
  void CheckAllocated(const BufferState& buffer, const BufferUse& use, Position position,
                      const std::uint32_t* clock) {
    const std::uint32_t* const needed = allocations_[use.buffer];
    if (std::equal(needed, needed + host_ + 1, clock, std::less_equal<>())) return;
    Report(ViolationKind::kUsedBeforeAllocation, position, use.buffer,
           fmt::format("whose memory stream '{}' may still be using for another buffer",
                       program_.streams[buffer.owner].name));
  }

  void Read(const BufferState& buffer, std::span<Segment> used, Index index, const Access& access,
            Position position, const std::uint32_t* clock) {
    for (Segment& segment : used) {
      if (segment.write.count == 0) {
        if (!buffer.initialised) ReportUnwritten(position, index, segment);
      } else if (!Ordered(segment.write, clock)) {
        ReportRace(position, "reads", index, segment, segment.write, "writes");
      }
      AddReader(segment, access);
    }
  }

  void Write(BufferState& buffer, std::span<Segment> used, Index index, const Access& access,
             Position position, const std::uint32_t* clock) {
    for (Segment& segment : used) {
      if (!Ordered(segment.write, clock)) {
        ReportRace(position, "writes", index, segment, segment.write, "writes");
      }
      ForEachReader(segment, [&](const Access& reader) {
        if (!Ordered(reader, clock)) {
          ReportRace(position, "writes", index, segment, reader, "reads");
        }
      });
      DropReaders(segment);
    }
    // Merges the segments of the range into one.
    Segment& piece = used.front();
    piece.end = used.back().end;
    piece.write = access;
    if (used.size() == 1) return;
    const auto first = buffer.parts.begin() + (&piece - buffer.parts.data());
    buffer.parts.erase(first + 1, first + static_cast<std::ptrdiff_t>(used.size()));
    if (buffer.parts.size() > 1) return;
    buffer.whole = buffer.parts.front();
    buffer.parts.clear();
  }

  // Returns the segments that cover exactly the bytes of a use; splits segments at its begin and
  // end.
  std::span<Segment> Cut(BufferState& buffer, const BufferUse& use) {
    const std::int64_t begin = use.offset.count();
    const std::int64_t end = begin + use.size.count();
    std::vector<Segment>& parts = buffer.parts;
    if (parts.empty()) {
      if (begin == buffer.whole.begin && end == buffer.whole.end) return {&buffer.whole, 1};
      parts.push_back(std::exchange(buffer.whole, {}));
    }
    auto first = std::partition_point(parts.begin(), parts.end(),
                                      [begin](const Segment& s) { return s.end <= begin; });
    if (first->begin < begin) first = Split(parts, first, begin) + 1;
    auto last = first;
    while (last->end < end) ++last;
    const std::ptrdiff_t first_index = first - parts.begin();
    if (last->end > end) last = Split(parts, last, end);
    return {parts.begin() + first_index, last + 1};
  }

  std::vector<Segment>::iterator Split(std::vector<Segment>& parts,
                                       std::vector<Segment>::iterator segment, std::int64_t at) {
    Segment right = *segment;
    right.begin = at;
    right.readers = kNone;
    for (std::uint32_t r = segment->readers; r != kNone; r = readers_[r].next) {
      PushReader(right, readers_[r].access);
    }
    segment->end = at;
    return parts.insert(segment + 1, right) - 1;
  }

  template <typename Function>
  void ForEachReader(const Segment& segment, Function function) const {
    if (segment.read.count > 0) function(segment.read);
    for (std::uint32_t r = segment.readers; r != kNone; r = readers_[r].next) {
      function(readers_[r].access);
    }
  }

  // A later read of the same stream ends later and replaces the earlier one.
  void AddReader(Segment& segment, const Access& access) {
    if (segment.read.actor == access.actor || segment.read.count == 0) {
      segment.read = access;
      return;
    }
    for (std::uint32_t r = segment.readers; r != kNone; r = readers_[r].next) {
      if (readers_[r].access.actor == access.actor) {
        readers_[r].access = access;
        return;
      }
    }
    PushReader(segment, segment.read);
    segment.read = access;
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
    segment.read = {};
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
             fmt::format("which {} has already allocated", Where(buffer.allocated_at)));
    }
    for (Segment& part : buffer.parts) DropReaders(part);
    buffer.parts.clear();
    DropReaders(buffer.whole);
    buffer.whole = Segment();
    buffer.whole.end = program_.buffers[instruction.operand].size.count();
    recorded_streams_[instruction.operand].clear();
    buffer.allocated = true;
    buffer.initialised = position.pass == 0;
    buffer.owner = instruction.stream;
    buffer.allocated_at = position;
    JoinHost(buffer.owner);
    buffer.reuses = position.pass > 0;
    if (buffer.reuses) {
      std::copy_n(clocks_[buffer.owner], host_ + 1, allocations_[instruction.operand]);
    }
  }

  void Release(const Instruction& instruction, Position position) {
    BufferState& buffer = buffers_[instruction.operand];
    if (!buffer.allocated) {
      Report(ViolationKind::kReleaseUnallocated, position, instruction.operand,
             "which is not allocated at that point");
      return;
    }
    buffer.allocated = false;
    JoinHost(buffer.owner);
    const std::uint32_t* const clock = clocks_[buffer.owner];
    const auto check_ended = [&](const Segment& segment) {
      const auto check = [&](const Access& access) {
        if (!Ordered(access, clock)) CheckEnded(buffer, access, position, instruction.operand);
      };
      check(segment.write);
      ForEachReader(segment, check);
    };
    if (buffer.parts.empty()) check_ended(buffer.whole);
    for (const Segment& part : buffer.parts) check_ended(part);
  }

  void CheckEnded(const BufferState& buffer, const Access& access, Position release, Index index) {
    const auto& recorded = recorded_streams_[index];
    if (std::find(recorded.begin(), recorded.end(), access.actor) != recorded.end()) return;
    const Position used_at = PositionOf(access);
    if (!First(ViolationKind::kReleasedInUse, release, index, used_at)) return;
    Add(ViolationKind::kReleasedInUse, release,
        fmt::format("{} returns the memory of buffer '{}' to stream '{}' while {} may still be "
                    "using it",
                    Who(release), program_.NameOf(program_.buffers[index]),
                    program_.streams[buffer.owner].name, Who(used_at, release)));
  }

  // Called only for reports.
  Position PositionOf(const Access& access) const {
    std::uint32_t count = 0;
    for (const std::uint32_t pass : {0U, 1U, 2U}) {
      const std::vector<Instruction>& instructions = pass == 0 ? program_.prologue : program_.step;
      for (std::uint32_t i = 0; i < instructions.size(); ++i) {
        const Opcode opcode = instructions[i].opcode;
        const bool on_host = opcode == Opcode::kHostTask;
        const bool runs = on_host || IsLaunched(opcode);
        const std::size_t actor = on_host ? host_ : instructions[i].stream;
        if (runs && actor == access.actor && ++count == access.count) return {pass, i};
      }
    }
    return {};
  }

  const Instruction& At(Position position) const {
    return position.pass == 0 ? program_.prologue[position.index] : program_.step[position.index];
  }
  static std::string Where(Position position) {
    return PlaceOf(position.pass == 0, position.index);
  }
  std::string Who(Position position) const {
    return fmt::format("{} {}", Where(position), Describe(program_, At(position)));
  }
  // The operation as seen from a later instruction.
  std::string Who(Position position, Position seen_from) const {
    const bool earlier_step = position.pass == 1 && seen_from.pass == 2;
    return Who(position) + (earlier_step ? ", issued in the previous step," : "");
  }

  // Whether the violation is new. (The second step repeats the violations of the first step.)
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
          fmt::format("{} uses buffer '{}', {}", Who(position),
                      program_.NameOf(program_.buffers[buffer]), what));
    }
  }

  void ReportLeak(Position position, Index buffer) {
    if (!First(ViolationKind::kLeak, position, buffer)) return;
    Add(ViolationKind::kLeak, position,
        fmt::format("{} is never released, but the next step allocates it again", Who(position)));
  }

  void ReportUnwritten(Position position, Index buffer, const Segment& segment) {
    if (!First(ViolationKind::kReadUnwritten, position, buffer)) return;
    Add(ViolationKind::kReadUnwritten, position,
        fmt::format("{} reads bytes [{}, {}) of buffer '{}', which nothing has written since its "
                    "allocation",
                    Who(position), segment.begin, segment.end,
                    program_.NameOf(program_.buffers[buffer])));
  }

  void ReportRace(Position later, const char* what, Index buffer, const Segment& segment,
                  const Access& access, const char* what_earlier) {
    const Position earlier = PositionOf(access);
    if (!First(ViolationKind::kRace, later, buffer, earlier)) return;
    Add(ViolationKind::kRace, later,
        fmt::format("{} {} bytes [{}, {}) of buffer '{}' but is not ordered after {} which {} "
                    "these bytes",
                    Who(later), what, segment.begin, segment.end,
                    program_.NameOf(program_.buffers[buffer]), Who(earlier, later), what_earlier));
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
  Clocks allocations_;  // by buffer: what the owner's stream knew to have ended then
  std::vector<std::vector<std::uint16_t>> recorded_streams_;  // by buffer, since its allocation
  std::vector<Reader> readers_;
  std::uint32_t free_reader_ = kNone;
  std::vector<Violation> violations_;
  std::set<std::tuple<ViolationKind, bool, std::uint32_t, Index, std::uint32_t, std::uint32_t>>
      reported_;
};

}  // namespace

std::vector<Violation> CheckRaces(const Program& program) { return RaceCheck(program).Run(); }

}  // namespace stepcast::program
