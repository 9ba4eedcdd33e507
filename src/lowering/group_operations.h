#pragma once

#include <vector>

#include "src/lowering/program_builder.h"
#include "src/model/operation.h"
#include "src/parallel/rank_grid.h"

namespace stepcast::lowering {

// Collectives and messages inside layers (model::GroupOperation). Each set of axes has a separate
// communicator and stream, like a process group of PyTorch. A collective starts after the work that
// was issued earlier on the compute stream. An operation that uses the result waits for the end of
// the collective.
class GroupOperations {
 public:
  GroupOperations(const parallel::Grids& grids, StreamId compute, ProgramBuilder& builder)
      : grids_(grids), compute_(compute), builder_(builder) {}

  // The entries of a group operation in the program's tables.
  struct Entry {
    StreamId stream = 0;
    // Messages use `exchange`; all other operations use `collective`.
    Index collective = program::kNone, exchange = program::kNone;
    Index ready = program::kNone, done = program::kNone;  // indices of events
  };
  Entry Add(const model::GroupOperation& operation);

  // Issues the operation. `source` and `target` are the buffers of its values.
  void Issue(const Entry& entry, const model::GroupOperation& operation, Index source,
             Index target);
  // Returns the range of `buffer` that the operation uses for a value.
  program::BufferUse RangeOf(const model::ValueUse& use, Index buffer, bool write) const;

 private:
  struct Group {
    parallel::AxisSet axes;
    StreamId stream = 0;
    Index communicator = program::kNone;
    Index ready = program::kNone;
  };
  const Group& GroupOf(parallel::AxisSet axes);

  const parallel::Grids& grids_;
  const StreamId compute_;
  ProgramBuilder& builder_;
  std::vector<Group> groups_;
};

}  // namespace stepcast::lowering
