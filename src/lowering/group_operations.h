#pragma once

#include <vector>

#include "src/lowering/program_builder.h"
#include "src/model/operation.h"
#include "src/plan/plan.h"

namespace stepcast::lowering {

// The collectives and messages inside of layers (model::GroupOperation): for each set of axes a
// communicator and a stream of its own, as a process group of PyTorch has. A collective begins when
// the compute stream has done what was issued before it; an operation that uses the result waits
// for its end.
class GroupOperations {
 public:
  GroupOperations(const plan::Plan& plan, StreamId compute, ProgramBuilder& builder)
      : plan_(plan), compute_(compute), builder_(builder) {}

  // What a group operation is in the program.
  struct Entry {
    StreamId stream = 0;
    // Of messages the exchange, else the collective.
    Index collective = program::kNone, exchange = program::kNone;
    Index ready = program::kNone, done = program::kNone;  // events
  };
  Entry Add(const model::GroupOperation& operation);

  // `source`, `target`: the buffers of the operation's values.
  void Issue(const Entry& entry, const model::GroupOperation& operation, Index source,
             Index target);
  // The bytes of a value's buffer that are used.
  program::BufferUse RangeOf(const model::ValueUse& use, Index buffer, bool write) const;

 private:
  struct Group {
    parallel::AxisSet axes;
    StreamId stream = 0;
    Index communicator = program::kNone;
    Index ready = program::kNone;
  };
  const Group& GroupOf(parallel::AxisSet axes);

  const plan::Plan& plan_;
  const StreamId compute_;
  ProgramBuilder& builder_;
  std::vector<Group> groups_;
};

}  // namespace stepcast::lowering
