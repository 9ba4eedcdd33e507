#include "src/runtime/cuda/operand_arenas.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "src/runtime/cuda/failure.h"
#include "src/runtime/cuda/products.h"
#include "src/runtime/cuda/synthetic_kernels.h"

namespace stepcast::runtime::cuda {

Attempt<std::unique_ptr<OperandArenas>> OperandArenas::Make(const LaunchPlan& plan,
                                                            std::span<const cudaStream_t> streams,
                                                            int ordinal, std::uint64_t seed) {
  std::unique_ptr<OperandArenas> arenas(new OperandArenas);
  int cache = 0;
  STEPCAST_TRY(Check(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, ordinal),
                     "querying the size of the GPU's cache"));
  arenas->least_ = AlignedInArena(Bytes(4 * std::int64_t{cache}));
  const char* doing = "making random operands";
  for (std::size_t type = 0; type < plan.inputs.size(); ++type) {
    const Bytes before = arenas->size_;
    STEPCAST_TAKE(auto arena, arenas->MakeArena(plan.inputs[type]));
    arenas->inputs_.push_back(arena);
    if (arena.begin == nullptr) continue;
    STEPCAST_TRY(Check(FillRandom(arena.begin, arenas->size_ - before, static_cast<DataType>(type),
                                  seed, streams[0]),
                       doing));
  }
  for (std::size_t s = 0; s < streams.size(); ++s) {
    STEPCAST_TAKE(auto arena, arenas->MakeArena(plan.outputs[s]));
    arenas->outputs_.push_back(arena);
    STEPCAST_TAKE(auto workspace,
                  arenas->Allocate(plan.multiplies[s] ? Products::kWorkspace : Bytes(0)));
    arenas->workspaces_.push_back(workspace);
  }
  if (plan.host > Bytes(0)) {
    void* at = nullptr;
    STEPCAST_TRY(Check(cudaMallocHost(&at, static_cast<std::size_t>(plan.host.count())),
                       "allocating pinned memory"));
    arenas->host_ = static_cast<std::byte*>(at);
    std::fill_n(reinterpret_cast<unsigned char*>(arenas->host_), plan.host.count(), 0x3d);
  }
  STEPCAST_TRY(Check(cudaStreamSynchronize(streams[0]), doing));
  return arenas;
}

OperandArenas::~OperandArenas() {
  for (std::byte* at : allocated_) cudaFree(at);
  cudaFreeHost(host_);
}

Attempt<OperandArenas::Arena> OperandArenas::MakeArena(Bytes planned) {
  // A step may begin at any offset in the first `least_` bytes.
  STEPCAST_TAKE(auto begin,
                Allocate(planned > Bytes(0) && planned < least_ ? planned + least_ : planned));
  return Arena{begin, planned};
}

Attempt<std::byte*> OperandArenas::Allocate(Bytes size) {
  if (size == Bytes(0)) return nullptr;
  void* at = nullptr;
  STEPCAST_TRY(
      Check(cudaMalloc(&at, static_cast<std::size_t>(size.count())),
            fmt::format("allocating {} bytes for operands that are not in buffers of the program",
                        size.count())));
  size_ += size;
  allocated_.push_back(static_cast<std::byte*>(at));
  return allocated_.back();
}

}  // namespace stepcast::runtime::cuda
