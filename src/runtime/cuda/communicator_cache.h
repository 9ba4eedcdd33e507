#pragma once

#include <nccl.h>

#include <map>
#include <mutex>
#include <tuple>
#include <vector>

// NCCL communicators that stay connected from program to program: to connect one takes NCCL up to
// seconds, and a calibration runs hundreds of programs over the same few groups.
namespace stepcast::runtime::cuda {

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

}  // namespace stepcast::runtime::cuda
