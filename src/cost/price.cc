#include "src/cost/price.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "src/cost/micro_batch_draw.h"
#include "src/cost/priced_device.h"
#include "src/cost/priced_machine.h"
#include "src/cost/pricing.h"
#include "src/cost/program_communication.h"
#include "src/cost/program_copies.h"
#include "src/cost/program_kernels.h"
#include "src/cost/sustained_clock.h"
#include "src/model/model.h"
#include "src/plan/plan.h"

namespace stepcast::cost {

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
  // As many kernels as a hundred programs may have.
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
  const plan::Parallelism& axes = scenario.plan.parallelism;
  PriceKernels(
      pricing, device,
      issues ? machine.SlowestOf(axes.data * axes.tensor * axes.pipeline * axes.context) : 1);
  CopyPricer copies(pricing);
  PriceCommunication(pricing, machine, copies);
  copies.PriceCopies();
  Prices& prices = pricing.prices;
  // A measured profile has this host's launches, others those of the reference host.
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
