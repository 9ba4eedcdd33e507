#include "src/cost/program_price.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/cost/exact_time.h"
#include "src/topology/cluster.h"
#include "src/topology/node_type.h"

namespace stepcast::cost {

Pricing::Pricing(const program::Program& program, const scenario::Scenario& scenario, bool textbook)
    : program(program), scenario(scenario), reference(textbook) {
  if (scenario.calibration == nullptr) return;
  profile = scenario.calibration->location;
  if (scenario.calibration->links) links = &*scenario.calibration->links;
  if (scenario.gpu && scenario.calibration->kernels) {
    kernels = &scenario.calibration->KernelsOf(scenario.plan.software.torch);
  }
}

void Pricing::Report(std::string code, Location location, std::string message, std::string hint) {
  const bool known =
      std::any_of(diagnostics.begin(), diagnostics.end(), [&](const Diagnostic& diagnostic) {
        return diagnostic.code == code && diagnostic.message == message;
      });
  if (known) return;
  diagnostics.push_back(
      {std::move(code), std::move(location), std::move(message), std::move(hint)});
}

void Pricing::ReportEndless(const std::string& what) {
  Report("cost.too-long", scenario.cluster_location,
         fmt::format("a single operation takes a day or more: {}", what),
         "check the units of the bandwidths and latencies that the operation uses");
}

void Pricing::ReportNoLinkCosts(const std::string& what) {
  Report("cost.no-link-costs", profile,
         fmt::format("the calibration has no 'links' section and no table for: {}", what),
         "add the section 'links' to the profile, or add a table for this collective with the same "
         "numbers of ranks and nodes");
}

bool Endless(const Demand& demand) { return demand.uncontended() >= kLongestTime; }

namespace {

// The PCIe link between a GPU and its node's CPUs, usually through a switch. Links between switches
// and CPUs are shared by the GPUs below, which copy at the same time.
std::optional<HostLink> FindHostLink(const topology::NodeType* node) {
  using topology::DeviceKind;
  if (node == nullptr) return std::nullopt;
  std::int64_t above = 0;  // bytes per second from all switches to CPUs
  for (const topology::LinkRule& rule : node->links) {
    if ((rule.from.kind == DeviceKind::kPcieSwitch && rule.to.kind == DeviceKind::kCpu) ||
        (rule.from.kind == DeviceKind::kCpu && rule.to.kind == DeviceKind::kPcieSwitch)) {
      above += static_cast<std::int64_t>(topology::PairsOf(rule).size()) * rule.count *
               rule.link.bandwidth.bytes_per_second();
    }
  }
  const std::int64_t share = above / std::max(1, node->Count(DeviceKind::kGpu));
  const auto leads_to_host = [](DeviceKind kind) {
    return kind == DeviceKind::kPcieSwitch || kind == DeviceKind::kCpu;
  };
  for (const topology::LinkRule& rule : node->links) {
    if ((rule.from.kind == DeviceKind::kGpu && leads_to_host(rule.to.kind)) ||
        (rule.to.kind == DeviceKind::kGpu && leads_to_host(rule.from.kind))) {
      const std::int64_t own = rule.link.bandwidth.bytes_per_second() * rule.count;
      const bool switched =
          rule.from.kind == DeviceKind::kPcieSwitch || rule.to.kind == DeviceKind::kPcieSwitch;
      return HostLink{.latency = rule.link.latency,
                      .bandwidth = Bandwidth::BytesPerSecond(
                          switched && share > 0 ? std::min(own, share) : own)};
    }
  }
  return std::nullopt;
}

}  // namespace

void CopyPricer::PriceCopies() {
  pricing_.prices.copies.clear();
  pricing_.prices.copies.reserve(pricing_.program.copies.size());
  for (const program::Copy& copy : pricing_.program.copies) {
    pricing_.prices.copies.push_back(PriceOneCopy(copy));
    if (Endless(pricing_.prices.copies.back())) {
      pricing_.ReportEndless(fmt::format("a copy of {}", FormatBytes(copy.bytes)));
    }
  }
}

const calibration::Curve* CopyPricer::MeasuredCopies(program::CopyDirection direction) const {
  if (!pricing_.scenario.gpu || pricing_.scenario.calibration == nullptr) return nullptr;
  const calibration::CopyCurves& copies = pricing_.scenario.calibration->copies;
  const calibration::Curve& curve =
      direction == program::CopyDirection::kDeviceToDevice ? copies.device_to_device
      : direction == program::CopyDirection::kHostToDevice ? copies.host_to_device
                                                           : copies.device_to_host;
  return curve.empty() ? nullptr : &curve;
}

Demand CopyPricer::PriceOneCopy(const program::Copy& copy) {
  if (const calibration::Curve* curve = MeasuredCopies(copy.direction)) {
    return PriceMeasuredCopy(copy.bytes, *curve,
                             copy.direction == program::CopyDirection::kDeviceToDevice,
                             pricing_.kernels == nullptr ? Time() : pricing_.kernels->start_latency,
                             !pricing_.reference);
  }
  if (pricing_.kernels == nullptr) return {};
  Demand demand;
  if (copy.direction == program::CopyDirection::kDeviceToDevice) {
    if (pricing_.kernels->memory_efficiency == 0) {
      pricing_.Report("cost.no-efficiency", pricing_.profile,
                      fmt::format("profile '{}' has no rate for copies on the device",
                                  pricing_.scenario.calibration->name),
                      "add kernels.memory_efficiency or copies.device_to_device to the profile");
      return {};
    }
    demand = PriceDeviceCopy(copy.bytes, *pricing_.scenario.gpu, *pricing_.kernels);
  } else {
    if (!host_link_) host_link_ = FindHostLink(pricing_.scenario.cluster->node_type());
    if (!host_link_) {
      pricing_.Report("cost.no-host-link", pricing_.scenario.cluster_location,
                      "the plan copies between device and host, but no link connects them",
                      "use a topology with PCIe links, or a plan without offloading");
      return {};
    }
    if (pricing_.links == nullptr) {
      pricing_.ReportNoLinkCosts("a copy between device and host");
      return {};
    }
    demand = PriceHostCopy(copy.bytes, *host_link_, *pricing_.kernels, *pricing_.links);
  }
  if (pricing_.reference) demand.latency -= pricing_.kernels->start_latency;
  return demand;
}

}  // namespace stepcast::cost
