#include "src/runtime/cuda/management.h"

#include <cuda_runtime.h>
#include <dlfcn.h>

#include "fmt/format.h"

namespace stepcast::runtime::cuda {
namespace {

// The part of NVML's interface that is used here (NVML API Reference Guide). Its header is not
// needed for it, and the library must not be linked: machines that build have no driver.
using NvmlDevice = struct nvmlDevice_st*;
using NoArguments = int (*)();
using GetText = int (*)(char*, unsigned);
using FindDevice = int (*)(const char*, NvmlDevice*);
using GetNumber = int (*)(NvmlDevice, unsigned*);
using GetClock = int (*)(NvmlDevice, int, unsigned*);
constexpr int kGraphicsClock = 0;
constexpr int kMemoryClock = 2;

template <typename Function>
Function Find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> DescribeManagement(int ordinal) {
  std::vector<std::pair<std::string, std::string>> facts;
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return facts;
  const auto begin = Find<NoArguments>(library, "nvmlInit_v2");
  const auto end = Find<NoArguments>(library, "nvmlShutdown");
  if (begin != nullptr && end != nullptr && begin() == 0) {
    char text[96] = {};
    const auto driver = Find<GetText>(library, "nvmlSystemGetDriverVersion");
    if (driver != nullptr && driver(text, sizeof text) == 0) facts.emplace_back("driver", text);

    char bus[32] = {};
    NvmlDevice device = nullptr;
    const auto find = Find<FindDevice>(library, "nvmlDeviceGetHandleByPciBusId_v2");
    if (find != nullptr && cudaDeviceGetPCIBusId(bus, sizeof bus, ordinal) == cudaSuccess &&
        find(bus, &device) == 0) {
      unsigned number = 0;
      const auto power = Find<GetNumber>(library, "nvmlDeviceGetEnforcedPowerLimit");
      if (power != nullptr && power(device, &number) == 0) {
        facts.emplace_back("power_limit", fmt::format("{} W", number / 1000));
      }
      const auto clock = Find<GetClock>(library, "nvmlDeviceGetMaxClockInfo");
      if (clock != nullptr && clock(device, kGraphicsClock, &number) == 0) {
        facts.emplace_back("highest_clock", fmt::format("{} MHz", number));
      }
      if (clock != nullptr && clock(device, kMemoryClock, &number) == 0) {
        facts.emplace_back("memory_clock", fmt::format("{} MHz", number));
      }
    }
    end();
  }
  dlclose(library);
  return facts;
}

}  // namespace stepcast::runtime::cuda
