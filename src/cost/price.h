#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/cost/prices.h"
#include "src/model/layer_work.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

// Prices of a program's operations on a scenario's cluster, with its calibration.
//
//  kernels       kernel_price.h       the profile's surfaces and curves if it has them, otherwise
//                                     roofline with its efficiencies
//  collectives   collective_price.h   the profile's table for exactly the kind, ranks and nodes of
//                                     the group, if it has one (collective_price.h); on CUDA
//                                     devices in a real topology NCCL's choices, with the time
//                                     from published curves or the profile's law (nccl_price.h);
//                                     otherwise ring or tree over the links between the ranks
//  messages      as a shift (send_recv) between the two ranks, together with the simultaneous
//                messages of other groups at the same positions; those of copy engines inside a
//                node as copies
//  copies        copy_price.h         the profile's curves, otherwise memory or PCIe bandwidth
//  issue         the profile's `launch` for a kernel and a copy, `collective_launch` for a
//                collective: the CPU time of an eager framework; before it the plan's `dispatch`
//                if a module's code or autograd issues a kernel
//
// Left out:
//  framework `reference`   no issue cost and no start latency: the textbook counts only kernels
//                          and collectives
//  no GPU (a flat cluster without one), or a profile without `kernels`: only kernels with given
//                          times; issues, copies and memory-bound kernels (the framework's own
//                          copies and casts) cost nothing; any other kernel is an error
//
// Errors, one for each cause, not for each operation:
//  cost.no-gpu               a kernel that must be priced, without a GPU
//  cost.no-kernel-costs      ... with a profile that has no `kernels`
//  cost.no-peak              the GPU type does not compute in a kernel's data type
//  cost.no-efficiency        the profile has no figures for matrix products of a data type, for
//                            attention or for memory-bound kernels
//  cost.faster-than-device   a measured product that exceeds the GPU's peak
//  cost.no-link              a collective on a flat cluster with neither `link` nor table
//  cost.no-link-costs        a collective, or a copy from or to the host, on a real topology with
//                            a profile that has neither `links` nor table
//  cost.no-host-link         a copy from or to the host, but no link joins GPU and CPU
//  cost.no-algorithm         nccl_algo and nccl_proto leave NCCL nothing for a collective
//  cost.faster-than-wire     a table with a point that the links cannot carry in that time
//  cost.too-long             an operation of a day or more: some bandwidth is far too small
namespace stepcast::cost {

// Returns the prices of the program. `works` is the work of the plan's micro-batch
// (model::BuildWork), which determines the power available to products (kernel_time.h).
Result<Prices> Price(const program::Program& program, const scenario::Scenario& scenario,
                     std::span<const model::LayerWork> works);
// Like the function above, but computes `works`.
Result<Prices> Price(const program::Program& program, const scenario::Scenario& scenario);

class GroupLoads;
struct PricedDevice;
struct PricedMachine;

// Caches prices of kernels and of groups of ranks, by machine, across programs and scenarios. Not
// thread-safe.
class PriceCache {
 public:
  PriceCache();
  ~PriceCache();

  Result<Prices> Price(const program::Program& program, const scenario::Scenario& scenario,
                       std::span<const model::LayerWork> works);

 private:
  // The largest numbers of entries. If one of them is exceeded, all entries are dropped.
  static constexpr std::size_t kMostMachines = 256;
  static constexpr std::size_t kMostDevices = 64;

  PricedMachine& MachineOf(const scenario::Scenario& scenario);
  PricedDevice& DeviceOf(const scenario::Scenario& scenario, double limit_watts);
  double LimitOf(const scenario::Scenario& scenario, std::span<const model::LayerWork> works);

  std::unique_ptr<GroupLoads> loads_;  // outlives the machines
  std::vector<std::unique_ptr<PricedMachine>> machines_;
  std::vector<std::unique_ptr<PricedDevice>> devices_;
};

}  // namespace stepcast::cost
