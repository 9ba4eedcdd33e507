#include "src/program/validator.h"

#include <algorithm>
#include <array>
#include <limits>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/program/description.h"

namespace stepcast::program {
const char* Name(ViolationKind kind) {
  constexpr const char* kNames[] = {"index",
                                    "race",
                                    "use-unallocated",
                                    "release-unallocated",
                                    "record-unallocated",
                                    "allocated-twice",
                                    "leak",
                                    "released-in-use",
                                    "used-before-allocation",
                                    "read-unwritten",
                                    "mismatch",
                                    "deadlock"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::ostream& operator<<(std::ostream& out, const Violation& violation) {
  return out << Name(violation.kind) << ": " << violation.message;
}

std::string PlaceOf(bool in_prologue, Index instruction) {
  return fmt::format("{}[{}]", in_prologue ? "prologue" : "step", instruction);
}

namespace {

constexpr std::size_t kOpcodes = static_cast<std::size_t>(Opcode::kRecordStream) + 1;

// Checks tables and instructions for references to nonexistent entries.
class IndexCheck {
 public:
  explicit IndexCheck(const Program& program) : program_(program) {
    for (std::size_t i = 0; i < kOpcodes; ++i) {
      const auto opcode = static_cast<Opcode>(i);
      operands_[i] = TableSize(opcode);
      streams_[i] =
          RunsOnStream(opcode) || opcode == Opcode::kAllocate || opcode == Opcode::kRecordStream
              ? program.streams.size()
              : std::numeric_limits<std::size_t>::max();
    }
  }

  std::vector<Violation> Run() {
    CheckTables();
    uses_exist_ = std::all_of(program_.uses.begin(), program_.uses.end(),
                              [this](const BufferUse& use) { return Exists(use); });
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
                           fmt::format("{} {}", PlaceOf(in_prologue, instruction), message)});
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
    CheckExchanges();
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
      if (program_.buffers[i].size < Bytes(0)) {
        Report(fmt::format("buffers[{}] has a negative size: {} B", i,
                           program_.buffers[i].size.count()));
      }
      CheckName("buffers", i, program_.buffers[i].name);
    }
    for (std::size_t i = 0; i < program_.events.size(); ++i) {
      CheckName("events", i, program_.events[i].name);
    }
  }

  void CheckExchanges() {
    std::vector<Index> first(program_.communicators.size(), kNone);
    for (Index i = 0; i < program_.exchanges.size(); ++i) {
      const Exchange& exchange = program_.exchanges[i];
      if (exchange.communicator >= program_.communicators.size()) {
        Report(fmt::format("exchanges[{}] has no communicator: {}", i, exchange.communicator));
        continue;
      }
      const Communicator& communicator = program_.communicators[exchange.communicator];
      if (communicator.group >= program_.groups.size()) continue;  // already reported
      const ProcessGroup& group = program_.groups[communicator.group];
      if (group.PositionOf(program_.rank) < 0) {
        Report(fmt::format("exchanges[{}] is on communicator '{}', but rank {} is not a member", i,
                           communicator.name, program_.rank));
      }
      Index& other = first[exchange.communicator];
      if (other == kNone) other = i;
      if (program_.exchanges[other].peers != exchange.peers) {
        Report(fmt::format(
            "exchanges[{}] and exchanges[{}] identify the peers of communicator '{}' differently",
            other, i, communicator.name));
      }
      if (exchange.messages.empty()) Report(fmt::format("exchanges[{}] has no messages", i));
      const auto size = static_cast<int>(group.ranks.size());
      const int least = exchange.peers == PeerNaming::kPosition ? 0 : 1 - size;
      for (const Message& message : exchange.messages) {
        if (message.peer < least || message.peer >= size) {
          Report(fmt::format("exchanges[{}] has a peer outside its group of {} ranks: {}", i, size,
                             message.peer));
        }
        // A message of zero bytes only signals that the sender has reached the exchange.
        if (message.bytes < Bytes(0)) {
          Report(fmt::format("exchanges[{}] has a message of negative size: {} B", i,
                             message.bytes.count()));
        }
      }
    }
  }

  void CheckName(std::string_view table, std::size_t index, const NameParts& name) {
    for (const Index text : {name.first, name.second}) {
      if (text == kNone || text < program_.texts.size()) continue;
      Report(fmt::format("{}[{}] has no name: text {}", table, index, text));
    }
  }

  // The size of the table that the operand indexes.
  std::size_t TableSize(Opcode opcode) const {
    switch (opcode) {
      case Opcode::kKernel:
        return program_.kernels.size();
      case Opcode::kCopy:
        return program_.copies.size();
      case Opcode::kCollective:
        return program_.collectives.size();
      case Opcode::kExchange:
        return program_.exchanges.size();
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
    if (instruction.operand >= operands_[static_cast<std::size_t>(opcode)]) {
      Report(in_prologue, index,
             fmt::format("({}) has no operand: {}", Name(opcode), instruction.operand));
    }
    if (instruction.stream >= streams_[static_cast<std::size_t>(opcode)]) {
      Report(in_prologue, index,
             fmt::format("({}) has no stream: {}", Name(opcode), instruction.stream));
    }
    if (instruction.label != kNone && instruction.label >= program_.labels.size()) {
      Report(in_prologue, index,
             fmt::format("({}) has no label: {}", Name(opcode), instruction.label));
    }
    const std::size_t end = std::size_t{instruction.first_use} + instruction.use_count;
    if (end > program_.uses.size()) {
      Report(in_prologue, index,
             fmt::format("({}) has a range of uses with an invalid end: {}", Name(opcode), end));
      return;
    }
    if (opcode == Opcode::kExchange) CheckMessages(in_prologue, index, instruction);
    if (uses_exist_) return;
    for (std::size_t i = instruction.first_use; i < end; ++i) {
      CheckUse(in_prologue, index, program_.uses[i]);
    }
  }

  // Checks that messages and uses of an exchange agree.
  void CheckMessages(bool in_prologue, Index index, const Instruction& instruction) {
    if (instruction.operand >= program_.exchanges.size()) return;
    const std::vector<Message>& messages = program_.exchanges[instruction.operand].messages;
    if (instruction.use_count != messages.size()) {
      Report(in_prologue, index,
             fmt::format("(exchange) has {} messages, but a different number of buffer uses: {}",
                         messages.size(), instruction.use_count));
      return;
    }
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const BufferUse& use = program_.uses[instruction.first_use + i];
      const bool receives = messages[i].direction == MessageDirection::kReceive;
      if (use.write == receives && use.size == messages[i].bytes) continue;
      Report(in_prologue, index,
             fmt::format("(exchange) {}s {} B with message {}, but the buffer use of the message "
                         "{}s {} B",
                         Name(messages[i].direction), messages[i].bytes.count(), i,
                         use.write ? "write" : "read", use.size.count()));
    }
  }

  bool Exists(const BufferUse& use) const {
    if (use.buffer >= program_.buffers.size()) return false;
    const Bytes size = program_.buffers[use.buffer].size;
    return use.offset >= Bytes(0) && use.size >= Bytes(0) && use.offset <= size &&
           use.size <= size - use.offset;
  }

  void CheckUse(bool in_prologue, Index index, const BufferUse& use) {
    if (Exists(use)) return;
    if (use.buffer >= program_.buffers.size()) {
      Report(in_prologue, index, fmt::format("uses a buffer that does not exist: {}", use.buffer));
      return;
    }
    const Buffer& buffer = program_.buffers[use.buffer];
    Report(in_prologue, index,
           fmt::format("uses bytes [{}, {}) of buffer '{}', which has {}", use.offset.count(),
                       use.offset.count() + use.size.count(), program_.NameOf(buffer),
                       buffer.size.count()));
  }

  const Program& program_;
  // [opcode] entries of the table that the operand indexes, and streams if it has one.
  std::array<std::size_t, kOpcodes> operands_{}, streams_{};
  bool uses_exist_ = false;  // all uses exist, so instructions need no check of their uses
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckIndices(const Program& program) { return IndexCheck(program).Run(); }

std::vector<Violation> Validate(const Program& program) {
  const std::vector<Violation> wrong_indices = CheckIndices(program);
  return wrong_indices.empty() ? CheckRaces(program) : wrong_indices;
}

}  // namespace stepcast::program
