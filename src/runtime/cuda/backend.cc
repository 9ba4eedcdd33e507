#include "src/runtime/cuda/backend.h"

#include <cublasLt.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/runtime/cuda/communicator_cache.h"
#include "src/runtime/cuda/devices.h"
#include "src/runtime/cuda/gpu_device.h"
#include "src/runtime/cuda/management.h"

namespace stepcast::runtime::cuda {
namespace {

std::string Text(const Version& version) {
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(Inventory inventory) : inventory_(std::move(inventory)) {}

  const char* name() const override { return "cuda"; }

  std::vector<std::pair<std::string, std::string>> Describe() const override {
    const Device& gpu = inventory_.devices.front();
    std::vector<std::pair<std::string, std::string>> facts = {
        {"gpu", gpu.name},
        {"gpus", std::to_string(inventory_.devices.size())},
        {"compute_capability",
         fmt::format("{}.{}", gpu.compute_capability_major, gpu.compute_capability_minor)},
        {"multiprocessors", std::to_string(gpu.multiprocessors)},
        {"memory", fmt::format("{} bytes", gpu.memory.count())},
        {"cuda_driver", Text(inventory_.driver)},
        {"cuda_runtime", Text(inventory_.runtime)},
        {"cublaslt", std::to_string(cublasLtGetVersion())},
        {"nccl", Text(inventory_.nccl)},
    };
    for (auto& fact : DescribeManagement(gpu.ordinal)) facts.push_back(std::move(fact));
    return facts;
  }

  std::optional<DeviceHealth> Health() const override {
    return ReadHealth(inventory_.devices.front().ordinal);
  }

  Bytes CacheSize() const override { return inventory_.devices.front().cache; }
  bool ProductsByLayout() const override { return true; }

  int MaxLocalRanks() const override { return static_cast<int>(inventory_.devices.size()); }

  Attempt<std::unique_ptr<runtime::Device>> MakeDevice(const program::Program& program, Job& job,
                                                       const DeviceOptions& options) override {
    auto ordinal = OrdinalOf(job);
    if (!ordinal) return tl::make_unexpected(std::move(ordinal).error());
    return GpuDevice::Make(program, job, *ordinal, options, communicators_);
  }

 private:
  // Ranks have GPUs by their numbers on the node, or, where a launcher shows each process a GPU of
  // its own (CUDA_VISIBLE_DEVICES, Slurm's --gpus-per-task), the one that there is. All ranks call
  // this together.
  Attempt<int> OrdinalOf(Job& job) {
    const Place& place = job.place();
    {
      const std::scoped_lock lock(mutex_);
      const auto known = ordinals_.find(place.rank);
      if (known != ordinals_.end()) return known->second;
    }
    const int ordinal = place.local_rank < MaxLocalRanks() ? place.local_rank
                        : MaxLocalRanks() == 1             ? 0
                                                           : -1;
    const std::string bus =
        ordinal < 0 ? "" : inventory_.devices[static_cast<std::size_t>(ordinal)].bus;
    auto gathered = job.Gather(fmt::format("{} {}", place.node, bus));
    if (!gathered) return tl::make_unexpected(std::move(gathered).error());
    // Rank 0 looks, and tells the first rank that has none, or another one's.
    std::string told;
    for (std::size_t rank = 0; rank < gathered->size() && told.empty(); ++rank) {
      const auto begin = gathered->begin();
      const auto self = begin + static_cast<std::ptrdiff_t>(rank);
      if (self->back() == ' ' || std::find(begin, self, *self) != self) {
        told = std::to_string(rank);
      }
    }
    auto lacking = job.Broadcast(std::move(told));
    if (!lacking) return tl::make_unexpected(std::move(lacking).error());
    if (!lacking->empty()) {
      return tl::make_unexpected(Failure{
          fmt::format("every rank needs a GPU of its own: rank {} has none; {} has {} ranks "
                      "and {} GPUs that this process may use",
                      *lacking, place.host, place.local_ranks, MaxLocalRanks())});
    }
    const std::scoped_lock lock(mutex_);
    ordinals_[place.rank] = ordinal;
    return ordinal;
  }

  Inventory inventory_;
  CommunicatorCache communicators_;
  std::mutex mutex_;
  std::map<int, int> ordinals_;  // by rank of the job; ranks may be threads of this process
};

}  // namespace

Attempt<std::unique_ptr<Backend>> MakeCudaBackend() {
  // Between GPUs of one process NCCL reads and writes the users' own buffers, which it cannot where
  // they come from a memory pool (cudaMallocAsync): other GPUs do not see those. Without, it does
  // what it does between processes, as frameworks run it. Before NCCL looks, and before
  // the driver has threads.
  setenv("NCCL_P2P_DIRECT_DISABLE", "1", 0);
  Inventory inventory = ListDevices();
  if (inventory.devices.empty()) {
    return tl::make_unexpected(
        Failure{fmt::format("no GPU answers: {}", inventory.no_devices_because)});
  }
  return std::make_unique<CudaBackend>(std::move(inventory));
}

}  // namespace stepcast::runtime::cuda
