#include "src/lowering/program_builder.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "src/base/check.h"

namespace stepcast::lowering {

using program::BufferUse;
using program::Opcode;

namespace {

template <typename T>
Index Append(std::vector<T>& table, T entry) {
  table.push_back(std::move(entry));
  return static_cast<Index>(table.size() - 1);
}

// Its place among the distinct ones of a table.
template <typename T, typename Same>
Index Distinct(std::vector<T>& table, const T& entry, Same same) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const T& other) { return same(other, entry); });
  if (found != table.end()) return static_cast<Index>(found - table.begin());
  return Append(table, entry);
}

}  // namespace

ProgramBuilder::ProgramBuilder(const LowerOptions& options)
    : rank_(options.rank), describes_data_flow_(options.data_flow), names_(!options.bare) {
  STEPCAST_CHECK(!describes_data_flow_ || names_, "a data flow needs all uses");
  if (options.spent != nullptr) Reuse(*options.spent);
}

void ProgramBuilder::Reuse(program::Program& spent) {
  const auto take = [](auto& to, auto& from) {
    to = std::move(from);
    to.clear();
  };
  take(program_.events, spent.events);
  take(program_.buffers, spent.buffers);
  take(program_.kernels, spent.kernels);
  take(program_.collectives, spent.collectives);
  take(program_.uses, spent.uses);
  take(program_.labels, spent.labels);
  take(program_.prologue, spent.prologue);
  take(program_.step, spent.step);
}

std::string ProgramBuilder::Named(std::string_view what, std::string_view part) const {
  std::string name;
  if (!names_) return name;
  name.reserve(what.size() + part.size());
  name.append(what).append(part);
  return name;
}

std::string ProgramBuilder::Numbered(std::string_view what, std::size_t number) const {
  return names_ ? Named(what, " " + std::to_string(number)) : std::string();
}

void ProgramBuilder::SetOperand(std::size_t instruction, Index operand) {
  program_.step[instruction].operand = operand;
}

BufferUse Reads(Index buffer, Bytes offset, Bytes size) {
  return {.buffer = buffer, .write = false, .offset = offset, .size = size};
}

BufferUse Writes(Index buffer, Bytes offset, Bytes size) {
  return {.buffer = buffer, .write = true, .offset = offset, .size = size};
}

StreamId ProgramBuilder::AddStream(std::string name) {
  return static_cast<StreamId>(Append(program_.streams, {.name = std::move(name)}));
}

Index ProgramBuilder::AddCommunicator(std::string name, const parallel::GroupLayout& layout) {
  if (layout.size() == 1) return program::kNone;
  const Index group =
      Append(program_.groups, {.name = name, .ranks = layout.Ranks(rank_), .layout = layout});
  return Append(program_.communicators, {.name = std::move(name), .group = group});
}

Index ProgramBuilder::AddEvent(std::string_view name) {
  return Append(program_.events, {.name = Written(name)});
}

Index ProgramBuilder::AddBuffer(std::string_view name, Bytes size, program::Category category,
                                Bytes padding) {
  return Append(program_.buffers,
                {.name = Written(name), .size = size, .category = category, .padding = padding});
}

Index ProgramBuilder::AddKernel(Kernel kernel) {
  program_.kernels.push_back(std::move(kernel));
  return static_cast<Index>(program_.kernels.size() - 1);
}

Index ProgramBuilder::AddCollective(const program::Collective& collective) {
  return Distinct(program_.collectives, collective, std::equal_to<>());
}

Index ProgramBuilder::AddLabel(std::string_view label) {
  return Append(program_.labels, Written(label));
}

program::Instruction& ProgramBuilder::Emit(Opcode opcode, StreamId stream, Index operand) {
  if (in_step_ && describes_data_flow_) {
    program_.data_flow.first.push_back(static_cast<Index>(program_.data_flow.effects.size()));
  }
  auto& section = in_step_ ? program_.step : program_.prologue;
  return section.emplace_back(
      program::Instruction{.opcode = opcode,
                           .phase = phase_,
                           .stream = stream,
                           .operand = operand,
                           .first_use = static_cast<Index>(program_.uses.size()),
                           .use_count = 0,
                           .micro_batch = micro_batch_,
                           .label = label_});
}

void ProgramBuilder::EmitWithUses(Opcode opcode, StreamId stream, Index operand,
                                  std::span<const BufferUse> uses) {
  auto& instruction = Emit(opcode, stream, operand);
  if (!all_uses() && stream < first_delaying_) return;
  for (const BufferUse& use : uses) {
    if (use.size == Bytes(0)) continue;  // an empty range is no use
    if (use.buffer < owners_.size() && owners_[use.buffer] == stream) continue;
    program_.uses.push_back(use);
    ++instruction.use_count;
  }
  if (pending_.empty()) return;
  STEPCAST_CHECK(in_step_, "only the step's operations have effects");
  auto& effects = program_.data_flow.effects;
  effects.insert(effects.end(), pending_.begin(), pending_.end());
  pending_.clear();
}

void ProgramBuilder::With(const program::Effect& effect) {
  // Squares of nothing are zero, which is something.
  const bool says_something = effect.elements > 0 || effect.kind == program::EffectKind::kSquares;
  if (describes_data_flow_ && says_something) pending_.push_back(effect);
}

void ProgramBuilder::With(std::span<const program::Effect> effects) {
  for (const program::Effect& effect : effects) With(effect);
}

void ProgramBuilder::AddState(const program::StatePart& part) {
  if (describes_data_flow_ && part.elements > 0) program_.data_flow.state.push_back(part);
}

program::Program ProgramBuilder::Take() {
  STEPCAST_CHECK(pending_.empty(), "every effect belongs to an operation");
  if (describes_data_flow_) {
    program_.data_flow.first.push_back(static_cast<Index>(program_.data_flow.effects.size()));
  }
  return std::move(program_);
}

void ProgramBuilder::Run(StreamId stream, Index kernel, std::span<const BufferUse> uses) {
  EmitWithUses(Opcode::kKernel, stream, kernel, uses);
}

void ProgramBuilder::RunOnHost(std::string_view name, Time duration) {
  Emit(Opcode::kHostTask, 0,
       Append(program_.host_tasks, {.name = Written(name), .duration = duration}));
}

void ProgramBuilder::Copy(StreamId stream, const program::Copy& copy,
                          std::span<const BufferUse> uses) {
  const Index index =
      Distinct(program_.copies, copy, [](const program::Copy& a, const program::Copy& b) {
        return a.direction == b.direction && a.bytes == b.bytes;
      });
  EmitWithUses(Opcode::kCopy, stream, index, uses);
}

void ProgramBuilder::Communicate(StreamId stream, Index collective,
                                 std::span<const BufferUse> uses) {
  EmitWithUses(Opcode::kCollective, stream, collective, uses);
}

std::size_t ProgramBuilder::Record(StreamId stream, Index event) {
  Emit(Opcode::kRecordEvent, stream, event);
  return program_.step.size() - 1;
}

void ProgramBuilder::Wait(StreamId stream, Index event) { Emit(Opcode::kWaitEvent, stream, event); }

std::size_t ProgramBuilder::HostWait(Index event) {
  Emit(Opcode::kHostWaitEvent, 0, event);
  return program_.step.size() - 1;
}

void ProgramBuilder::Allocate(StreamId owner, Index buffer) {
  Emit(Opcode::kAllocate, owner, buffer);
  if (all_uses() || first_delaying_ > 0) return;
  if (owners_.size() < program_.buffers.size()) {
    owners_.resize(program_.buffers.size(), std::numeric_limits<StreamId>::max());
  }
  owners_[buffer] = owner;
}

void ProgramBuilder::Release(Index buffer) { Emit(Opcode::kRelease, 0, buffer); }

void ProgramBuilder::RecordStream(StreamId user, Index buffer) {
  const bool delays = first_delaying_ > 0 ? user >= first_delaying_
                                          : buffer >= owners_.size() || owners_[buffer] != user;
  STEPCAST_CHECK(all_uses() || delays, "recorded are streams whose uses of the buffer were kept");
  Emit(Opcode::kRecordStream, user, buffer);
}

}  // namespace stepcast::lowering
