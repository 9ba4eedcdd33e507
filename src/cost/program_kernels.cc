#include "src/cost/program_kernels.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "fmt/format.h"
#include "src/base/data_type.h"
#include "src/base/quantity.h"
#include "src/cost/exact_time.h"
#include "src/cost/kernel_memo.h"
#include "src/cost/kernel_price.h"
#include "src/cost/slowest_device.h"

namespace stepcast::cost {
namespace {

class KernelPricer {
 public:
  KernelPricer(Pricing& pricing, PricedDevice& device, double slowest)
      : pricing_(pricing), device_(device), slowest_(slowest) {}

  Demand PriceOneKernel(const Kernel& kernel) {
    if (kernel.kind == KernelKind::kGiven) return PriceGivenKernel(kernel);
    if (pricing_.kernels != nullptr) {
      const std::uint32_t entry = EntryOf(kernel);
      if (entry == KernelMemo::kNone) return {};
      // A kernel on the slowest of all devices.
      Demand demand = device_.kernels.DemandOf(entry);
      if (IsArithmetic(kernel.kind)) demand.work = ScaledTime(demand.work, slowest_);
      if (Endless(demand)) pricing_.ReportEndless(kernel.name);
      return demand;
    }
    if (kernel.kind != KernelKind::kMemoryBound && !unpriceable_) {
      unpriceable_ = true;
      RefuseKernel(kernel);
    }
    return {};
  }

 private:
  // No product that was measured may be faster than the data sheet allows.
  bool BelievableProducts(DataType type) {
    const auto at = static_cast<std::size_t>(type);
    if (products_checked_[at]) return products_believed_[at];
    products_checked_[at] = true;
    products_believed_[at] = true;
    const FlopRate peak = pricing_.scenario.gpu->PeakOf(type);
    if (peak == FlopRate()) return true;
    for (const ProductLayout layout : kProductLayouts) {
      if (BelievableSurface(pricing_.kernels->SurfaceOf(type, layout), type, peak)) continue;
      products_believed_[at] = false;
      return false;
    }
    return true;
  }

  bool BelievableSurface(const calibration::GemmSurface& surface, DataType type, FlopRate peak) {
    for (std::size_t m = 0; m < surface.m.size(); ++m) {
      for (std::size_t n = 0; n < surface.n.size(); ++n) {
        for (std::size_t k = 0; k < surface.k.size(); ++k) {
          const Time bound = TimeOf(2 * surface.m[m] * surface.n[n] * surface.k[k], peak);
          const Time time = surface.at(m, n, k);
          if (time >= bound) continue;
          pricing_.Report(
              "cost.faster-than-device", pricing_.profile,
              fmt::format("a product of {} x {} x {} in {} needs {} on {}, the profile has {}",
                          surface.m[m], surface.n[n], surface.k[k], Name(type), FormatTime(bound),
                          pricing_.scenario.gpu->name, FormatTime(time)),
              "the profile may belong to another device");
          return false;
        }
      }
    }
    return true;
  }

  // The memo's, where the kernel has a price.
  std::uint32_t EntryOf(const Kernel& kernel) {
    const std::uint32_t known = device_.kernels.Find(kernel);
    if (known != KernelMemo::kNone) return known;
    if (kernel.kind == KernelKind::kGemm && !BelievableProducts(kernel.data_type)) {
      return KernelMemo::kNone;
    }
    const auto demand = PriceKernel(kernel, device_.SettingOf(*pricing_.kernels));
    if (demand) return device_.kernels.Add(kernel, *demand);
    ReportNoPrice(kernel, demand.error());
    return KernelMemo::kNone;
  }

  static std::string GenerationOf(const Kernel& kernel) {
    constexpr int kCudnn = 4, kFlex = 5;
    return kernel.flash == kCudnn  ? "cuDNN"
           : kernel.flash == kFlex ? "FlexAttention"
                                   : fmt::format("FlashAttention-{}", kernel.flash);
  }

  void ReportNoPrice(const Kernel& kernel, KernelFault fault) {
    if (fault == KernelFault::kNoPeak) {
      pricing_.Report("cost.no-peak", pricing_.scenario.cluster_location,
                      fmt::format("{} does not compute in {}", pricing_.scenario.gpu->name,
                                  Name(kernel.data_type)),
                      "set training.precision to a type that this GPU has");
    } else {
      const std::string what =
          kernel.kind == KernelKind::kGemm
              ? fmt::format("matrix products in {}", Name(kernel.data_type))
          : kernel.kind == KernelKind::kMemoryBound || kernel.kind == KernelKind::kOptimizer
              ? std::string("memory-bound kernels")
              : fmt::format("attention in {} by {}", Name(kernel.data_type), GenerationOf(kernel));
      const std::string remedy =
          kernel.kind == KernelKind::kGemm
              ? fmt::format(
                    "add kernels.gemm.{0} or kernels.gemm_surface.{0}, or set "
                    "training.precision to a type that it has",
                    Name(kernel.data_type))
          : kernel.kind == KernelKind::kMemoryBound || kernel.kind == KernelKind::kOptimizer
              ? std::string("add kernels.memory_efficiency or kernels.memory_curve")
              : fmt::format(
                    "set training.attention to one that it has (kernels.attention), or add "
                    "kernels.attention.{} or curves of attention",
                    calibration::kFusedNames[static_cast<std::size_t>(kernel.flash - 1)]);
      pricing_.Report("cost.no-efficiency", pricing_.profile,
                      fmt::format("profile '{}' has no figures for {}",
                                  pricing_.scenario.calibration->name, what),
                      remedy);
    }
  }

  void RefuseKernel(const Kernel& kernel) {
    if (!pricing_.scenario.gpu) {
      pricing_.Report(
          "cost.no-gpu", pricing_.scenario.cluster_location,
          fmt::format("without a GPU only layer lists can be simulated; nothing says how long "
                      "a kernel takes: {}",
                      kernel.name),
          "name a GPU type in the cluster ('gpu: h100-sxm'), or describe the model as a list of "
          "layers with times");
    } else {
      pricing_.Report(
          "cost.no-kernel-costs", pricing_.profile,
          fmt::format("the calibration has no 'kernels' section; nothing says how long a kernel "
                      "takes: {}",
                      kernel.name),
          fmt::format("add the section, or leave out 'calibration' for the profile of {}",
                      pricing_.scenario.gpu->name));
    }
  }

  Pricing& pricing_;
  PricedDevice& device_;
  const double slowest_;
  std::array<bool, kDataTypeCount> products_checked_{};  // by DataType
  std::array<bool, kDataTypeCount> products_believed_{};
  bool unpriceable_ = false;  // a kernel was refused
};

}  // namespace

void PriceKernels(Pricing& pricing, PricedDevice& device, double slowest) {
  KernelPricer pricer(pricing, device, slowest);
  pricing.prices.kernels.reserve(pricing.program.kernels.size());
  for (const Kernel& kernel : pricing.program.kernels) {
    pricing.prices.kernels.push_back(pricer.PriceOneKernel(kernel));
  }
}

}  // namespace stepcast::cost
