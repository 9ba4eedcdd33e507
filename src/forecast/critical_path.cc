#include "src/forecast/critical_path.h"

#include <algorithm>
#include <cstddef>

#include "src/program/description.h"

namespace stepcast::forecast {
namespace {

using program::Instruction;
using program::Opcode;
using program::OperationRecord;

constexpr std::size_t kNoRecord = static_cast<std::size_t>(-1);

// Walks backwards from the end. `at_` is where it has arrived; records are in order of their ends,
// and every step goes to a record before the present one, so the walk ends.
class Walk {
 public:
  Walk(const program::Program& program, const program::Timeline& timeline, Time start, Time end)
      : program_(program), timeline_(timeline), begin_(start), at_(end) {}

  std::vector<PathPart> Go() {
    std::size_t present =
        EndingAt(at_, timeline_.operations.size(), [](const auto&) { return true; });
    if (present == kNoRecord) present = FromHost(timeline_.operations.size());
    while (at_ > begin_) {
      if (present == kNoRecord) {
        Add(PathPartKind::kStall, program::kNone, begin_);
        break;
      }
      present = Before(present);
    }
    std::reverse(parts_.begin(), parts_.end());
    return std::move(parts_);
  }

 private:
  const Instruction& InstructionOf(const OperationRecord& record) const {
    return program_.step[record.instruction];
  }

  void Add(PathPartKind kind, program::Index instruction, Time from) {
    from = std::max(from, begin_);
    if (from >= at_) return;
    parts_.push_back({.kind = kind, .instruction = instruction, .start = from, .end = at_});
    at_ = from;
  }

  // The last record before `limit` that ended at `time` and is wanted.
  template <typename Wanted>
  std::size_t EndingAt(Time time, std::size_t limit, Wanted wanted) const {
    const auto& operations = timeline_.operations;
    const auto first =
        std::lower_bound(operations.begin(), operations.end(), time,
                         [](const OperationRecord& record, Time t) { return record.end < t; });
    std::size_t found = kNoRecord;
    for (auto it = first; it != operations.end() && it->end == time; ++it) {
      const auto index = static_cast<std::size_t>(it - operations.begin());
      if (index < limit && wanted(*it)) found = index;
    }
    return found;
  }

  // Takes the record `present`, which ends where the walk is, and says which one it waited for.
  std::size_t Before(std::size_t present) {
    const OperationRecord& record = timeline_.operations[present];
    const Instruction& instruction = InstructionOf(record);
    Add(PathPartKind::kOperation, record.instruction, record.start);
    if (at_ <= begin_) return kNoRecord;
    if (instruction.opcode == Opcode::kHostTask) return FromHost(present);
    if (record.start > record.ready) {
      const program::Index communicator = program::CommunicatorOf(program_, instruction);
      const std::size_t earlier =
          EndingAt(record.start, present, [&](const OperationRecord& other) {
            return program::CommunicatorOf(program_, InstructionOf(other)) == communicator;
          });
      if (earlier != kNoRecord) return earlier;
      Add(PathPartKind::kPartners, record.instruction, record.ready);
      if (at_ <= begin_) return kNoRecord;
    }
    if (record.issued == record.ready) return FromHost(present);
    // The operation before it on its stream, else what its stream stood waiting for.
    const std::size_t same = EndingAt(record.ready, present, [&](const OperationRecord& other) {
      return InstructionOf(other).opcode != Opcode::kHostTask &&
             InstructionOf(other).stream == instruction.stream;
    });
    if (same != kNoRecord) return same;
    const std::size_t awaited = EndingAt(record.ready, present, [](const auto&) { return true; });
    if (awaited != kNoRecord) return awaited;
    return Stall(present);
  }

  // The host was busy until here, back to the last time that it waited for the device.
  std::size_t FromHost(std::size_t limit) {
    const program::WaitRecord* last = nullptr;
    for (const program::WaitRecord& wait : timeline_.waits) {
      if (program_.step[wait.instruction].opcode != Opcode::kHostWaitEvent || wait.end > at_) {
        continue;
      }
      if (last == nullptr || wait.end > last->end) last = &wait;
    }
    const Time from = last == nullptr ? begin_ : std::max(last->end, begin_);
    // Its tasks are operations of their own.
    for (std::size_t i = std::min(limit, timeline_.operations.size()); i-- > 0 && at_ > from;) {
      const OperationRecord& record = timeline_.operations[i];
      if (InstructionOf(record).opcode != Opcode::kHostTask || record.end > at_) continue;
      if (record.end <= from) break;
      Add(PathPartKind::kHost, program::kNone, record.end);
      Add(PathPartKind::kOperation, record.instruction, std::max(record.start, from));
    }
    Add(PathPartKind::kHost, program::kNone, from);
    if (at_ <= begin_) return kNoRecord;
    return EndingAt(at_, limit, [](const auto&) { return true; });
  }

  // Nothing ended just then: goes on with whatever ended last before.
  std::size_t Stall(std::size_t limit) {
    for (std::size_t i = limit; i-- > 0;) {
      const OperationRecord& record = timeline_.operations[i];
      if (record.end > at_) continue;
      Add(PathPartKind::kStall, program::kNone, record.end);
      return i;
    }
    return kNoRecord;
  }

  const program::Program& program_;
  const program::Timeline& timeline_;
  const Time begin_;
  Time at_;
  std::vector<PathPart> parts_;
};

}  // namespace

std::vector<PathPart> CriticalPath(const program::Program& program,
                                   const program::Timeline& timeline, Time start, Time end) {
  return Walk(program, timeline, start, end).Go();
}

}  // namespace stepcast::forecast
