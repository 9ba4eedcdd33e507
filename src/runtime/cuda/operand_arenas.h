#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/runtime/cuda/launch_plan.h"
#include "src/runtime/device.h"

// A GPU's memory for synthetic operands and results (launch_plan.h), and for the workspaces of
// libraries.
//
// Operands and results must be in memory, not in the cache. If a step uses less of an arena than
// four times the cache's size, each step starts at a different offset. In graphs, all steps start
// at the same offset, because addresses do not change.
namespace stepcast::runtime::cuda {

class OperandArenas {
 public:
  // Creates arenas on GPU `ordinal`, which must be the current GPU. `plan` must outlive the arenas.
  // Operands are random numbers, which are written when this function returns.
  static Attempt<std::unique_ptr<OperandArenas>> Make(const LaunchPlan& plan,
                                                      std::span<const cudaStream_t> streams,
                                                      int ordinal, std::uint64_t seed);
  OperandArenas(const OperandArenas&) = delete;
  OperandArenas& operator=(const OperandArenas&) = delete;
  ~OperandArenas();

  // Selects the step's offset for the addresses that the next functions return. Callers add the
  // plan's offsets to these addresses. An address is nullptr if the plan does not have the arena.
  void BeginStep(std::uint32_t step) { step_ = step; }
  const std::byte* input(DataType type) const {
    return inputs_[static_cast<std::size_t>(type)].At(step_, least_);
  }
  std::byte* output(std::uint16_t stream) const { return outputs_[stream].At(step_, least_); }

  std::byte* workspace(std::uint16_t stream) const { return workspaces_[stream]; }  // of GEMMs
  std::byte* host() const { return host_; }                                         // pinned
  // Returns the size of all arenas on the device.
  Bytes size() const { return size_; }

 private:
  // An arena of `planned` bytes. If `planned` is less than `least` (four times the cache's size),
  // `least` more bytes are allocated, and each step starts at a different offset below `least`.
  struct Arena {
    std::byte* begin = nullptr;
    Bytes planned;
    std::byte* At(std::uint32_t step, Bytes least) const {
      if (begin == nullptr || planned >= least) return begin;
      return begin + std::int64_t{step} * planned.count() % least.count();
    }
  };

  OperandArenas() = default;
  Attempt<std::byte*> Allocate(Bytes size);
  Attempt<Arena> MakeArena(Bytes planned);

  std::vector<Arena> inputs_;           // [data type]
  std::vector<Arena> outputs_;          // [stream]
  std::vector<std::byte*> workspaces_;  // [stream]; nullptr if no GEMMs run on it
  std::byte* host_ = nullptr;
  std::vector<std::byte*> allocated_;
  Bytes least_;
  Bytes size_;
  std::uint32_t step_ = 0;
};

}  // namespace stepcast::runtime::cuda
