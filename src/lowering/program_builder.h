#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/lowering/lower_options.h"
#include "src/parallel/group_layout.h"
#include "src/program/program.h"

// Writes a step program in host order. Instructions before BeginStep() are in the prologue; later
// instructions are in the step. Phase, label and micro-batch apply to all later instructions.
namespace stepcast::lowering {

using program::Index;
using StreamId = std::uint16_t;
// The stream on which a program's kernels run.
constexpr StreamId kCompute = program::Program::kComputeStream;

// A range [first, end) of indices in one of the program's tables. (clang 14 does not compile
// std::views::iota with the standard library of gcc 12.)
class Entries {
 public:
  class Iterator {
   public:
    explicit Iterator(Index at) : at_(at) {}
    Index operator*() const { return at_; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    Index at_;
  };

  Entries() = default;
  Entries(Index first, Index end) : first_(first), end_(end) {}
  Iterator begin() const { return Iterator(first_); }
  Iterator end() const { return Iterator(end_); }
  std::size_t size() const { return end_ - first_; }
  bool empty() const { return first_ == end_; }
  Index operator[](std::size_t i) const { return first_ + static_cast<Index>(i); }

 private:
  Index first_ = 0, end_ = 0;
};

// Return an operation's use of a range of a buffer.
inline program::BufferUse Reads(Index buffer, Bytes offset, Bytes size) {
  return {.buffer = buffer, .write = false, .offset = offset, .size = size};
}
inline program::BufferUse Writes(Index buffer, Bytes offset, Bytes size) {
  return {.buffer = buffer, .write = true, .offset = offset, .size = size};
}

// The uses of an operation: a range of entries of Program::uses.
struct UseRange {
  Index first = 0, count = 0;
};

class ProgramBuilder {
 public:
  explicit ProgramBuilder(const LowerOptions& options = {})
      : describes_data_flow_(options.data_flow) {
    program_.rank = options.rank;
  }
  ProgramBuilder(const ProgramBuilder&) = delete;
  ProgramBuilder& operator=(const ProgramBuilder&) = delete;

  // Adds a text that several names use, such as "model.layers.3". Named() combines such texts.
  Index AddText(std::string_view text) { return program_.texts.Add(text); }
  program::NameParts Named(Index text, std::string_view part) {
    return {.first = text, .second = AddText(part)};
  }
  program::NameParts Named(std::string_view text, std::string_view part) {
    return Named(AddText(text), part);
  }
  // Adds a text with a number, for example "bucket 3" from "bucket " and 3.
  Index AddNumbered(std::string_view text, std::size_t number);

  StreamId AddStream(std::string name);
  // Return the sizes of the program's tables, which are also the indices of the next entries.
  StreamId streams() const { return static_cast<StreamId>(program_.streams.size()); }
  Index buffers() const { return static_cast<Index>(program_.buffers.size()); }
  Index kernels() const { return static_cast<Index>(program_.kernels.size()); }
  Index texts() const { return program_.texts.size(); }
  // Adds a communicator of the rank's group. Returns program::kNone for a group of one rank, which
  // needs no communicator.
  Index AddCommunicator(std::string name, const parallel::GroupLayout& layout);
  Index AddEvent(program::NameParts name) {
    program_.events.push_back({name});
    return static_cast<Index>(program_.events.size() - 1);
  }
  Index AddEvent(std::string_view name) { return AddEvent({.first = AddText(name)}); }
  Index AddBuffer(program::NameParts name, Bytes size, program::Category category,
                  Bytes padding = {}) {
    program_.buffers.push_back(
        {.name = name, .size = size, .category = category, .padding = padding});
    return static_cast<Index>(program_.buffers.size() - 1);
  }
  Index AddBuffer(std::string_view name, Bytes size, program::Category category,
                  Bytes padding = {}) {
    return AddBuffer({.first = AddText(name)}, size, category, padding);
  }
  Index AddKernel(Kernel kernel);
  // Adds a kernel for work of the host's CPUs or drives. A stream waits for this work.
  Index AddHostKernel(const char* name, Time time) {
    return AddKernel({.name = name, .kind = KernelKind::kGiven, .given = time, .on_host = true});
  }
  void SetIssuer(Index kernel, Issuer issuer) { program_.kernels[kernel].issuer = issuer; }
  // Adds a collective or an exchange. Identical entries have the same index.
  Index AddCollective(const program::Collective& collective);
  Index AddAllReduce(Index communicator, Bytes bytes, DataType type, bool average = false) {
    return AddCollective({.kind = CollectiveKind::kAllReduce,
                          .communicator = communicator,
                          .bytes = bytes,
                          .data_type = type,
                          .average = average});
  }
  Index AddExchange(const program::Exchange& exchange);
  const program::Collective& CollectiveAt(Index index) const { return program_.collectives[index]; }
  Index AddLabel(std::string_view label);

  // Reserves memory for more entries.
  void ReserveBuffers(std::size_t buffers) {
    program_.buffers.reserve(program_.buffers.size() + buffers);
  }
  void ReserveKernels(std::size_t kernels) {
    program_.kernels.reserve(program_.kernels.size() + kernels);
  }
  void ReserveUses(std::size_t uses) { program_.uses.reserve(program_.uses.size() + uses); }
  void ReserveStep(std::size_t instructions) { program_.step.reserve(instructions); }

  void BeginStep() { section_ = &program_.step; }
  void SetPhase(program::Phase phase) { stamp_.phase = phase; }
  void SetLabel(Index label) { stamp_.label = label; }
  void SetMicroBatch(std::int64_t micro_batch) {
    stamp_.micro_batch = static_cast<std::uint16_t>(micro_batch);
  }

  // Returns whether effects and state are recorded. If false, the functions that record them do
  // nothing. Call this function before you compute expensive arguments.
  bool describes_data_flow() const { return describes_data_flow_; }
  // Makes the host wait for each later operation of the step on this stream. The wait uses `event`.
  void WaitForLaunches(StreamId stream, Index event) {
    awaited_.resize(std::max<std::size_t>(awaited_.size(), stream + 1u), program::kNone);
    awaited_[stream] = event;
  }
  // Adds an effect to the next kernel or collective. Several effects apply in the order of the
  // calls.
  void With(const program::Effect& effect);
  void With(std::span<const program::Effect> effects);
  void AddState(const program::StatePart& part);
  void SetOptimizer(bool adamw) { program_.data_flow.adamw = adamw; }

  // Adds ranges that the next operation uses, in addition to the ranges passed with the operation.
  // Ignores empty ranges.
  void Use(const program::BufferUse& use) {
    if (use.size == Bytes(0)) return;
    program::BufferUse& added = program_.uses.emplace_back();
    added.buffer = use.buffer;
    added.write = use.write;
    added.offset = use.offset;
    added.size = use.size;
  }
  void Use(std::span<const program::BufferUse> uses);
  // Adds several ranges, like Use. No range may be empty.
  void UseAll(std::span<const program::BufferUse> uses) {
    program_.uses.insert(program_.uses.end(), uses.begin(), uses.end());
  }

  // Runs kernels one after another, without uses or effects.
  void Run(StreamId stream, std::span<const Index> kernels);
  void Run(StreamId stream, Index kernel) { Operate(program::Opcode::kKernel, stream, kernel); }
  void Run(StreamId stream, Index kernel, std::span<const program::BufferUse> uses) {
    Use(uses);
    Run(stream, kernel);
  }
  void Run(StreamId stream, Index kernel, std::initializer_list<program::BufferUse> uses) {
    Run(stream, kernel, std::span(uses.begin(), uses.size()));
  }
  // Adds a list of uses for several operations. Pass the result to Run.
  UseRange AddUses(std::span<const program::BufferUse> uses) {
    Use(uses);
    return TakeUses();
  }
  void Run(StreamId stream, Index kernel, UseRange uses) {
    Operate(program::Opcode::kKernel, stream, kernel, uses);
  }
  // Makes the host busy for `duration`.
  void RunOnHost(std::string_view name, Time duration) { RunOnHost(AddHostTask(name, duration)); }
  Index AddHostTask(std::string_view name, Time duration);
  void RunOnHost(Index task) { Operate(program::Opcode::kHostTask, 0, task); }
  void Copy(StreamId stream, const program::Copy& copy, std::span<const program::BufferUse> uses);
  // Copy `bytes` over the host link, from or to the device ranges `uses`.
  void ToHost(StreamId stream, Bytes bytes, std::initializer_list<program::BufferUse> uses) {
    Copy(stream, {.direction = program::CopyDirection::kDeviceToHost, .bytes = bytes},
         std::span(uses.begin(), uses.size()));
  }
  void ToDevice(StreamId stream, Bytes bytes, std::initializer_list<program::BufferUse> uses) {
    Copy(stream, {.direction = program::CopyDirection::kHostToDevice, .bytes = bytes},
         std::span(uses.begin(), uses.size()));
  }
  void Communicate(StreamId stream, Index collective, std::span<const program::BufferUse> uses) {
    Use(uses);
    Operate(program::Opcode::kCollective, stream, collective);
  }
  void Communicate(StreamId stream, Index collective,
                   std::initializer_list<program::BufferUse> uses) {
    Communicate(stream, collective, std::span(uses.begin(), uses.size()));
  }
  // Writes an exchange. `uses` has one entry per message, in the order of the messages.
  void Exchange(StreamId stream, Index exchange, std::span<const program::BufferUse> uses) {
    program_.uses.insert(program_.uses.end(), uses.begin(), uses.end());
    Operate(program::Opcode::kExchange, stream, exchange);
  }
  void Exchange(StreamId stream, Index exchange, std::initializer_list<program::BufferUse> uses) {
    Exchange(stream, exchange, std::span(uses.begin(), uses.size()));
  }
  // Write an instruction. Record and HostWait return the instruction's index in the step, for
  // SetOperand.
  std::size_t Record(StreamId stream, Index event) {
    Emit(program::Opcode::kRecordEvent, stream, event);
    return program_.step.size() - 1;
  }
  void Wait(StreamId stream, Index event) { Emit(program::Opcode::kWaitEvent, stream, event); }
  std::size_t HostWait(Index event) {
    Emit(program::Opcode::kHostWaitEvent, 0, event);
    return program_.step.size() - 1;
  }
  // Sets the operand of an instruction that was written before the operand was known.
  void SetOperand(std::size_t instruction, Index operand) {
    program_.step[instruction].operand = operand;
  }
  // Makes stream `waiter` wait for all work issued on stream `other`. The wait uses `event`.
  void WaitForStream(StreamId waiter, StreamId other, Index event) {
    Record(other, event);
    Wait(waiter, event);
  }
  void Allocate(StreamId owner, Index buffer) { Emit(program::Opcode::kAllocate, owner, buffer); }
  void Release(Index buffer) { Emit(program::Opcode::kRelease, 0, buffer); }
  void RecordStream(StreamId user, Index buffer) {
    Emit(program::Opcode::kRecordStream, user, buffer);
  }

  Bytes SizeOf(Index buffer) const { return program_.buffers[buffer].size; }
  // Return the use of a complete buffer.
  program::BufferUse ReadsAll(Index buffer) const {
    return Reads(buffer, Bytes(0), SizeOf(buffer));
  }
  program::BufferUse WritesAll(Index buffer) const {
    return Writes(buffer, Bytes(0), SizeOf(buffer));
  }

  program::Program Take();

 private:
  void Emit(program::Opcode opcode, StreamId stream, Index operand, UseRange uses) {
    if (describes_data_flow_) BeginEffects();
    Append(opcode, stream, operand, uses);
  }
  // Appends an instruction. Writes the entry field by field, because a wide copy of recently
  // written fields would wait for the store buffer.
  void Append(program::Opcode opcode, StreamId stream, Index operand, UseRange uses) {
    program::Instruction& instruction = section_->emplace_back();
    instruction.opcode = opcode;
    instruction.phase = stamp_.phase;
    instruction.stream = stream;
    instruction.operand = operand;
    instruction.first_use = uses.first;
    instruction.use_count = uses.count;
    instruction.micro_batch = stamp_.micro_batch;
    instruction.label = stamp_.label;
  }
  // Appends an instruction without uses.
  void Emit(program::Opcode opcode, StreamId stream, Index operand) {
    Emit(opcode, stream, operand, {.first = taken_uses_, .count = 0});
  }
  void Operate(program::Opcode opcode, StreamId stream, Index operand) {
    Operate(opcode, stream, operand, TakeUses());
  }
  void Operate(program::Opcode opcode, StreamId stream, Index operand, UseRange uses) {
    Emit(opcode, stream, operand, uses);
    if (!pending_.empty()) AddEffects();
    if (stream >= awaited_.size() || awaited_[stream] == program::kNone) return;
    Emit(program::Opcode::kRecordEvent, stream, awaited_[stream]);
    Emit(program::Opcode::kHostWaitEvent, 0, awaited_[stream]);
  }
  // Returns the uses that are not attached to an operation, and marks them as attached.
  UseRange TakeUses() {
    const Index first = std::exchange(taken_uses_, static_cast<Index>(program_.uses.size()));
    return {.first = first, .count = taken_uses_ - first};
  }
  void BeginEffects();
  void AddEffects();

  const bool describes_data_flow_;
  program::Program program_;
  std::vector<program::Instruction>* section_ = &program_.prologue;
  std::vector<program::Effect> pending_;  // effects of the next operation
  std::vector<Index> awaited_;  // by stream: see WaitForLaunches; kNone: the host does not wait
  Index taken_uses_ = 0;        // number of entries of Program::uses that belong to operations
  program::Instruction stamp_;  // phase, label and micro-batch of the next instructions
};

}  // namespace stepcast::lowering
