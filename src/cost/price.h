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

// Prices of a program's operations on a scenario's cluster, with its calibration profile.
//
//  kernels       kernel_price.h       the profile's surfaces and curves if it has them, otherwise
//                                     roofline with its efficiencies
//  collectives   collective_price.h   the profile's table for exactly the kind, ranks and nodes of
//                                     the group, if it has one (collective_price.h); on CUDA
//                                     devices in a real topology NCCL's choices, with the time
//                                     from published curves or the profile's law (nccl_price.h);
//                                     otherwise ring or tree over the links between the ranks
//  messages      as a send_recv between the two ranks, together with the simultaneous messages of
//                other groups at the same positions; messages of copy engines inside a node as
//                copies
//  copies        copy_price.h         the profile's curves, otherwise memory or PCIe bandwidth
//  issue         the profile's `launch` for a kernel or copy, `collective_launch` for a collective:
//                the CPU time of an eager framework. The plan's `dispatch` is added if a module's
//                code or autograd issues the kernel.
//
// Not priced:
//  framework `reference`   no issue cost and no start latency: the textbook model has only the
//                          times of kernels and collectives
//  no GPU (a flat cluster without GPU), or a profile without `kernels`: only kernels with given
//                          times are priced. Issues, copies and memory-bound kernels (the
//                          framework's own copies and casts) cost nothing; any other kernel is an
//                          error
//
// Errors, one for each cause, not for each operation:
//  cost.no-gpu               a kernel that must be priced, without a GPU
//  cost.no-kernel-costs      a kernel that must be priced, with a profile without `kernels`
//  cost.no-peak              the GPU type does not support a kernel's data type
//  cost.no-efficiency        the profile has no efficiency for matrix multiplications of a data
//                            type, for attention or for memory-bound kernels
//  cost.faster-than-device   a measured matrix multiplication exceeds the GPU's peak
//  cost.no-link              a collective on a flat cluster with neither `link` nor table
//  cost.no-link-costs        a collective, or a copy from or to the host, on a real topology with
//                            a profile that has neither `links` nor table
//  cost.no-host-link         a copy from or to the host, but no link connects GPU and CPU
//  cost.no-algorithm         nccl_algo and nccl_proto exclude every choice for a collective
//  cost.faster-than-wire     a table has a point that is faster than the links
//  cost.too-long             an operation takes a day or more: some bandwidth is far too small
namespace stepcast::cost {

// Returns the prices of the program. `works` is the work of the plan's micro-batch
// (model::BuildWork), from which the power limit of matrix multiplications is computed
// (kernel_time.h).
Result<Prices> Price(const program::Program& program, const scenario::Scenario& scenario,
                     std::span<const model::LayerWork> works);
// Like the function above, but computes `works` from the scenario.
Result<Prices> Price(const program::Program& program, const scenario::Scenario& scenario);

class GroupLoads;
struct PricedDevice;
struct PricedMachine;

// Caches prices of kernels and of groups of ranks for many programs and scenarios. Not thread-safe.
class PriceCache {
 public:
  PriceCache();
  ~PriceCache();

  Result<Prices> Price(const program::Program& program, const scenario::Scenario& scenario,
                       std::span<const model::LayerWork> works);

 private:
  // The largest numbers of cache entries. A cache with more entries is cleared.
  static constexpr std::size_t kMostMachines = 256;
  static constexpr std::size_t kMostDevices = 64;

  PricedMachine& MachineOf(const scenario::Scenario& scenario);
  PricedDevice& DeviceOf(const scenario::Scenario& scenario, double limit_watts);
  double LimitOf(const scenario::Scenario& scenario, std::span<const model::LayerWork> works);

  std::unique_ptr<GroupLoads> loads_;  // declared first, because the machines refer to it
  std::vector<std::unique_ptr<PricedMachine>> machines_;
  std::vector<std::unique_ptr<PricedDevice>> devices_;
};

}  // namespace stepcast::cost
