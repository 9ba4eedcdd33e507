#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <memory>
#include <vector>

#include "src/program/collective_parts.h"
#include "src/program/program.h"
#include "src/runtime/cuda/communicator_cache.h"
#include "src/runtime/device.h"
#include "src/runtime/job.h"

// A program's communicators as NCCL communicators of the current device: one for each, also where
// the group has one rank. They come from a cache, and go back there unless something failed.
namespace stepcast::runtime::cuda {

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

}  // namespace stepcast::runtime::cuda
