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

// NCCL communicators that stay connected between programs. NCCL takes up to seconds to connect one,
// and a calibration runs hundreds of programs over the same few groups.

// Aborts communicators of this process without waiting for their partners, all in one NCCL group.
// Aborted one by one, the first would wait for the device, and so for a kernel of the second that
// waits for a partner (PyTorch issue 119797). NCCL before 2.22 does not accept such a group.
void AbortCommunicators(const std::vector<ncclComm_t>& communicators);

// Thread-safe.
class CommunicatorCache {
 public:
  struct Key {
    int rank = 0;            // of the job; owns the communicator
    std::vector<int> ranks;  // of the group
    int copy = 0;            // distinguishes a program's communicators over one group
    friend bool operator<(const Key& a, const Key& b) {
      return std::tie(a.rank, a.ranks, a.copy) < std::tie(b.rank, b.ranks, b.copy);
    }
  };

  CommunicatorCache() = default;
  CommunicatorCache(const CommunicatorCache&) = delete;
  CommunicatorCache& operator=(const CommunicatorCache&) = delete;
  // No communication may be in flight.
  ~CommunicatorCache();

  // nullptr if there is none.
  ncclComm_t Take(const Key& key);
  // `communicator` must be idle and without an error.
  void Give(const Key& key, ncclComm_t communicator);

 private:
  std::mutex mutex_;
  std::map<Key, ncclComm_t> communicators_;
};

// A program's communicators as NCCL communicators of the current device. Groups of one rank have
// one too. They come from a cache, and return to it unless something failed.

class Communicators {
 public:
  // All ranks of the job call this together. `program` and `cache` must outlive the result.
  static Attempt<std::unique_ptr<Communicators>> Make(const program::Program& program, Job& job,
                                                      CommunicatorCache& cache);
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;
  // No communication may be in flight, unless Abort was called.
  ~Communicators();

  // One part of a collective: `elements` of the whole, counted and placed as in NCCL (see
  // program::EffectKind::kCollective). Parts between Begin and End are one operation.
  Attempt<void> Begin();
  Attempt<void> Part(const program::Collective& collective, std::int64_t elements,
                     const void* source, void* target, cudaStream_t stream);
  Attempt<void> End();
  // One end of a message: `bytes` at `data`, to or from the rank at position `peer` of the group.
  // Must be called between Begin and End.
  Attempt<void> Move(program::Index communicator, program::MessageDirection direction, int peer,
                     Bytes bytes, void* data, cudaStream_t stream);

  // Fails if NCCL has noticed that a partner is gone.
  Attempt<void> CheckPartners() const;
  // Aborts all communication in flight, so that no rank waits for a partner that is gone.
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

// Checks collectives on numbers with known sums.

// Runs a collective of this form on a few thousand numbers and waits for it. A wrong number is a
// Failure that names the collective. fp8 is not checked. All ranks of its group call this together.
Attempt<void> CheckCollective(const program::Program& program,
                              const program::Collective& collective, int rank,
                              Communicators& communicators, cudaStream_t stream);

// The values that group rank `member` sends and, below, those that it must receive.
std::vector<float> CheckedSource(const program::Collective& collective, int member, int ranks);
std::vector<float> CheckedTarget(const program::Collective& collective, int member, int ranks);

// Values of a storage type converted to FP32, and back with rounding.
std::vector<float> Widened(std::span<const std::byte> bytes, DataType type);
std::vector<std::byte> Narrowed(std::span<const float> values, DataType type);

// Converts a collective's operands if they are stored in another type than it communicates. They
// pass through a staging area, with one launch for each pair of types.

struct CollectiveOperands {
  struct Part {
    std::int64_t elements = 0;  // of the whole collective
    const std::byte* source = nullptr;
    std::byte* target = nullptr;
  };
  std::vector<Part> parts;
  using Conversions = std::vector<std::pair<TypePair, std::vector<MoveWork>>>;
  Conversions before, after;  // the communication
};

// The operands of a collective's effects. `at` maps elements to addresses; `staging` has the size
// of Work::staging (launch_plan.h).
CollectiveOperands OperandsOf(const program::Collective& collective, std::int64_t ranks,
                              std::span<const program::Effect> effects,
                              const std::function<std::byte*(const program::Elements&)>& at,
                              std::byte* staging);

// How the ranks of a job exchange NCCL's unique ids. A program communicator can stand for different
// groups on different ranks (two shard groups are two NCCL communicators). Ids are therefore keyed
// by (first rank of the group, communicator).

// The id of each of the program's communicators, by index. It is empty if every member of the group
// still holds the communicator (`held`, by index). The first rank of a group makes the id with
// `make`, and rank 0 distributes it. All ranks call this together, with programs that have the same
// communicators; groups may differ.
Attempt<std::vector<std::string>> ExchangeCommunicatorIds(
    const program::Program& program, Job& job, const std::vector<bool>& held,
    const std::function<Attempt<std::string>()>& make);

// This rank's position in the communicator's group, or -1 if it is not a member.
int RankInGroup(const program::Program& program, program::Index communicator, int rank);

}  // namespace stepcast::runtime::cuda
