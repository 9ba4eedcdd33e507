#include "src/calibration/on_device.h"

#include <cstddef>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "src/base/data_type.h"
#include "src/base/quantity.h"

namespace stepcast::calibration {
namespace {

// No device of today caches as much.
constexpr Bytes kBeyondCaches = MiB(256);

void CheckTraffic(const Curve& curve, const char* key, Bandwidth bandwidth,
                  std::vector<Fault>& faults) {
  for (const auto& [bytes, time] : curve) {
    if (bytes < kBeyondCaches || time >= bytes / bandwidth) continue;
    faults.push_back(
        {fmt::format("kernels.{}", key),
         fmt::format("{} in {} is more than the device's memory carries, which takes "
                     "{}",
                     FormatBytes(bytes), FormatTime(time), FormatTime(bytes / bandwidth)),
         "the profile may belong to another device"});
    return;
  }
}

// `products` of queries and keys, half of each under the mask.
void CheckAttention(const AttentionSurface& surface, std::int64_t products,
                    const std::string& field, FlopRate peak, std::vector<Fault>& faults) {
  if (peak == FlopRate()) return;
  for (const AttentionCurve& curve : surface) {
    for (const auto& [sequence, time] : curve.points) {
      const Time least =
          TimeFor(products * curve.heads * sequence * sequence * curve.head_size, peak);
      if (time >= least) continue;
      faults.push_back(
          {field,
           fmt::format("{} heads of {} over a sequence of {} in {} is above the device's peak, "
                       "which takes {}",
                       curve.heads, curve.head_size, sequence, FormatTime(time), FormatTime(least)),
           "the profile may belong to another device"});
      return;
    }
  }
}

}  // namespace

std::vector<Fault> CheckOnDevice(const KernelCosts& kernels, const DeviceSheet& sheet) {
  std::vector<Fault> faults;
  if (sheet.memory_bandwidth > Bandwidth()) {
    CheckTraffic(kernels.memory_curve, "memory_curve", sheet.memory_bandwidth, faults);
    CheckTraffic(kernels.optimizer_curve, "optimizer_curve", sheet.memory_bandwidth, faults);
  }
  for (DataType type : kDataTypes) {
    const auto at = static_cast<std::size_t>(type);
    CheckAttention(kernels.attention_forward_surface[at], 2,
                   fmt::format("kernels.attention_forward_surface.{}", Name(type)), sheet.peak[at],
                   faults);
    CheckAttention(kernels.attention_backward_surface[at], 5,
                   fmt::format("kernels.attention_backward_surface.{}", Name(type)), sheet.peak[at],
                   faults);
  }
  if (!sheet.separate) return faults;
  for (const auto& [key, time] :
       {std::pair("start_latency", kernels.start_latency), {"launch", kernels.launch}}) {
    if (time > Time()) continue;
    faults.push_back({fmt::format("kernels.{}", key),
                      fmt::format("a GPU's kernels take time to start: {}", FormatTime(time)),
                      "a few microseconds; stepcast calibrate measures it"});
  }
  return faults;
}

}  // namespace stepcast::calibration
