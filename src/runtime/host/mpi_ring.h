#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "src/base/data_type.h"
#include "src/runtime/device.h"

// Reductions and gathers around a ring, by MPI's point-to-point messages. MPI's own collectives
// would do, but for two things. They choose among half a dozen algorithms by size and release, and
// most send more than they must; a ring sends each byte (n - 1) / n times for each of the two
// phases, which is what the textbook and NCCL do for large sizes. And while they wait they use up
// the core that another rank's computation needs: with more ranks than cores, a waiting rank here
// sleeps and looks again every 50 us.
//
// Parts go around in pieces, a slice of each part, which are in flight independently: while one
// piece is added, others are on the wire. Pieces are small enough for MPI to send them at once.
// What is larger it announces first, and the receiver's answer then queues on its own link behind
// all that the ring has put there: a collective would take a third longer than its bytes, by how
// much depending on what ran before.
namespace stepcast::runtime::host {

class MpiRing {
 public:
  // Does not own the communicator, whose messages are its alone.
  MpiRing(MPI_Comm communicator, int position, int members);

  // Sums `source` (of all parts) over the members, so that each gets its own part into `result`,
  // divided by their number if it is to be the average. The members' parts are the same share of
  // the elements, rounded to whole ones. `result` may be the part's place in `source`; otherwise
  // they do not overlap.
  Attempt<void> ReduceScatter(const char* source, char* result, std::int64_t elements,
                              DataType type, bool average);
  // Each member has its part in `data`; all get all.
  Attempt<void> AllGather(char* data, std::int64_t elements, std::int64_t bytes_per_element);
  // The two, one piece going on to the second while another is still in the first.
  Attempt<void> AllReduce(const char* source, char* target, std::int64_t elements, DataType type,
                          bool average);

 private:
  struct Job {
    const char* source = nullptr;  // what is summed, all parts
    char* own = nullptr;           // where the own part's sum goes
    char* gathered = nullptr;      // all parts
    std::int64_t elements = 0;
    std::int64_t element_bytes = 0;
    DataType type = DataType::kFp32;
    bool average = false;
    int first_step = 0, last_step = 0;  // reduction: 0 to members - 2; gather: behind it
  };
  struct Slice {
    std::int64_t begin = 0, count = 0;  // elements
  };
  // Where a piece in flight is kept.
  struct Slot {
    std::int64_t piece = 0;
    int step = 0;
    int outstanding = 0;  // messages of the step
  };

  Attempt<void> Run(const Job& job);
  Attempt<void> Begin(const Job& job, int slot);
  Attempt<void> Post(const Job& job, int slot);
  void Complete(const Job& job, int slot);
  // The elements of a part that belong to a piece.
  Slice SliceOf(const Job& job, int part, std::int64_t piece) const;
  char* Scratch(int slot, int which) { return scratch_.data() + (2 * slot + which) * piece_bytes_; }
  int Part(int back) const { return ((position_ - back) % members_ + members_) % members_; }

  MPI_Comm communicator_;
  int position_;
  int members_;
  std::vector<Slot> slots_;
  std::int64_t pieces_ = 0;            // of the collective
  std::int64_t begun_ = 0;             // of them
  std::vector<MPI_Request> requests_;  // two a slot: receive, send
  std::vector<int> completed_;
  std::vector<char> scratch_;
  std::int64_t piece_bytes_ = 0;  // of one of a slot's two scratch slices
};

}  // namespace stepcast::runtime::host
