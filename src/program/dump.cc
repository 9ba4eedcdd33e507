#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/collective_kind.h"
#include "src/base/data_type.h"
#include "src/base/quantity.h"
#include "src/program/description.h"
#include "src/program/instruction.h"

namespace stepcast::program {
namespace {

// A table with columns as wide as their widest cells, two spaces before each, and no trailing
// spaces.
class Table {
 public:
  explicit Table(std::string title) : title_(std::move(title)) {}

  void Add(std::vector<std::string> cells) {
    widths_.resize(std::max(widths_.size(), cells.size()), 0);
    for (std::size_t c = 0; c < cells.size(); ++c) {
      widths_[c] = std::max(widths_[c], cells[c].size());
    }
    rows_.push_back(std::move(cells));
  }

  // Aligns columns of numbers to the right.
  void AlignRight(std::size_t column) { right_.push_back(column); }

  void AppendTo(std::string& text) const {
    if (rows_.empty()) return;
    text += title_;
    text += '\n';
    for (const std::vector<std::string>& row : rows_) {
      std::string line;
      for (std::size_t c = 0; c < row.size(); ++c) {
        if (widths_[c] == 0) continue;
        const bool right = std::find(right_.begin(), right_.end(), c) != right_.end();
        line += right ? fmt::format("  {:>{}}", row[c], widths_[c])
                      : fmt::format("  {:<{}}", row[c], widths_[c]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line;
      text += '\n';
    }
  }

 private:
  std::string title_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
  std::vector<std::size_t> right_;
};

std::string Number(std::size_t number) { return fmt::format("{}", number); }

// "0-7", "0-56 by 8", "0, 1, 4": evenly spaced ranks are usual.
std::string RankList(const std::vector<int>& ranks) {
  if (ranks.size() > 2) {
    const int stride = ranks[1] - ranks[0];
    bool even = stride > 0;
    for (std::size_t i = 2; i < ranks.size(); ++i) even &= ranks[i] - ranks[i - 1] == stride;
    if (even && stride == 1) return fmt::format("{}-{}", ranks.front(), ranks.back());
    if (even) return fmt::format("{}-{} by {}", ranks.front(), ranks.back(), stride);
  }
  return fmt::format("{}", fmt::join(ranks, ", "));
}

std::string_view KindName(KernelKind kind) {
  constexpr std::string_view kNames[] = {"gemm",         "attention",    "attention-gradient",
                                         "memory-bound", "optimizer",    "given",
                                         "scan",         "scan-gradient"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string KernelFigures(const Kernel& kernel) {
  if (kernel.kind == KernelKind::kGiven) return ExactTime(kernel.given);
  std::string text;
  if (kernel.kind == KernelKind::kGemm) {
    text = fmt::format("{}x{}x{}", kernel.m, kernel.n, kernel.k);
    if (kernel.batch != 1) text += fmt::format(" batch {}", kernel.batch);
    text += ", ";
  }
  return text + fmt::format("{} flops, reads {}, writes {}", kernel.flops, ExactBytes(kernel.read),
                            ExactBytes(kernel.written));
}

std::string InstructionBytes(const Program& program, const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kKernel: {
      const Kernel& kernel = program.kernels[instruction.operand];
      const Bytes traffic = kernel.read + kernel.written;
      return traffic == Bytes(0) ? "" : ExactBytes(traffic);
    }
    case Opcode::kCopy:
      return ExactBytes(program.copies[instruction.operand].bytes);
    case Opcode::kCollective:
      return ExactBytes(program.collectives[instruction.operand].bytes);
    case Opcode::kExchange: {
      Bytes sent;
      for (const Message& message : program.exchanges[instruction.operand].messages) {
        if (message.direction == MessageDirection::kSend) sent += message.bytes;
      }
      return sent == Bytes(0) ? "" : ExactBytes(sent);
    }
    case Opcode::kAllocate:
    case Opcode::kRelease:
      return ExactBytes(program.buffers[instruction.operand].size);
    default:
      return "";
  }
}

std::string LoadsText(const AllToAllLoads& loads) {
  if (loads == AllToAllLoads()) return "";
  return fmt::format(", first rank {} most, others {:.3g} times as much as the first rank",
                     loads.first == AllToAllLoads::First::kSendsMost ? "sends" : "receives",
                     loads.others);
}

std::string OperandText(const Program& program, const Instruction& instruction) {
  std::string text = OperandName(program, instruction);
  if (instruction.opcode == Opcode::kCollective) {
    const Collective& collective = program.collectives[instruction.operand];
    text += fmt::format(" on {}", program.communicators[collective.communicator].name);
    text += LoadsText(collective.loads);
  } else if (instruction.opcode == Opcode::kExchange) {
    const Exchange& exchange = program.exchanges[instruction.operand];
    text += fmt::format(" {} on {}", instruction.operand,
                        program.communicators[exchange.communicator].name);
  }
  return text;
}

std::string WaitText(const WaitTarget& target) {
  std::string text;
  if (target.record != kNone) {
    text = fmt::format("after step[{}]", target.record);
    if (target.step_before) text += " of the step before";
    if (target.prologue_record != kNone) {
      text += fmt::format(", at first prologue[{}]", target.prologue_record);
    }
    return text;
  }
  if (target.prologue_record != kNone)
    return fmt::format("after prologue[{}]", target.prologue_record);
  return "after nothing";
}

std::string UseText(const Program& program, const Instruction& instruction) {
  std::string text;
  for (std::size_t i = 0; i < instruction.use_count; ++i) {
    const BufferUse& use = program.uses[instruction.first_use + i];
    const Buffer& buffer = program.buffers[use.buffer];
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", use.write ? "w" : "r", program.NameOf(buffer));
    if (use.offset != Bytes(0) || use.size != buffer.size) {
      text += fmt::format("[{}, {})", use.offset.count(), (use.offset + use.size).count());
    }
  }
  return text;
}

void AddInstructions(const Program& program, const std::vector<Instruction>& instructions,
                     const std::vector<WaitTarget>& targets, std::string title, std::string& text) {
  Table table(std::move(title));
  table.AlignRight(0);
  table.AlignRight(7);
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    const Opcode opcode = instruction.opcode;
    const bool waits = opcode == Opcode::kWaitEvent || opcode == Opcode::kHostWaitEvent;
    const bool on_host = opcode == Opcode::kHostTask || opcode == Opcode::kHostWaitEvent ||
                         opcode == Opcode::kRelease;
    table.Add({Number(i), Name(instruction.phase), fmt::format("mb{}", instruction.micro_batch),
               instruction.label == kNone ? "-" : program.labels[instruction.label],
               on_host ? "host" : program.streams[instruction.stream].name, Name(opcode),
               OperandText(program, instruction), InstructionBytes(program, instruction),
               waits ? WaitText(targets[i]) : UseText(program, instruction)});
  }
  table.AppendTo(text);
}

using Cells = std::vector<std::string>;

// Adds a table with one numbered row for each entry. `right`: the columns that are aligned right.
template <typename Entry, typename CellsOf>
void AddTable(const char* title, const std::vector<Entry>& entries, std::string& text,
              const CellsOf& cells_of, std::initializer_list<std::size_t> right = {}) {
  Table table(title);
  for (const std::size_t column : right) table.AlignRight(column);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    Cells cells = cells_of(entries[i]);
    cells.insert(cells.begin(), Number(i));
    table.Add(std::move(cells));
  }
  table.AppendTo(text);
}

void AddCommunication(const Program& program, std::string& text) {
  AddTable("streams", program.streams, text,
           [](const Stream& stream) { return Cells{stream.name}; });
  AddTable("groups", program.groups, text, [](const ProcessGroup& group) {
    return Cells{group.name,
                 fmt::format("{} {}: {}", group.ranks.size(),
                             group.ranks.size() == 1 ? "rank" : "ranks", RankList(group.ranks))};
  });
  AddTable("communicators", program.communicators, text, [&](const Communicator& communicator) {
    return Cells{communicator.name,
                 fmt::format("group {}", program.groups[communicator.group].name)};
  });
}

void AddOperands(const Program& program, std::string& text) {
  const auto on = [&](Index communicator) {
    return fmt::format("on {}", program.communicators[communicator].name);
  };
  AddTable("events", program.events, text,
           [&](const Event& event) { return Cells{program.NameOf(event)}; });
  AddTable("buffers", program.buffers, text,
           [&](const Buffer& buffer) {
             return Cells{program.NameOf(buffer), ExactBytes(buffer.size), Name(buffer.category),
                          buffer.padding == Bytes(0)
                              ? ""
                              : fmt::format("{} of them padding", ExactBytes(buffer.padding))};
           },
           {2});
  AddTable("kernels", program.kernels, text, [](const Kernel& kernel) {
    return Cells{kernel.name, std::string(KindName(kernel.kind)),
                 std::string(Name(kernel.data_type)), KernelFigures(kernel)};
  });
  AddTable("collectives", program.collectives, text,
           [&](const Collective& collective) {
             return Cells{std::string(Name(collective.kind)), on(collective.communicator),
                          ExactBytes(collective.bytes),
                          std::string(Name(collective.data_type)) + LoadsText(collective.loads)};
           },
           {3});
  AddTable("exchanges", program.exchanges, text, [&](const Exchange& exchange) {
    std::string messages;
    for (const Message& message : exchange.messages) {
      if (!messages.empty()) messages += ", ";
      messages += fmt::format("{}: {}", MessageText(exchange, message), ExactBytes(message.bytes));
    }
    return Cells{on(exchange.communicator), std::string(Name(exchange.data_type)), messages};
  });
  AddTable("copies", program.copies, text, [](const Copy& copy) {
    return Cells{Name(copy.direction), ExactBytes(copy.bytes)};
  });
  AddTable("host tasks", program.host_tasks, text, [](const HostTask& task) {
    return Cells{task.name, ExactTime(task.duration)};
  });
}

}  // namespace

std::string Dump(const Program& program) {
  std::string text;
  AddCommunication(program, text);
  AddOperands(program, text);
  WaitTargets targets;
  FindWaitTargets(program, targets);
  AddInstructions(program, program.prologue, targets.prologue, "prologue", text);
  AddInstructions(program, program.step, targets.step, "step", text);
  return text;
}

}  // namespace stepcast::program
