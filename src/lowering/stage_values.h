#pragma once

#include <vector>

#include "src/lowering/program_builder.h"
#include "src/program/data_flow.h"

namespace stepcast::lowering {

// What a pipeline's passes hand to each other in the data flow: 32 bits for each micro-batch,
// which a stage makes from those that it received, sends on, and makes its gradients from. So a
// message that is missing, late, or from somebody else shows in the parameters. Without a data
// flow, or without other stages, all calls do nothing.
class StageValues {
 public:
  StageValues(int stage, int stages, ProgramBuilder& builder)
      : stage_(stage), stages_(stages), builder_(builder) {}

  void WritePrologue(int slots);

  // Said of the pass's kernels (ProgramBuilder::With): the first and the last of a forward, and of
  // a backward. Messages: the buffer that came from or goes to a neighbour; kNone: none.
  void BeginForward(int slot, Index received);
  void EndForward(int slot, Index sent);
  void BeginBackward(int slot, Index received);
  void EndBackward(Index sent);

  // Where gradients of the present backward take their seed from; no buffer: from rank, step and
  // micro-batch.
  program::Elements seed() const;

 private:
  bool on() const { return values_ != program::kNone; }
  program::Elements Value(int at) const;
  // What a message of at least a value carries; else no place.
  program::Elements Carried(Index received);
  void Mix(int target, program::Elements received, program::Elements also, int salt);
  void HandOn(int value, Index sent);

  const int stage_, stages_;
  ProgramBuilder& builder_;
  Index values_ = program::kNone;  // by slot, and behind them that of the backward
  int slots_ = 0;
};

}  // namespace stepcast::lowering
