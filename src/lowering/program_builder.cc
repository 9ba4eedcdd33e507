#include "src/lowering/program_builder.h"

#include <algorithm>
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

}  // namespace

BufferUse Reads(Index buffer, Bytes offset, Bytes size) {
  return {.buffer = buffer, .write = false, .offset = offset, .size = size};
}

BufferUse Writes(Index buffer, Bytes offset, Bytes size) {
  return {.buffer = buffer, .write = true, .offset = offset, .size = size};
}

StreamId ProgramBuilder::AddStream(std::string name) {
  return static_cast<StreamId>(Append(program_.streams, {.name = std::move(name)}));
}

Index ProgramBuilder::AddCommunicator(std::string name, std::vector<int> ranks) {
  if (ranks.size() <= 1) return program::kNone;
  const Index group = Append(program_.groups, {.name = name, .ranks = std::move(ranks)});
  return Append(program_.communicators, {.name = std::move(name), .group = group});
}

Index ProgramBuilder::AddEvent(std::string name) {
  return Append(program_.events, {.name = std::move(name)});
}

Index ProgramBuilder::AddBuffer(std::string name, Bytes size, program::Category category,
                                Bytes padding) {
  return Append(program_.buffers,
                {.name = std::move(name), .size = size, .category = category, .padding = padding});
}

Index ProgramBuilder::AddKernel(Kernel kernel) {
  return Append(program_.kernels, std::move(kernel));
}

Index ProgramBuilder::AddCollective(const program::Collective& collective) {
  auto& table = program_.collectives;
  const auto found = std::find(table.begin(), table.end(), collective);
  if (found != table.end()) return static_cast<Index>(found - table.begin());
  return Append(table, collective);
}

Index ProgramBuilder::AddLabel(std::string label) {
  return Append(program_.labels, std::move(label));
}

program::Instruction& ProgramBuilder::Emit(Opcode opcode, StreamId stream, Index operand) {
  auto& section = in_step_ ? program_.step : program_.prologue;
  if (in_step_ && describes_data_flow_) {
    program_.data_flow.first.push_back(static_cast<Index>(program_.data_flow.effects.size()));
  }
  section.push_back({.opcode = opcode,
                     .phase = phase_,
                     .stream = stream,
                     .operand = operand,
                     .first_use = static_cast<Index>(program_.uses.size()),
                     .use_count = 0,
                     .micro_batch = micro_batch_,
                     .label = label_});
  return section.back();
}

void ProgramBuilder::EmitWithUses(Opcode opcode, StreamId stream, Index operand,
                                  std::span<const BufferUse> uses) {
  auto& instruction = Emit(opcode, stream, operand);
  for (const BufferUse& use : uses) {
    if (use.size == Bytes(0)) continue;  // an empty range is no use
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

void ProgramBuilder::RunOnHost(std::string name, Time duration) {
  Emit(Opcode::kHostTask, 0,
       Append(program_.host_tasks, {.name = std::move(name), .duration = duration}));
}

void ProgramBuilder::Copy(StreamId stream, const program::Copy& copy,
                          std::span<const BufferUse> uses) {
  auto& table = program_.copies;
  const auto found = std::find_if(table.begin(), table.end(), [&](const program::Copy& other) {
    return other.direction == copy.direction && other.bytes == copy.bytes;
  });
  const auto index = static_cast<Index>(found - table.begin());
  if (found == table.end()) table.push_back(copy);
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
}

void ProgramBuilder::Release(Index buffer) { Emit(Opcode::kRelease, 0, buffer); }

void ProgramBuilder::RecordStream(StreamId user, Index buffer) {
  Emit(Opcode::kRecordStream, user, buffer);
}

}  // namespace stepcast::lowering
