#include <algorithm>
#include <type_traits>

#include "src/runtime/cuda/effects.h"
#include "src/runtime/cuda/launch.h"
#include "src/runtime/cuda/packs.cuh"
#include "src/runtime/values/gradients.h"
#include "src/runtime/values/number_types.h"
#include "src/runtime/values/random_values.h"

namespace stepcast::runtime::cuda {
namespace {

using values::FromFp32;
using values::ToFp32;
using values::WithStorageType;

__device__ StepValues Resolve(const StepSource& step) {
  return step.on_device != nullptr ? *step.on_device : step.now;
}

__global__ void StoreStepValuesKernel(StepValues values, StepValues* on_device) {
  *on_device = values;
}

struct GradientPiece {
  GradientWork work;
  bool packed;
};

template <typename To, typename From, GradientRule kRule>
__global__ void GradientKernel(const __grid_constant__ Pieces<GradientPiece> pieces, int rank,
                               int micro_batch, StepSource step) {
  const auto own = pieces.own();
  const GradientWork& work = pieces.at[own.piece].work;
  const std::uint32_t seed =
      kRule != GradientRule::kSmallIntegers ? values::QuadraticSeed(rank, micro_batch)
      : work.seed != nullptr                ? *work.seed
                             : values::SmallIntegerSeed(rank, Resolve(step).step, micro_batch);
  To* target = static_cast<To*>(work.target);
  const From* source = static_cast<const From*>(work.source);
  const std::int64_t first_element = work.first_element;
  const float scale = work.scale;
  const bool add = work.add;
  const auto body = [&](auto count, std::int64_t i) {
    constexpr int kCount = decltype(count)::value;
    const auto from = *reinterpret_cast<const Pack<From, kCount>*>(source + i);
    Pack<To, kCount> to{};
    if (add) to = *reinterpret_cast<const Pack<To, kCount>*>(target + i);
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      const float parameter = ToFp32(from.at[e]);
      const std::int64_t element = first_element + i + e;
      const float gradient = kRule == GradientRule::kSmallIntegers
                                 ? values::SmallIntegerGradient(parameter, seed, element)
                                 : values::QuadraticGradient(parameter, seed, element);
      to.at[e] = FromFp32<To>(add ? values::AddScaled(ToFp32(to.at[e]), scale, gradient)
                                  : values::Multiply(scale, gradient));
    }
    *reinterpret_cast<Pack<To, kCount>*>(target + i) = to;
  };
  ForPacks(own.share(), work.elements, pieces.at[own.piece].packed, body);
}

__global__ void MixKernel(const __grid_constant__ Pieces<MixWork> pieces, int micro_batch,
                          StepSource step) {
  const auto own = pieces.own();
  const MixWork& work = pieces.at[own.piece];
  if (own.share().first != 0) return;
  const std::uint32_t received =
      work.source != nullptr
          ? *work.source
          : values::SmallIntegerSeed(work.batch_part, Resolve(step).step, micro_batch);
  *work.target = values::MixedPass(received, work.also != nullptr ? *work.also : 0, work.salt);
}

struct MovePiece {
  MoveWork work;
  bool packed;
};

template <typename To, typename From>
__global__ void MoveKernel(const __grid_constant__ Pieces<MovePiece> pieces) {
  const auto own = pieces.own();
  const MoveWork& work = pieces.at[own.piece].work;
  To* target = static_cast<To*>(work.target);
  const From* source = static_cast<const From*>(work.source);
  const bool contiguous = work.block >= work.elements;
  const float scale = work.scale;
  const bool add = work.add;
  const auto body = [&](auto count, std::int64_t i) {
    constexpr int kCount = decltype(count)::value;
    std::int64_t to_at = i;
    std::int64_t from_at = i;
    if (!contiguous) {
      const std::int64_t b = i / work.block;
      const std::int64_t within = i - b * work.block;
      to_at = b * work.target_stride + within;
      from_at = b * work.source_stride + within;
    }
    const auto from = *reinterpret_cast<const Pack<From, kCount>*>(source + from_at);
    Pack<To, kCount> to{};
    if (add) to = *reinterpret_cast<const Pack<To, kCount>*>(target + to_at);
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      const float value = ToFp32(from.at[e]);
      to.at[e] = FromFp32<To>(add ? values::AddScaled(ToFp32(to.at[e]), scale, value)
                                  : values::Multiply(scale, value));
    }
    *reinterpret_cast<Pack<To, kCount>*>(target + to_at) = to;
  };
  ForPacks(own.share(), work.elements, pieces.at[own.piece].packed, body);
}

__device__ const values::AdamW& OptimizerOf(const StepValues& step, const values::AdamW&) {
  return step.adamw;
}
__device__ const values::Sgd& OptimizerOf(const StepValues&, const values::Sgd& sgd) { return sgd; }

struct UpdatePiece {
  UpdateWork work;
  bool packed;
};

template <typename Parameter, typename Gradient, typename State, typename Optimizer>
__global__ void UpdateKernel(const __grid_constant__ Pieces<UpdatePiece> pieces, Optimizer given,
                             StepSource source) {
  constexpr bool kMaster = !std::is_same_v<Parameter, State>;
  constexpr int kStates = Optimizer::kMoments + (kMaster ? 1 : 0);
  const StepValues step = Resolve(source);
  const Optimizer optimizer = OptimizerOf(step, given);
  const auto own = pieces.own();
  const UpdateWork& work = pieces.at[own.piece].work;
  Parameter* parameters = static_cast<Parameter*>(work.parameters);
  const Gradient* gradients = static_cast<const Gradient*>(work.gradients);
  State* states = static_cast<State*>(work.states);
  const std::int64_t stride = work.state_stride;
  const auto body = [&](auto count, std::int64_t i) {
    constexpr int kCount = decltype(count)::value;
    Pack<Parameter, kCount> parameter{};
    // With a master copy, the parameter is only written.
    if constexpr (!kMaster) parameter = *reinterpret_cast<Pack<Parameter, kCount>*>(parameters + i);
    const auto gradient = *reinterpret_cast<const Pack<Gradient, kCount>*>(gradients + i);
    Pack<State, kCount> state[kStates];
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      state[s] = *reinterpret_cast<const Pack<State, kCount>*>(states + s * stride + i);
    }
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      values::UpdateElement(optimizer, parameter.at, gradient.at, state[0].at, kCount, e);
    }
    *reinterpret_cast<Pack<Parameter, kCount>*>(parameters + i) = parameter;
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      *reinterpret_cast<Pack<State, kCount>*>(states + s * stride + i) = state[s];
    }
  };
  ForPacks(own.share(), work.elements, pieces.at[own.piece].packed, body);
}

template <typename To>
__global__ void InitialValuesKernel(To* target, std::int64_t elements, std::int64_t first_element,
                                    std::uint32_t seed) {
  for (std::int64_t i = FirstItem(); i < elements; i += ItemStride()) {
    target[i] = FromFp32<To>(values::InitialValue(seed, first_element + i));
  }
}

// The number of blocks that sum the squares of `elements` numbers: enough to keep memory busy. It
// is the same on every GPU, so that the order of additions is the same.
constexpr std::int64_t kMostSumBlocks = 512;
constexpr int kSquaresOfAThread = 16;
unsigned SumBlocks(std::int64_t elements) {
  constexpr std::int64_t kOfABlock = std::int64_t{kThreads} * kSquaresOfAThread;
  return static_cast<unsigned>(
      std::clamp<std::int64_t>((elements + kOfABlock - 1) / kOfABlock, 1, kMostSumBlocks));
}
static_assert(kPartialSums >= Pieces<SquaresWork>::kMost * kMostSumBlocks);

// The sum over the threads of a block, in its first thread.
__device__ double SumOfBlock(double own) {
  __shared__ double sums[kThreads];
  sums[threadIdx.x] = own;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  // Other threads would read `sums` while the last addition writes it.
  const double sum = threadIdx.x == 0 ? sums[0] : 0;
  __syncthreads();
  return sum;
}

// Each block sums a part of a piece ...
template <typename From>
__global__ void PartialSquaresKernel(const __grid_constant__ Pieces<SquaresWork> pieces,
                                     double* partial_sums) {
  const auto own = pieces.own();
  const SquaresWork& work = pieces.at[own.piece];
  const From* source = static_cast<const From*>(work.source);
  const Share share = own.share();
  const std::int64_t elements = work.elements;
  double sum = 0;
#pragma unroll 8
  for (std::int64_t i = share.first; i < elements; i += share.stride) {
    sum += values::Square(source[i]);
  }
  sum = SumOfBlock(sum);
  if (threadIdx.x == 0) partial_sums[blockIdx.x] = sum;
}

// ... and one block sums all parts, piece by piece.
__global__ void SquaresKernel(const __grid_constant__ Pieces<SquaresWork> pieces,
                              const double* partial_sums) {
  for (int p = 0; p < pieces.count; ++p) {
    double sum = 0;
    for (unsigned b = pieces.first_block[p] + threadIdx.x; b < pieces.first_block[p + 1];
         b += kThreads) {
      sum += partial_sums[b];
    }
    sum = SumOfBlock(sum);
    const SquaresWork& work = pieces.at[p];
    if (threadIdx.x == 0) {
      *work.target = values::StoredSquares(*work.target, work.add, work.scale, sum);
    }
  }
}

template <typename T>
__global__ void ClipKernel(const __grid_constant__ Pieces<ClipWork> pieces) {
  const auto own = pieces.own();
  const ClipWork& work = pieces.at[own.piece];
  T* target = static_cast<T*>(work.target);
  const float factor = values::ClipFactor(*work.squares, work.limit);
  const Share share = own.share();
  const std::int64_t elements = work.elements;
  for (std::int64_t i = share.first; i < elements; i += share.stride) {
    target[i] = values::Clipped(target[i], factor);
  }
}

// Splits the works into launches. `piece_of(work)` makes a kernel argument, and `blocks_of(piece)`
// gives its number of blocks.
template <typename Piece, typename Work, typename PieceOf, typename BlocksOf, typename Start>
cudaError_t InPieces(std::span<const Work> works, const PieceOf& piece_of,
                     const BlocksOf& blocks_of, const Start& start) {
  while (!works.empty()) {
    Pieces<Piece> pieces{};
    pieces.count = static_cast<int>(std::min<std::size_t>(works.size(), Pieces<Piece>::kMost));
    for (int p = 0; p < pieces.count; ++p) {
      pieces.at[p] = piece_of(works[static_cast<std::size_t>(p)]);
      pieces.first_block[p + 1] = pieces.first_block[p] + blocks_of(pieces.at[p]);
    }
    const cudaError_t error = start(pieces, pieces.first_block[pieces.count]);
    if (error != cudaSuccess) return error;
    works = works.subspan(static_cast<std::size_t>(pieces.count));
  }
  return cudaSuccess;
}

// The number of blocks for the elements of a piece, or for its packs.
template <typename Piece>
unsigned BlocksOfPacks(const Piece& piece) {
  return BlocksFor(piece.packed ? piece.work.elements / kPack : piece.work.elements);
}

// Calls `start` with a value of each of the two types.
template <typename Start>
cudaError_t WithTypes(TypePair types, const Start& start) {
  return WithStorageType(types.target, [&](auto to) {
    return WithStorageType(types.source, [&](auto from) { return start(to, from); });
  });
}

}  // namespace

StepValues StepValuesOf(std::uint32_t step) {
  return {.step = step, .adamw = values::AdamWOf(std::int64_t{step} + 1)};
}

cudaError_t StoreStepValues(const StepValues& values, StepValues* on_device, cudaStream_t stream) {
  return Launch(StoreStepValuesKernel, {1, 1, 0, stream}, values, on_device);
}

cudaError_t LaunchGradients(std::span<const GradientWork> works, TypePair types,
                            const GradientOrigin& origin, const StepSource& step,
                            cudaStream_t stream) {
  return WithTypes(types, [&](auto to, auto from) {
    using To = decltype(to);
    using From = decltype(from);
    const auto kernel = origin.rule == GradientRule::kSmallIntegers
                            ? GradientKernel<To, From, GradientRule::kSmallIntegers>
                            : GradientKernel<To, From, GradientRule::kComputed>;
    return InPieces<GradientPiece>(
        works,
        [](const GradientWork& w) {
          return GradientPiece{w,
                               PacksFit(w.target, sizeof(To)) && PacksFit(w.source, sizeof(From))};
        },
        BlocksOfPacks<GradientPiece>,
        [&](const Pieces<GradientPiece>& pieces, unsigned blocks) {
          return Launch(kernel, {blocks, kThreads, 0, stream}, pieces, origin.rank,
                        origin.micro_batch, step);
        });
  });
}

cudaError_t LaunchMoves(std::span<const MoveWork> works, TypePair types, cudaStream_t stream) {
  return WithTypes(types, [&](auto to, auto from) {
    using To = decltype(to);
    using From = decltype(from);
    return InPieces<MovePiece>(
        works,
        [](const MoveWork& w) {
          // If elements move in blocks, no pack may cross the border of a block.
          const bool contiguous = w.block >= w.elements;
          const bool whole = contiguous || (w.block % kPack == 0 && w.target_stride % kPack == 0 &&
                                            w.source_stride % kPack == 0);
          return MovePiece{
              w, whole && PacksFit(w.target, sizeof(To)) && PacksFit(w.source, sizeof(From))};
        },
        BlocksOfPacks<MovePiece>,
        [&](const Pieces<MovePiece>& pieces, unsigned blocks) {
          return Launch(MoveKernel<To, From>, {blocks, kThreads, 0, stream}, pieces);
        });
  });
}

namespace {

template <typename Parameter, typename Gradient, typename State>
cudaError_t LaunchUpdatesOf(std::span<const UpdateWork> works, bool adamw, const StepSource& step,
                            cudaStream_t stream) {
  return InPieces<UpdatePiece>(
      works,
      [](const UpdateWork& w) {
        return UpdatePiece{
            w, w.state_stride % kPack == 0 && PacksFit(w.parameters, sizeof(Parameter)) &&
                   PacksFit(w.gradients, sizeof(Gradient)) && PacksFit(w.states, sizeof(State))};
      },
      BlocksOfPacks<UpdatePiece>,
      [&](const Pieces<UpdatePiece>& pieces, unsigned blocks) {
        const LaunchShape shape{blocks, kThreads, 0, stream};
        if (adamw) {
          return Launch(UpdateKernel<Parameter, Gradient, State, values::AdamW>, shape, pieces,
                        step.now.adamw, step);
        }
        return Launch(UpdateKernel<Parameter, Gradient, State, values::Sgd>, shape, pieces,
                      values::SgdOf(), step);
      });
}

}  // namespace

cudaError_t LaunchUpdates(std::span<const UpdateWork> works, TypePair types, DataType states,
                          bool adamw, const StepSource& step, cudaStream_t stream) {
  return WithTypes(types, [&](auto parameter, auto gradient) {
    using Parameter = decltype(parameter);
    using Gradient = decltype(gradient);
    return states == DataType::kFp32
               ? LaunchUpdatesOf<Parameter, Gradient, float>(works, adamw, step, stream)
               : LaunchUpdatesOf<Parameter, Gradient, Parameter>(works, adamw, step, stream);
  });
}

cudaError_t LaunchSquares(std::span<const SquaresWork> works, DataType source, double* partial_sums,
                          cudaStream_t stream) {
  return WithStorageType(source, [&](auto from) {
    return InPieces<SquaresWork>(
        works, [](const SquaresWork& w) { return w; },
        [](const SquaresWork& w) { return SumBlocks(w.elements); },
        [&](const Pieces<SquaresWork>& pieces, unsigned blocks) {
          if (const cudaError_t error = Launch(PartialSquaresKernel<decltype(from)>,
                                               {blocks, kThreads, 0, stream}, pieces, partial_sums);
              error != cudaSuccess) {
            return error;
          }
          return Launch(SquaresKernel, {1, kThreads, 0, stream}, pieces, partial_sums);
        });
  });
}

cudaError_t LaunchClips(std::span<const ClipWork> works, DataType target, cudaStream_t stream) {
  return WithStorageType(target, [&](auto to) {
    return InPieces<ClipWork>(
        works, [](const ClipWork& w) { return w; },
        [](const ClipWork& w) { return BlocksFor(w.elements); },
        [&](const Pieces<ClipWork>& pieces, unsigned blocks) {
          return Launch(ClipKernel<decltype(to)>, {blocks, kThreads, 0, stream}, pieces);
        });
  });
}

cudaError_t LaunchMixes(std::span<const MixWork> works, const GradientOrigin& origin,
                        const StepSource& step, cudaStream_t stream) {
  return InPieces<MixWork>(
      works, [](const MixWork& w) { return w; }, [](const MixWork&) { return 1U; },
      [&](const Pieces<MixWork>& pieces, unsigned blocks) {
        return Launch(MixKernel, {blocks, kThreads, 0, stream}, pieces, origin.micro_batch, step);
      });
}

cudaError_t LaunchInitialValues(void* target, DataType type, std::int64_t elements,
                                std::int64_t first_element, std::uint64_t seed,
                                cudaStream_t stream) {
  const std::uint32_t hash = values::SeedHash(seed);
  return WithStorageType(type, [&](auto to) {
    using To = decltype(to);
    return Launch(InitialValuesKernel<To>, {BlocksFor(elements), kThreads, 0, stream},
                  static_cast<To*>(target), elements, first_element, hash);
  });
}

}  // namespace stepcast::runtime::cuda
