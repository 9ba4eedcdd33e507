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

// A GPU's memory for operands and results that the program does not name (launch_plan.h), and for
// what the libraries want besides.
//
// Both arenas come from memory and not from the cache: as much of them as four caches hold is
// walked through, from step to step; a graph has fixed places.
namespace stepcast::runtime::cuda {

class OperandArenas {
 public:
  // On GPU `ordinal`, which is the current one. `plan` outlives the arenas. The operands are random
  // numbers; they are there when this returns.
  static Attempt<std::unique_ptr<OperandArenas>> Make(const LaunchPlan& plan,
                                                      std::span<const cudaStream_t> streams,
                                                      int ordinal, std::uint64_t seed);
  OperandArenas(const OperandArenas&) = delete;
  OperandArenas& operator=(const OperandArenas&) = delete;
  ~OperandArenas();

  // Where the plan's places begin in a step; nullptr where it has none.
  void BeginStep(std::uint32_t step) { step_ = step; }
  const std::byte* input(DataType type) const {
    return inputs_[static_cast<std::size_t>(type)].At(step_, least_);
  }
  std::byte* output(std::uint16_t stream) const { return outputs_[stream].At(step_, least_); }

  std::byte* workspace(std::uint16_t stream) const { return workspaces_[stream]; }  // of products
  std::byte* host() const { return host_; }                                         // pinned
  // Bytes of all arenas on the device.
  Bytes size() const { return size_; }

 private:
  // As large as the plan wants it, and `least` more where it wants less than that.
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

  std::vector<Arena> inputs_;           // by data type
  std::vector<Arena> outputs_;          // by stream
  std::vector<std::byte*> workspaces_;  // by stream; nullptr where nothing multiplies
  std::byte* host_ = nullptr;
  std::vector<std::byte*> allocated_;
  Bytes least_;
  Bytes size_;
  std::uint32_t step_ = 0;
};

}  // namespace stepcast::runtime::cuda
