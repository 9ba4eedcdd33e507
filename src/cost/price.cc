#include "src/cost/price.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/base/quantity.h"
#include "src/base/version.h"
#include "src/cost/demand.h"
#include "src/cost/device_speed.h"
#include "src/cost/exact_time.h"
#include "src/cost/kernel_price.h"
#include "src/cost/kernel_time.h"
#include "src/cost/priced_machine.h"
#include "src/cost/program_price.h"
#include "src/model/layer_work.h"
#include "src/model/model.h"
#include "src/model/stage.h"
#include "src/plan/pipeline.h"
#include "src/plan/plan.h"
#include "src/scenario/scenario.h"

namespace stepcast::cost {
// Cached prices of kernels on one device with one profile. Entry numbers stay valid while the memo
// lives.
class KernelMemo {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // The entry of a kernel of equal cost, or kNone.
  std::uint32_t Find(const Kernel& kernel) const;
  // The kernel must not be in the table yet.
  std::uint32_t Add(const Kernel& kernel, const Demand& demand);

  const Demand& DemandOf(std::uint32_t entry) const { return entries_[entry].demand; }
  std::size_t size() const { return entries_.size(); }

 private:
  // All that a price depends on except the device and the profile (kernel_price.h). It omits the
  // name. Of the code that issues the kernel it only holds whether it is a product of a compiled
  // graph.
  struct Key {
    std::uint32_t kind = 0;  // with layout, data type and the generation of attention
    std::int64_t batch = 0, m = 0, n = 0, k = 0, key_heads = 0, flops = 0, read = 0, written = 0;
    std::int64_t summed_tokens = 0, summed_columns = 0;
    Access access = Access::kPlain;
    bool causal = true;
    std::int64_t together = 1;
    double rate = 1;
    ScanKind scan = ScanKind::kDelta;
    std::int64_t steps = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  struct Entry {
    Key key;
    Demand demand;
  };

  static Key KeyOf(const Kernel& kernel) {
    const bool compiled = kernel.kind == KernelKind::kGemm && kernel.issuer == Issuer::kFramework;
    return {.kind = static_cast<std::uint32_t>(compiled) << 31 |
                    static_cast<std::uint32_t>(kernel.adds_to_fp32) << 30 |
                    static_cast<std::uint32_t>(kernel.grouped) << 29 |
                    static_cast<std::uint32_t>(kernel.layout) << 24 |
                    static_cast<std::uint32_t>(kernel.kind) << 16 |
                    static_cast<std::uint32_t>(kernel.data_type) << 8 | kernel.flash,
            .batch = kernel.batch,
            .m = kernel.m,
            .n = kernel.n,
            .k = kernel.k,
            .key_heads = kernel.key_heads,
            .flops = kernel.flops,
            .read = kernel.read.count(),
            .written = kernel.written.count(),
            .summed_tokens = kernel.summed_tokens,
            .summed_columns = kernel.summed_columns,
            .access = kernel.access,
            .causal = kernel.causal,
            .together = kernel.together,
            .rate = kernel.rate,
            .scan = kernel.scan,
            .steps = kernel.steps};
  }

  std::vector<Entry> entries_;
  std::unordered_map<Key, std::uint32_t, Hash> numbers_;
};

std::size_t KernelMemo::Hash::operator()(const Key& key) const {
  std::uint64_t hash = key.kind;
  for (const std::int64_t number : {key.batch, key.m, key.n, key.k, key.key_heads, key.flops,
                                    key.read, key.written, key.summed_tokens, key.summed_columns}) {
    hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 32;
  }
  return hash;
}

std::uint32_t KernelMemo::Find(const Kernel& kernel) const {
  const auto found = numbers_.find(KeyOf(kernel));
  return found == numbers_.end() ? kNone : found->second;
}

std::uint32_t KernelMemo::Add(const Kernel& kernel, const Demand& demand) {
  const auto number = static_cast<std::uint32_t>(entries_.size());
  entries_.push_back({KeyOf(kernel), demand});
  numbers_.emplace(entries_.back().key, number);
  return number;
}

// A GPU with a profile and a power limit: everything that kernel prices depend on except the
// kernel.
struct PricedDevice {
  static bool IsTextbook(const scenario::Scenario& scenario) {
    return plan::TraitsOf(scenario.plan.data_parallel.framework).textbook;
  }

  PricedDevice(const scenario::Scenario& scenario, double limit)
      : limit_watts(limit),
        calibration(scenario.calibration),
        gpu(scenario.gpu),
        torch(scenario.plan.software.torch),
        textbook(IsTextbook(scenario)) {}

  bool IsOf(const scenario::Scenario& scenario, double limit) const {
    return limit_watts == limit && calibration == scenario.calibration &&
           textbook == IsTextbook(scenario) && gpu == scenario.gpu &&
           torch == scenario.plan.software.torch;
  }

  // The setting of kernels on this device. Requires a GPU.
  KernelSetting SettingOf(const calibration::KernelCosts& costs) const {
    return {.gpu = *gpu,
            .costs = costs,
            .torch = torch,
            .limit_watts = limit_watts,
            .start_latency = !textbook};
  }

  const double limit_watts;  // of products and attention; 0: any
  const std::shared_ptr<const calibration::Calibration> calibration;
  const std::optional<topology::Gpu> gpu;
  const Version torch;
  const bool textbook;
  KernelMemo kernels;
};

// Prices the program's kernels. `slowest`: time of arithmetic on the slowest device over the
// typical time.
void PriceKernels(Pricing& pricing, PricedDevice& device, double slowest);

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
      // The kernel's price on the slowest of all devices.
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
  // Whether no measured product of the type is faster than the data sheet allows.
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
              fmt::format("a matrix multiplication of {} x {} x {} in {} needs at least {} on {}, "
                          "but the profile states {}",
                          surface.m[m], surface.n[n], surface.k[k], Name(type), FormatTime(bound),
                          pricing_.scenario.gpu->name, FormatTime(time)),
              "check that the profile is for this device");
          return false;
        }
      }
    }
    return true;
  }

  // The cached entry, if the kernel already has a price.
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
                      "set training.precision to a type that this GPU supports");
    } else {
      const std::string what =
          kernel.kind == KernelKind::kGemm
              ? fmt::format("matrix multiplications in {}", Name(kernel.data_type))
          : kernel.kind == KernelKind::kMemoryBound || kernel.kind == KernelKind::kOptimizer
              ? std::string("memory-bound kernels")
              : fmt::format("attention in {} by {}", Name(kernel.data_type), GenerationOf(kernel));
      const std::string remedy =
          kernel.kind == KernelKind::kGemm
              ? fmt::format(
                    "add kernels.gemm.{0} or kernels.gemm_surface.{0} to the profile, or set "
                    "training.precision to another type",
                    Name(kernel.data_type))
          : kernel.kind == KernelKind::kMemoryBound || kernel.kind == KernelKind::kOptimizer
              ? std::string("add kernels.memory_efficiency or kernels.memory_curve to the profile")
              : fmt::format(
                    "set training.attention to a kernel under kernels.attention in the profile, or "
                    "add kernels.attention.{} or curves of attention to the profile",
                    calibration::kFusedNames[static_cast<std::size_t>(kernel.flash - 1)]);
      pricing_.Report("cost.no-efficiency", pricing_.profile,
                      fmt::format("profile '{}' has no rates for {}",
                                  pricing_.scenario.calibration->name, what),
                      remedy);
    }
  }

  void RefuseKernel(const Kernel& kernel) {
    if (!pricing_.scenario.gpu) {
      pricing_.Report(
          "cost.no-gpu", pricing_.scenario.cluster_location,
          fmt::format("the cluster has no GPU type, so the time of the kernel {} is unknown",
                      kernel.name),
          "add a GPU type to the cluster ('gpu: h100-sxm'), or describe the model as a "
          "list of layers with times");
    } else {
      pricing_.Report(
          "cost.no-kernel-costs", pricing_.profile,
          fmt::format(
              "the calibration has no 'kernels' section, so the time of the kernel {} is unknown",
              kernel.name),
          fmt::format(
              "add the section 'kernels', or remove 'calibration' to use the default profile of {}",
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

// The power-relevant times of a micro-batch's kernels: all layers, forward, recomputation and
// backward. `works`: model::BuildWork of the plan's options. The setting has no power limit; prices
// are looked up in, or added to, `full_clock`. Kernels without a price are ignored.
MicroBatchDraw DrawOf(const scenario::Scenario& scenario, std::span<const model::LayerWork> works,
                      const KernelSetting& setting, KernelMemo& full_clock);

namespace {

std::optional<Demand> DemandOf(const Kernel& kernel, const KernelSetting& setting,
                               KernelMemo& memo) {
  const std::uint32_t known = memo.Find(kernel);
  if (known != KernelMemo::kNone) return memo.DemandOf(known);
  const auto demand = PriceKernel(kernel, setting);
  if (!demand) return std::nullopt;
  memo.Add(kernel, *demand);
  return *demand;
}

}  // namespace

MicroBatchDraw DrawOf(const scenario::Scenario& scenario, std::span<const model::LayerWork> works,
                      const KernelSetting& setting, KernelMemo& full_clock) {
  STEPCAST_CHECK(setting.limit_watts == 0,
                 "the power limit must be derived from kernels at full clock");
  std::vector<std::int64_t> layers(works.size());
  const std::vector<int> begins =
      model::ChunkLayers(*scenario.model, scenario.plan.parallelism.stage_layers);
  for (const int work : model::WorkOfLayers(*scenario.model, plan::WorkOptionsOf(scenario.plan),
                                            begins, plan::StagesOfChunks(scenario.plan))) {
    ++layers[static_cast<std::size_t>(work)];
  }
  MicroBatchDraw draw;
  for (std::size_t w = 0; w < works.size(); ++w) {
    const auto times = static_cast<double>(layers[w]);
    for (const auto* pass : {&works[w].forward, &works[w].recompute, &works[w].backward}) {
      for (const model::Operation& operation : *pass) {
        const Kernel& kernel = operation.kernel;
        if (operation.group || kernel.kind == KernelKind::kGiven) continue;
        const std::optional<Demand> demand = DemandOf(kernel, setting, full_clock);
        if (!demand) continue;
        if (!IsArithmetic(kernel.kind)) {
          draw.other += times * demand->uncontended().seconds();
          continue;
        }
        const double best = BestProductRate(kernel, setting);
        const double work = demand->work.seconds();
        draw.other += times * demand->latency.seconds();
        draw.arithmetic += times * work;
        if (best > 0) {
          draw.at_best += times * std::min(work, static_cast<double>(kernel.flops) / best) *
                          setting.costs.power.Of(kernel.data_type) / setting.costs.power.products;
        }
      }
    }
  }
  return draw;
}

using program::Program;
using scenario::Scenario;

Result<Prices> Price(const Program& program, const Scenario& scenario) {
  const bool layers = scenario.model == nullptr || scenario.model->is_layer_list();
  return Price(program, scenario,
               layers ? std::vector<model::LayerWork>()
                      : model::BuildWork(*scenario.model, plan::WorkOptionsOf(scenario.plan)));
}

Result<Prices> Price(const Program& program, const Scenario& scenario,
                     std::span<const model::LayerWork> works) {
  return PriceCache().Price(program, scenario, works);
}

PriceCache::PriceCache() : loads_(std::make_unique<GroupLoads>()) {}
PriceCache::~PriceCache() = default;

PricedMachine& PriceCache::MachineOf(const Scenario& scenario) {
  const auto found = std::find_if(machines_.begin(), machines_.end(),
                                  [&](const auto& machine) { return machine->IsOf(scenario); });
  if (found != machines_.end()) return **found;
  if (machines_.size() == kMostMachines) machines_.clear();
  return *machines_.emplace_back(std::make_unique<PricedMachine>(scenario, *loads_));
}

PricedDevice& PriceCache::DeviceOf(const Scenario& scenario, double limit_watts) {
  // Sufficient for the kernels of a hundred programs.
  constexpr std::size_t kMostKernels = 262'144;
  const auto found = std::find_if(devices_.begin(), devices_.end(), [&](const auto& device) {
    return device->IsOf(scenario, limit_watts);
  });
  if (found != devices_.end() && (*found)->kernels.size() < kMostKernels) return **found;
  if (found != devices_.end()) devices_.erase(found);
  if (devices_.size() == kMostDevices) devices_.clear();
  return *devices_.emplace_back(std::make_unique<PricedDevice>(scenario, limit_watts));
}

double PriceCache::LimitOf(const Scenario& scenario, std::span<const model::LayerWork> works) {
  if (!scenario.gpu) return 0;
  const double limit = scenario.gpu->power_limit;
  if (works.empty() || !scenario.calibration || !scenario.calibration->kernels) return limit;
  const calibration::KernelCosts& costs =
      scenario.calibration->KernelsOf(scenario.plan.software.torch);
  if (costs.power.memory == 0) return limit;
  PricedDevice& full = DeviceOf(scenario, 0);
  return ArithmeticLimit(costs.power, limit,
                         DrawOf(scenario, works, full.SettingOf(costs), full.kernels));
}

Result<Prices> PriceCache::Price(const Program& program, const Scenario& scenario,
                                 std::span<const model::LayerWork> works) {
  PricedMachine& machine = MachineOf(scenario);
  PricedDevice& device = DeviceOf(scenario, LimitOf(scenario, works));
  Pricing pricing(program, scenario, device.textbook);
  const bool issues = pricing.kernels != nullptr && !pricing.reference;
  PriceKernels(pricing, device, issues ? machine.SlowestOf(scenario.plan.parallelism.ranks()) : 1);
  CopyPricer copies(pricing);
  PriceCommunication(pricing, machine, copies);
  copies.PriceCopies();
  Prices& prices = pricing.prices;
  // A measured profile has the launch times of this host; others have those of the reference host.
  const double host = issues && !pricing.kernels->measured() ? scenario.cluster->host_speed() : 1;
  const auto issue = [&](Time launch) { return calibration::OnHost(launch, host); };
  prices.issue_kernel = issues ? issue(pricing.kernels->launch) : Time();
  prices.dispatch = issues ? scenario.plan.training.dispatch : Dispatch();
  prices.issue_copy = prices.issue_kernel;
  prices.issue_collective = issues ? issue(pricing.kernels->collective_launch) : Time();
  if (!pricing.diagnostics.empty()) return tl::unexpected(std::move(pricing.diagnostics));
  return std::move(prices);
}

}  // namespace stepcast::cost
