#include "src/runtime/cuda/communicator_cache.h"

#include <utility>

namespace stepcast::runtime::cuda {

void AbortCommunicators(const std::vector<ncclComm_t>& communicators) {
  constexpr int kTakesGroups = NCCL_VERSION(2, 22, 0);
  int version = 0;
  const bool together = ncclGetVersion(&version) == ncclSuccess && version >= kTakesGroups &&
                        ncclGroupStart() == ncclSuccess;
  for (ncclComm_t communicator : communicators) {
    if (communicator != nullptr) ncclCommAbort(communicator);
  }
  if (together) ncclGroupEnd();
}

CommunicatorCache::~CommunicatorCache() {
  // Destroying would wait for the other ranks, which may be threads that are gone.
  std::vector<ncclComm_t> all;
  for (const auto& [key, communicator] : communicators_) all.push_back(communicator);
  if (!all.empty()) AbortCommunicators(all);
}

ncclComm_t CommunicatorCache::Take(const Key& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = communicators_.find(key);
  return found == communicators_.end() ? nullptr : std::exchange(found->second, nullptr);
}

void CommunicatorCache::Give(const Key& key, ncclComm_t communicator) {
  const std::scoped_lock lock(mutex_);
  communicators_[key] = communicator;
}

}  // namespace stepcast::runtime::cuda
