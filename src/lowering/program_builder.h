#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/lowering/lower_options.h"
#include "src/parallel/group_layout.h"
#include "src/program/program.h"

// Writes a step program in host order. Instructions go to the prologue until BeginStep() and to the
// step from then on; phase, label and micro-batch are set once and stamped on what follows.
namespace stepcast::lowering {

using program::Index;
using StreamId = std::uint16_t;

// Shorthands for the buffer ranges an operation names.
program::BufferUse Reads(Index buffer, Bytes offset, Bytes size);
program::BufferUse Writes(Index buffer, Bytes offset, Bytes size);

class ProgramBuilder {
 public:
  explicit ProgramBuilder(const LowerOptions& options = {});

  StreamId AddStream(std::string name);
  StreamId streams() const { return static_cast<StreamId>(program_.streams.size()); }
  // Of the rank's group. One of a single rank needs no communicator: returns program::kNone for it.
  Index AddCommunicator(std::string name, const parallel::GroupLayout& layout);
  Index AddEvent(std::string_view name);
  Index AddBuffer(std::string_view name, Bytes size, program::Category category,
                  Bytes padding = {});
  Index AddKernel(Kernel kernel);
  // The same collective twice gives the same index.
  Index AddCollective(const program::Collective& collective);
  Index AddLabel(std::string_view label);

  // Whether buffers, events and labels get the names that they are given, and operations all the
  // uses.
  bool names() const { return names_; }
  // For techniques that know: uses on streams before this one delay no release, because
  // RecordStream never names those. Without it, those on the stream that owns a buffer.
  void SetFirstDelayingStream(StreamId stream) { first_delaying_ = stream; }
  static constexpr StreamId kNoStream = std::numeric_limits<StreamId>::max();
  bool all_uses() const { return names_; }
  // "bucket 3" and "/gradients" together, where names are wanted.
  std::string Named(std::string_view what, std::string_view part) const;
  // "bucket" and 3.
  std::string Numbered(std::string_view what, std::size_t number) const;

  void BeginStep() { in_step_ = true; }
  // Room for so many instructions in the step.
  void ReserveStep(std::size_t instructions) { program_.step.reserve(instructions); }
  void SetPhase(program::Phase phase) { phase_ = phase; }
  void SetLabel(Index label) { label_ = label; }
  void SetMicroBatch(std::int64_t micro_batch) {
    micro_batch_ = static_cast<std::uint16_t>(micro_batch);
  }

  // Whether effects and state are wanted. Where they are not, these calls do nothing; ask first
  // where finding out what to say takes time.
  bool describes_data_flow() const { return describes_data_flow_; }
  // An effect of the kernel or collective that is written next; several stand in order.
  void With(const program::Effect& effect);
  void With(std::span<const program::Effect> effects);
  void AddState(const program::StatePart& part);
  void SetOptimizer(bool adamw) { program_.data_flow.adamw = adamw; }

  void Run(StreamId stream, Index kernel, std::span<const program::BufferUse> uses);
  void Run(StreamId stream, Index kernel, std::initializer_list<program::BufferUse> uses) {
    Run(stream, kernel, std::span(uses.begin(), uses.size()));
  }
  // The host is busy for so long.
  void RunOnHost(std::string_view name, Time duration);
  void Copy(StreamId stream, const program::Copy& copy, std::span<const program::BufferUse> uses);
  void Communicate(StreamId stream, Index collective, std::span<const program::BufferUse> uses);
  void Communicate(StreamId stream, Index collective,
                   std::initializer_list<program::BufferUse> uses) {
    Communicate(stream, collective, std::span(uses.begin(), uses.size()));
  }
  // Record and HostWait return where in the step they stand, for SetOperand.
  std::size_t Record(StreamId stream, Index event);
  void Wait(StreamId stream, Index event);
  std::size_t HostWait(Index event);
  // For what is known only when all of the step is written.
  void SetOperand(std::size_t instruction, Index operand);
  // `waiter` waits for everything issued on `other` so far; `event` carries it.
  void WaitForStream(StreamId waiter, StreamId other, Index event) {
    Record(other, event);
    Wait(waiter, event);
  }
  void Allocate(StreamId owner, Index buffer);
  void Release(Index buffer);
  void RecordStream(StreamId user, Index buffer);

  Bytes SizeOf(Index buffer) const { return program_.buffers[buffer].size; }
  // The whole buffer.
  program::BufferUse ReadsAll(Index buffer) const {
    return Reads(buffer, Bytes(0), SizeOf(buffer));
  }
  program::BufferUse WritesAll(Index buffer) const {
    return Writes(buffer, Bytes(0), SizeOf(buffer));
  }

  program::Program Take();

 private:
  program::Instruction& Emit(program::Opcode opcode, StreamId stream, Index operand);
  void EmitWithUses(program::Opcode opcode, StreamId stream, Index operand,
                    std::span<const program::BufferUse> uses);
  void Reuse(program::Program& spent);

  std::string Written(std::string_view name) const {
    return names_ ? std::string(name) : std::string();
  }

  const int rank_;
  const bool describes_data_flow_;
  const bool names_;
  program::Program program_;
  // Where not all uses are wanted:
  StreamId first_delaying_ = 0;
  std::vector<StreamId> owners_;          // of buffers, where no such stream is known
  std::vector<program::Effect> pending_;  // of the operation that is written next
  bool in_step_ = false;
  program::Phase phase_ = program::Phase::kForward;
  Index label_ = program::kNone;
  std::uint16_t micro_batch_ = 0;
};

}  // namespace stepcast::lowering
