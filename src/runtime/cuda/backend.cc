#include "src/runtime/cuda/backend.h"

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/runtime/cuda/communicators.h"
#include "src/runtime/cuda/devices.h"
#include "src/runtime/cuda/gpu_device.h"
#include "src/runtime/device.h"

namespace stepcast::runtime::cuda {
// Queries NVML, the driver's management library, about a GPU (by CUDA's number). The library comes
// with the driver and is opened when one of these functions is called.

// Driver version, power limit and highest clocks; unknown values are omitted.
std::vector<std::pair<std::string, std::string>> DescribeManagement(int ordinal);

// Nothing unless NVML reports every value.
std::optional<DeviceHealth> ReadHealth(int ordinal);

namespace {

// The part of NVML's interface used here (NVML API Reference Guide). The library must not be
// linked, since build machines have no driver; its header is not needed.
using NvmlDevice = struct nvmlDevice_st*;
constexpr int kGraphicsClock = 0;
constexpr int kMultiprocessorClock = 1;
constexpr int kMemoryClock = 2;
constexpr int kGpuTemperature = 0;
// nvmlClocksEventReasons (before driver 535: nvmlClocksThrottleReasons).
struct Reason {
  unsigned long long bit;
  const char* name;
};
constexpr Reason kReasons[] = {{0x4, "power limit"},
                               {0x8, "hardware slowdown"},
                               {0x20, "temperature"},
                               {0x40, "hardware's temperature limit"},
                               {0x80, "power brake"}};

// The library, opened and initialized, and one of its devices.
class Nvml {
 public:
  explicit Nvml(int ordinal) : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    started_ = Call("nvmlInit_v2");
    char bus[32] = {};
    if (!started_ || cudaDeviceGetPCIBusId(bus, sizeof bus, ordinal) != cudaSuccess) return;
    if (!Call("nvmlDeviceGetHandleByPciBusId_v2", static_cast<const char*>(bus), &device_)) {
      device_ = nullptr;
    }
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml() {
    if (started_) Call("nvmlShutdown");
    if (library_ != nullptr) dlclose(library_);
  }

  bool started() const { return started_; }
  bool has_device() const { return device_ != nullptr; }

  // Calls a function of NVML. Returns false if there is none, or if it failed.
  template <typename... Arguments>
  bool Call(const char* name, Arguments... arguments) const {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, name));
    return function != nullptr && function(arguments...) == 0;
  }
  // The same with the device as the first argument; requires a device.
  template <typename... Arguments>
  bool Ask(const char* name, Arguments... arguments) const {
    return Call(name, device_, arguments...);
  }

 private:
  void* library_;
  bool started_ = false;
  NvmlDevice device_ = nullptr;
};

}  // namespace

std::vector<std::pair<std::string, std::string>> DescribeManagement(int ordinal) {
  std::vector<std::pair<std::string, std::string>> facts;
  const Nvml nvml(ordinal);
  if (!nvml.started()) return facts;
  char text[96] = {};
  if (nvml.Call("nvmlSystemGetDriverVersion", &text[0], static_cast<unsigned>(sizeof text))) {
    facts.emplace_back("driver", text);
  }
  if (!nvml.has_device()) return facts;
  unsigned number = 0;
  if (nvml.Ask("nvmlDeviceGetEnforcedPowerLimit", &number)) {
    facts.emplace_back("power_limit", fmt::format("{} W", number / 1000));
  }
  if (nvml.Ask("nvmlDeviceGetMaxClockInfo", kGraphicsClock, &number)) {
    facts.emplace_back("highest_clock", fmt::format("{} MHz", number));
  }
  if (nvml.Ask("nvmlDeviceGetMaxClockInfo", kMemoryClock, &number)) {
    facts.emplace_back("memory_clock", fmt::format("{} MHz", number));
  }
  return facts;
}

std::optional<DeviceHealth> ReadHealth(int ordinal) {
  const Nvml nvml(ordinal);
  if (!nvml.has_device()) return std::nullopt;
  unsigned clock = 0, drawn = 0, limit = 0, celsius = 0;
  unsigned long long reasons = 0;
  const bool told = nvml.Ask("nvmlDeviceGetClockInfo", kMultiprocessorClock, &clock) &&
                    nvml.Ask("nvmlDeviceGetPowerUsage", &drawn) &&
                    nvml.Ask("nvmlDeviceGetEnforcedPowerLimit", &limit) &&
                    nvml.Ask("nvmlDeviceGetTemperature", kGpuTemperature, &celsius) &&
                    (nvml.Ask("nvmlDeviceGetCurrentClocksEventReasons", &reasons) ||
                     nvml.Ask("nvmlDeviceGetCurrentClocksThrottleReasons", &reasons));
  if (!told) return std::nullopt;
  DeviceHealth health{.clock_mhz = static_cast<int>(clock),
                      .watts = static_cast<int>(drawn / 1000),
                      .limit_watts = static_cast<int>(limit / 1000),
                      .celsius = static_cast<int>(celsius),
                      .slowed_by = {}};
  for (const Reason& reason : kReasons) {
    if ((reasons & reason.bit) != 0) health.slowed_by.emplace_back(reason.name);
  }
  return health;
}

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
    STEPCAST_TAKE(auto ordinal, OrdinalOf(job));
    return GpuDevice::Make(program, job, ordinal, options, communicators_);
  }

 private:
  // A rank uses the GPU with its number on the node. If a launcher shows each process one GPU
  // (CUDA_VISIBLE_DEVICES, Slurm's --gpus-per-task), the rank uses that one. All ranks call this
  // together.
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
    STEPCAST_TAKE(auto gathered, job.Gather(fmt::format("{} {}", place.node, bus)));
    // Rank 0 finds the first rank that has no GPU or shares one, and tells all ranks.
    std::string told;
    for (std::size_t rank = 0; rank < gathered.size() && told.empty(); ++rank) {
      const auto begin = gathered.begin();
      const auto self = begin + static_cast<std::ptrdiff_t>(rank);
      if (self->back() == ' ' || std::find(begin, self, *self) != self) {
        told = std::to_string(rank);
      }
    }
    STEPCAST_TAKE(auto lacking, job.Broadcast(std::move(told)));
    if (!lacking.empty()) {
      return tl::make_unexpected(
          Failure{fmt::format("every rank needs a separate GPU, but rank {} has no GPU: {} has {} "
                              "ranks, and the process may use {} GPUs",
                              lacking, place.host, place.local_ranks, MaxLocalRanks())});
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
  // Between GPUs of one process, NCCL accesses the users' buffers directly. That fails for buffers
  // from a memory pool (cudaMallocAsync), which other GPUs cannot see. With this variable NCCL
  // works as between processes, which is how frameworks run it. It must be set before NCCL reads it
  // and before the driver has threads.
  setenv("NCCL_P2P_DIRECT_DISABLE", "1", 0);
  Inventory inventory = ListDevices();
  if (inventory.devices.empty()) {
    return tl::make_unexpected(
        Failure{fmt::format("no GPU was found: {}", inventory.no_devices_because)});
  }
  return std::make_unique<CudaBackend>(std::move(inventory));
}

}  // namespace stepcast::runtime::cuda
