#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "src/base/data_type.h"
#include "src/runtime/device.h"

// Reductions and gathers around a ring, with MPI's point-to-point messages. MPI's own collectives
// have two drawbacks. First, they choose among half a dozen algorithms by size and release, most of
// which send more than necessary. A ring sends each byte (n - 1) / n times in each of its two
// phases, as in textbooks and in NCCL for large sizes. Second, they occupy a core while they wait.
// With more ranks than cores, a waiting rank here sleeps and polls every 50 us instead.
//
// Each part is divided into pieces that are in flight independently: while one piece is added,
// others are being transferred. Pieces are small enough for MPI's eager protocol. MPI announces
// larger messages first, and the receiver's answer queues behind all ring traffic on its own link.
// A collective would then take about a third longer, depending on what ran before.
namespace stepcast::runtime::host {

class MpiRing {
 public:
  // Does not own the communicator, which must have no other messages.
  MpiRing(MPI_Comm communicator, int position, int members);

  // Sums `source` (all parts) over the members; each member gets its own part in `result`.
  // `average`: divides the sum by the number of members. Parts are equal shares of the elements,
  // rounded to whole elements. `result` may be the part's place in `source`; otherwise the two must
  // not overlap.
  Attempt<void> ReduceScatter(const char* source, char* result, std::int64_t elements,
                              DataType type, bool average);
  // Before: each member has its part in `data`. After: all members have all parts.
  Attempt<void> AllGather(char* data, std::int64_t elements, std::int64_t bytes_per_element);
  // ReduceScatter and AllGather, pipelined: while one piece is in the first phase, another is
  // already in the second.
  Attempt<void> AllReduce(const char* source, char* target, std::int64_t elements, DataType type,
                          bool average);

 private:
  struct Job {
    const char* source = nullptr;  // all parts, to be summed
    char* own = nullptr;           // where the own part's sum is stored
    char* gathered = nullptr;      // all parts
    std::int64_t elements = 0;
    std::int64_t element_bytes = 0;
    DataType type = DataType::kFp32;
    bool average = false;
    int first_step = 0, last_step = 0;  // reduction: 0 to members - 2; then the gather
  };
  struct Slice {
    std::int64_t begin = 0, count = 0;  // elements
  };
  // The state of a piece in flight.
  struct Slot {
    std::int64_t piece = 0;
    int step = 0;
    int outstanding = 0;  // number of messages in flight for the step
  };

  Attempt<void> Run(const Job& job);
  Attempt<void> Begin(const Job& job, int slot);
  Attempt<void> Post(const Job& job, int slot);
  void Complete(const Job& job, int slot);
  // The elements of one piece of a part.
  Slice SliceOf(const Job& job, int part, std::int64_t piece) const;
  char* Scratch(int slot, int which) { return scratch_.data() + (2 * slot + which) * piece_bytes_; }
  int Part(int back) const { return ((position_ - back) % members_ + members_) % members_; }

  MPI_Comm communicator_;
  int position_;
  int members_;
  std::vector<Slot> slots_;
  std::int64_t pieces_ = 0;            // number of pieces in the collective
  std::int64_t begun_ = 0;             // number of pieces begun
  std::vector<MPI_Request> requests_;  // two for each slot: receive, send
  std::vector<int> completed_;
  std::vector<char> scratch_;
  std::int64_t piece_bytes_ = 0;  // size of each of a slot's two scratch slices
};

}  // namespace stepcast::runtime::host
