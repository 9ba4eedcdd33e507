#include "src/runtime/cuda/management.h"

#include <cuda_runtime.h>
#include <dlfcn.h>

#include "fmt/format.h"

namespace stepcast::runtime::cuda {
namespace {

// The part of NVML's interface that is used here (NVML API Reference Guide). Its header is not
// needed for it, and the library must not be linked: machines that build have no driver.
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

// The library, opened and started, and one of its devices.
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

  // Calls a function of NVML; false: there is none, or it failed.
  template <typename... Arguments>
  bool Call(const char* name, Arguments... arguments) const {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, name));
    return function != nullptr && function(arguments...) == 0;
  }
  // The same with the device in front; needs one.
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

}  // namespace stepcast::runtime::cuda
