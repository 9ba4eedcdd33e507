#include "src/lowering/program_builder.h"

#include <algorithm>
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
    : rank_(options.rank),
      describes_data_flow_(options.data_flow),
      resizing_(options.resizing),
      sizes_(options.sizes),
      names_(!options.bare && options.resizing == nullptr),
      program_(options.resizing == nullptr ? own_ : *options.resizing->program) {
  STEPCAST_CHECK(!describes_data_flow_ || names_, "a data flow needs all uses, and has its sizes");
  STEPCAST_CHECK(resizing_ == nullptr || sizes_ == nullptr, "sizes are those of a new program");
  if (options.spent != nullptr) Reuse(*options.spent);
}

void ProgramBuilder::Reuse(program::Program& spent) {
  const auto take = [](auto& to, auto& from) {
    to = std::move(from);
    to.clear();
  };
  take(own_.events, spent.events);
  take(own_.buffers, spent.buffers);
  take(own_.kernels, spent.kernels);
  take(own_.collectives, spent.collectives);
  take(own_.uses, spent.uses);
  take(own_.labels, spent.labels);
  take(own_.prologue, spent.prologue);
  take(own_.step, spent.step);
}

Index ProgramBuilder::Count(std::size_t& count, std::size_t size) {
  if (count < size) return static_cast<Index>(count++);
  Differs();
  return 0;
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
  if (resizes()) {
    if (program_.step[instruction].operand != operand) Differs();
    return;
  }
  program_.step[instruction].operand = operand;
}

BufferUse Reads(Index buffer, Bytes offset, Bytes size) {
  return {.buffer = buffer, .write = false, .offset = offset, .size = size};
}

BufferUse Writes(Index buffer, Bytes offset, Bytes size) {
  return {.buffer = buffer, .write = true, .offset = offset, .size = size};
}

StreamId ProgramBuilder::AddStream(std::string name) {
  if (resizes()) return static_cast<StreamId>(Count(streams_, program_.streams.size()));
  return static_cast<StreamId>(Append(program_.streams, {.name = std::move(name)}));
}

Index ProgramBuilder::AddCommunicator(std::string name, const parallel::GroupLayout& layout) {
  if (layout.size() == 1) return program::kNone;
  if (resizes()) {
    const Index index = Count(communicators_, program_.communicators.size());
    if (!resizing_->same) return index;
    const program::Communicator& communicator = program_.communicators[index];
    if (communicator.name != name) Differs();
    program_.groups[communicator.group].ranks = layout.Ranks(rank_);
    program_.groups[communicator.group].layout = layout;
    return index;
  }
  const Index group =
      Append(program_.groups, {.name = name, .ranks = layout.Ranks(rank_), .layout = layout});
  return Append(program_.communicators, {.name = std::move(name), .group = group});
}

Index ProgramBuilder::AddEvent(std::string_view name) {
  if (resizes()) return Count(events_, program_.events.size());
  return Append(program_.events, {.name = Written(name)});
}

Index ProgramBuilder::AddBuffer(std::string_view name, Bytes size, program::Category category,
                                Bytes padding) {
  if (resizes()) {
    const Index index = Count(buffers_, program_.buffers.size());
    if (!resizing_->same) return index;
    program::Buffer& buffer = program_.buffers[index];
    if (buffer.category != category) Differs();
    buffer.size = size;
    buffer.padding = padding;
    return index;
  }
  return Append(program_.buffers,
                {.name = Written(name), .size = size, .category = category, .padding = padding});
}

Index ProgramBuilder::AddSizedBuffer(std::string_view name, const Amount& size,
                                     program::Category category, const Amount& padding) {
  const Index buffer = AddBuffer(name, Bytes(size.value()), category, Bytes(padding.value()));
  if (sizes_ == nullptr) return buffer;
  size.positive();  // an empty buffer is not used
  sizes_->Add(ProgramSizes::Field::kBufferSize, buffer, size);
  sizes_->Add(ProgramSizes::Field::kBufferPadding, buffer, padding);
  return buffer;
}

Index ProgramBuilder::AddKernel(Kernel kernel) {
  if (resizes()) {
    const Index index = Count(kernels_, program_.kernels.size());
    if (!resizing_->same) return index;
    Kernel& resized = program_.kernels[index];
    if (resized.kind != kernel.kind) Differs();
    kernel.name.swap(resized.name);
    resized = std::move(kernel);
    return index;
  }
  program_.kernels.push_back(std::move(kernel));
  return static_cast<Index>(program_.kernels.size() - 1);
}

Index ProgramBuilder::AddSizedKernel(SizedKernel kernel) {
  Kernel& sized = kernel.kernel;
  sized.read = Bytes(kernel.read.value());
  sized.written = Bytes(kernel.written.value());
  sized.given = Picoseconds(kernel.given.value());
  const Index index = AddKernel(std::move(sized));
  if (sizes_ == nullptr) return index;
  sizes_->Add(ProgramSizes::Field::kKernelRead, index, kernel.read);
  sizes_->Add(ProgramSizes::Field::kKernelWritten, index, kernel.written);
  sizes_->Add(ProgramSizes::Field::kKernelGiven, index, kernel.given);
  return index;
}

Index ProgramBuilder::AddCollective(const program::Collective& collective) {
  return AddSizedCollective(collective, collective.bytes.count());
}

Index ProgramBuilder::AddSizedCollective(program::Collective collective, const Amount& bytes) {
  collective.bytes = Bytes(bytes.value());
  std::vector<program::Collective>& table = resizes() ? collectives_ : program_.collectives;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i] == collective && collective_formulas_[i] == bytes.formula()) {
      return static_cast<Index>(i);
    }
  }
  collective_formulas_.push_back(bytes.formula());
  const Index index = Append(table, collective);
  if (sizes_ != nullptr) sizes_->Add(ProgramSizes::Field::kCollectiveBytes, index, bytes);
  return index;
}

Index ProgramBuilder::AddLabel(std::string_view label) {
  if (resizes()) return Count(labels_, program_.labels.size());
  return Append(program_.labels, Written(label));
}

program::Instruction& ProgramBuilder::Emit(Opcode opcode, StreamId stream, Index operand) {
  if (resizes()) return EmitAgain(opcode, stream, operand);
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

program::Instruction& ProgramBuilder::EmitAgain(Opcode opcode, StreamId stream, Index operand) {
  auto& section = in_step_ ? program_.step : program_.prologue;
  std::size_t& at = in_step_ ? step_ : prologue_;
  if (at == section.size()) {
    Differs();
    return surplus_;
  }
  program::Instruction& same = section[at++];
  if (same.opcode != opcode || same.stream != stream || same.operand != operand ||
      same.phase != phase_ || same.label != label_ || same.micro_batch != micro_batch_) {
    Differs();
  }
  return same;
}

void ProgramBuilder::EmitWithUses(Opcode opcode, StreamId stream, Index operand,
                                  std::span<const BufferUse> uses) {
  auto& instruction = Emit(opcode, stream, operand);
  if (resizes() || (!all_uses() && stream < first_delaying_)) return;
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
  if (resizes()) {
    const bool all = streams_ == program_.streams.size() &&
                     communicators_ == program_.communicators.size() &&
                     events_ == program_.events.size() && buffers_ == program_.buffers.size() &&
                     kernels_ == program_.kernels.size() && labels_ == program_.labels.size() &&
                     prologue_ == program_.prologue.size() && step_ == program_.step.size();
    if (!all) Differs();
    program_.collectives = std::move(collectives_);
    program_.copies = std::move(copies_);
    return {};
  }
  STEPCAST_CHECK(pending_.empty(), "every effect belongs to an operation");
  if (describes_data_flow_) {
    program_.data_flow.first.push_back(static_cast<Index>(program_.data_flow.effects.size()));
  }
  return std::move(own_);
}

void ProgramBuilder::Run(StreamId stream, Index kernel, std::span<const BufferUse> uses) {
  EmitWithUses(Opcode::kKernel, stream, kernel, uses);
}

void ProgramBuilder::RunOnHost(std::string_view name, Time duration) {
  if (!resizes()) {
    Emit(Opcode::kHostTask, 0,
         Append(program_.host_tasks, {.name = Written(name), .duration = duration}));
    return;
  }
  const Index index = Count(host_tasks_, program_.host_tasks.size());
  if (resizing_->same) program_.host_tasks[index].duration = duration;
  Emit(Opcode::kHostTask, 0, index);
}

void ProgramBuilder::Copy(StreamId stream, const program::Copy& copy,
                          std::span<const BufferUse> uses) {
  const Index index = Distinct(resizes() ? copies_ : program_.copies, copy,
                               [](const program::Copy& a, const program::Copy& b) {
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
  return (resizes() ? step_ : program_.step.size()) - 1;
}

void ProgramBuilder::Wait(StreamId stream, Index event) { Emit(Opcode::kWaitEvent, stream, event); }

std::size_t ProgramBuilder::HostWait(Index event) {
  Emit(Opcode::kHostWaitEvent, 0, event);
  return (resizes() ? step_ : program_.step.size()) - 1;
}

void ProgramBuilder::Allocate(StreamId owner, Index buffer) {
  Emit(Opcode::kAllocate, owner, buffer);
  if (all_uses() || resizes() || first_delaying_ > 0) return;
  if (owners_.size() < program_.buffers.size()) {
    owners_.resize(program_.buffers.size(), std::numeric_limits<StreamId>::max());
  }
  owners_[buffer] = owner;
}

void ProgramBuilder::Release(Index buffer) { Emit(Opcode::kRelease, 0, buffer); }

void ProgramBuilder::RecordStream(StreamId user, Index buffer) {
  const bool delays = first_delaying_ > 0 ? user >= first_delaying_
                                          : buffer >= owners_.size() || owners_[buffer] != user;
  STEPCAST_CHECK(all_uses() || resizes() || delays,
                 "recorded are streams whose uses of the buffer were kept");
  Emit(Opcode::kRecordStream, user, buffer);
}

}  // namespace stepcast::lowering
