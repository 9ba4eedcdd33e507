#include "src/runtime/cuda/backend.h"

#include <cublasLt.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
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

  int MaxLocalRanks() const override { return static_cast<int>(inventory_.devices.size()); }

  Attempt<std::unique_ptr<runtime::Device>> MakeDevice(const program::Program& program, Job& job,
                                                       const DeviceOptions& options) override {
    const Place& place = job.place();
    if (place.local_rank >= MaxLocalRanks()) {
      return tl::make_unexpected(
          Failure{fmt::format("every rank needs a GPU of its own: {} has {} ranks and {} GPUs",
                              place.host, place.local_ranks, MaxLocalRanks())});
    }
    return GpuDevice::Make(program, job, place.local_rank, options);
  }

 private:
  Inventory inventory_;
};

}  // namespace

Attempt<std::unique_ptr<Backend>> MakeCudaBackend() {
  Inventory inventory = ListDevices();
  if (inventory.devices.empty()) {
    return tl::make_unexpected(
        Failure{fmt::format("no GPU answers: {}", inventory.no_devices_because)});
  }
  // Between GPUs of one process NCCL reads and writes the users' own buffers, which it cannot where
  // they come from a memory pool (cudaMallocAsync): other GPUs do not see those. Without, it does
  // what it does between processes, as frameworks run it. Before NCCL looks and other threads run.
  setenv("NCCL_P2P_DIRECT_DISABLE", "1", 0);
  return std::make_unique<CudaBackend>(std::move(inventory));
}

}  // namespace stepcast::runtime::cuda
