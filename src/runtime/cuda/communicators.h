#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/data_type.h"
#include "src/program/data_flow.h"
#include "src/program/program.h"
#include "src/runtime/cuda/effects.h"
#include "src/runtime/device.h"
#include "src/runtime/job.h"

namespace stepcast::runtime::cuda {

// NCCL communicators that remain connected between programs, because connecting can take seconds,
// and a calibration runs hundreds of programs on the same few groups.

// Aborts communicators of this process without waiting for other ranks, all in one NCCL group. If
// communicators were aborted one by one, an abort could wait for another communicator's kernel,
// which waits for another rank (PyTorch issue 119797). NCCL before 2.22 does not support aborts in
// a group.
void AbortCommunicators(const std::vector<ncclComm_t>& communicators);

// The communicators that no program currently uses. Thread-safe.
class CommunicatorCache {
 public:
  struct Key {
    int rank = 0;            // rank in the job that owns the communicator
    std::vector<int> ranks;  // members of the group
    int copy = 0;            // distinguishes communicators of one program with the same group
    friend bool operator<(const Key& a, const Key& b) {
      return std::tie(a.rank, a.ranks, a.copy) < std::tie(b.rank, b.ranks, b.copy);
    }
  };

  CommunicatorCache() = default;
  CommunicatorCache(const CommunicatorCache&) = delete;
  CommunicatorCache& operator=(const CommunicatorCache&) = delete;
  // Destroys all communicators. No communication may be in flight.
  ~CommunicatorCache();

  // Removes and returns a communicator, or returns nullptr if no communicator has this key.
  ncclComm_t Take(const Key& key);
  // Adds a communicator, which must be idle and without an error.
  void Give(const Key& key, ncclComm_t communicator);

 private:
  std::mutex mutex_;
  std::map<Key, ncclComm_t> communicators_;
};

// A program's communicators as NCCL communicators of the current device, including groups of one
// rank. The communicators come from a cache; the destructor returns them to the cache unless a
// failure occurred.

class Communicators {
 public:
  // Connects the communicators of `program`. All ranks of the job call this function together.
  // `program` and `cache` must outlive the result.
  static Attempt<std::unique_ptr<Communicators>> Make(const program::Program& program, Job& job,
                                                      CommunicatorCache& cache);
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;
  // No communication may be in flight, unless Abort was called.
  ~Communicators();

  // Part runs one part of a collective. Parts between Begin and End form one operation. `elements`
  // is the number of elements of the full collective, counted as in NCCL
  // (program::EffectKind::kCollective).
  Attempt<void> Begin();
  Attempt<void> Part(const program::Collective& collective, std::int64_t elements,
                     const void* source, void* target, cudaStream_t stream);
  Attempt<void> End();
  // Runs one end of a message. Sends or receives `bytes` at `data`, to or from the rank at position
  // `peer` of the group. Call this function only between Begin and End.
  Attempt<void> Move(program::Index communicator, program::MessageDirection direction, int peer,
                     Bytes bytes, void* data, cudaStream_t stream);

  // Fails if NCCL has detected that another rank of a group has ended.
  Attempt<void> CheckPartners() const;
  // Aborts all communication in flight, so that no rank waits for a rank that has ended.
  void Abort();

 private:
  struct Member {
    CommunicatorCache::Key key;
    ncclComm_t communicator = nullptr;  // nullptr: this rank is not in the group
    std::int64_t ranks = 1;
  };

  Attempt<void> AllToAll(const program::Collective& collective,
                         const program::CollectiveParts& parts, const void* source, void* target,
                         cudaStream_t stream);

  Communicators(const program::Program& program, CommunicatorCache& cache)
      : program_(program), cache_(cache) {}

  const program::Program& program_;
  CommunicatorCache& cache_;
  std::vector<Member> members_;
};

ncclDataType_t NcclType(DataType type);

// Checks collectives with numbers whose sums are known.

// Runs the collective on a few thousand numbers and waits for it. If the result is wrong, returns a
// Failure with the name of the collective. Does not check fp8. All ranks of the collective's group
// call this function together.
Attempt<void> CheckCollective(const program::Program& program,
                              const program::Collective& collective, int rank,
                              Communicators& communicators, cudaStream_t stream);

// CheckedSource returns the values that group rank `member` sends. CheckedTarget returns the values
// that the member must receive.
std::vector<float> CheckedSource(const program::Collective& collective, int member, int ranks);
std::vector<float> CheckedTarget(const program::Collective& collective, int member, int ranks);

// Widened converts values of a storage type to FP32. Narrowed converts FP32 values to a storage
// type, with rounding.
std::vector<float> Widened(std::span<const std::byte> bytes, DataType type);
std::vector<std::byte> Narrowed(std::span<const float> values, DataType type);

// The operands of a collective, and the conversions of operands that are stored in another type.
// Conversions use a staging area. Each pair of types needs one launch.

struct CollectiveOperands {
  struct Part {
    std::int64_t elements = 0;  // number of elements of the full collective
    const std::byte* source = nullptr;
    std::byte* target = nullptr;
  };
  std::vector<Part> parts;
  using Conversions = std::vector<std::pair<TypePair, std::vector<MoveWork>>>;
  Conversions before, after;  // conversions before and after the communication
};

// Returns the source and target addresses of each part of a collective (one part for each effect),
// and the conversions before and after the collective. `at` maps elements to their address.
// `staging` has Work::staging bytes (launch_plan.h).
CollectiveOperands OperandsOf(const program::Collective& collective, std::int64_t ranks,
                              std::span<const program::Effect> effects,
                              const std::function<std::byte*(const program::Elements&)>& at,
                              std::byte* staging);

// Exchanges NCCL's unique ids among the ranks of a job. One communicator of a program may have
// different groups on different ranks; for example, two shard groups are two NCCL communicators.
// The key of an id is therefore the group's first rank and the communicator.

// Returns the ids of the program's communicators, indexed by communicator. An id is empty if every
// member of the group already has the communicator (`held`, same index). The group's first rank
// creates the id with `make`, and rank 0 distributes it. All ranks call this function together,
// with programs that have the same communicators.
Attempt<std::vector<std::string>> ExchangeCommunicatorIds(
    const program::Program& program, Job& job, const std::vector<bool>& held,
    const std::function<Attempt<std::string>()>& make);

// Returns this rank's position in the communicator's group, or -1 if the rank is not a member.
int RankInGroup(const program::Program& program, program::Index communicator, int rank);

}  // namespace stepcast::runtime::cuda
