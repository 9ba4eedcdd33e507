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

// NCCL communicators that stay connected from program to program: to connect one takes NCCL up to
// seconds, and a calibration runs hundreds of programs over the same few groups.

// Ends communicators of the calling process without waiting for their partners, together: one by
// one, the first would wait for the device, and so for a kernel of the second that waits for a
// partner (PyTorch issue 119797). NCCL before 2.22 does not take them so.
void AbortCommunicators(const std::vector<ncclComm_t>& communicators);

// Threads may use it at the same time.
class CommunicatorCache {
 public:
  struct Key {
    int rank = 0;            // of the job, whose communicator it is
    std::vector<int> ranks;  // of the group
    int copy = 0;            // a program may have several over one group
    friend bool operator<(const Key& a, const Key& b) {
      return std::tie(a.rank, a.ranks, a.copy) < std::tie(b.rank, b.ranks, b.copy);
    }
  };

  CommunicatorCache() = default;
  CommunicatorCache(const CommunicatorCache&) = delete;
  CommunicatorCache& operator=(const CommunicatorCache&) = delete;
  // Nothing may communicate any more.
  ~CommunicatorCache();

  // nullptr: there is none.
  ncclComm_t Take(const Key& key);
  // Idle, and without an error.
  void Give(const Key& key, ncclComm_t communicator);

 private:
  std::mutex mutex_;
  std::map<Key, ncclComm_t> communicators_;
};

// A program's communicators as NCCL communicators of the current device: one for each, also where
// the group has one rank. They come from a cache, and go back there unless something failed.

class Communicators {
 public:
  // All ranks of the job call this together. Program and cache outlive it.
  static Attempt<std::unique_ptr<Communicators>> Make(const program::Program& program, Job& job,
                                                      CommunicatorCache& cache);
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;
  // Nothing may communicate, unless Abort was called.
  ~Communicators();

  // One part of a collective, `elements` of the whole, as NCCL counts and places them (see
  // program::EffectKind::kCollective). Parts that stand between Begin and End are one operation.
  Attempt<void> Begin();
  Attempt<void> Part(const program::Collective& collective, std::int64_t elements,
                     const void* source, void* target, cudaStream_t stream);
  Attempt<void> End();
  // One end of a message, `bytes` at `data`, with the rank at a position of the group; between
  // Begin and End, too.
  Attempt<void> Move(program::Index communicator, program::MessageDirection direction, int peer,
                     Bytes bytes, void* data, cudaStream_t stream);

  // A partner that is gone, as far as NCCL has noticed.
  Attempt<void> CheckPartners() const;
  // Aborts all that is in flight, so that no rank waits for a partner that is gone.
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

// Whether collectives do what they should, on numbers whose sums are known.

// Runs a collective like this one on a few thousand numbers and waits for it. All ranks of its
// group call this together. A wrong number is a Failure that names the collective. fp8 passes
// unchecked.
Attempt<void> CheckCollective(const program::Program& program,
                              const program::Collective& collective, int rank,
                              Communicators& communicators, cudaStream_t stream);

// The expected values: the numbers that group rank `member` gives, and those that it gets.
std::vector<float> CheckedSource(const program::Collective& collective, int member, int ranks);
std::vector<float> CheckedTarget(const program::Collective& collective, int member, int ranks);

// Values of a storage type as FP32, and back, rounded.
std::vector<float> Widened(std::span<const std::byte> bytes, DataType type);
std::vector<std::byte> Narrowed(std::span<const float> values, DataType type);

// What a collective sends and receives when values are kept in another type than it communicates:
// they are converted into and out of a staging area, one launch for each pair of types.

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

// Of the effects that communicate. `at` says where elements are; `staging` is as large as
// Work::staging (launch_plan.h) has it.
CollectiveOperands OperandsOf(const program::Collective& collective, std::int64_t ranks,
                              std::span<const program::Effect> effects,
                              const std::function<std::byte*(const program::Elements&)>& at,
                              std::byte* staging);

// How the ranks of a job agree on NCCL's unique ids. A program communicator is one NCCL
// communicator in each of the groups that its index stands for on different ranks (two shard
// groups: two NCCL communicators), so ids are kept by (first rank of the group, communicator).

// The id of each of the program's communicators, by index; empty where every member of its group
// holds one from before (`held`, by index). The first rank of a group makes the id with `make` and
// the others get it through rank 0. All ranks call this together, with programs that have the same
// communicators; groups may differ.
Attempt<std::vector<std::string>> ExchangeCommunicatorIds(
    const program::Program& program, Job& job, const std::vector<bool>& held,
    const std::function<Attempt<std::string>()>& make);

// This rank's number in the communicator's group; -1 if it is not in it.
int RankInGroup(const program::Program& program, program::Index communicator, int rank);

}  // namespace stepcast::runtime::cuda
