#include <type_traits>

#include "src/runtime/cuda/effects.h"
#include "src/runtime/cuda/packs.cuh"
#include "src/runtime/values/clipping.h"
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

// Element i of a pack-wise loop: `kN` elements from i x kN on, and, of the elements that do not
// fill a pack, one for each of the first threads.
#define STEPCAST_FOR_PACKS(elements, kN, body)                                        \
  for (std::int64_t pack = FirstItem(); pack < (elements) / kN; pack += ItemStride()) \
    body(std::integral_constant<int, kN>(), pack* kN);                                \
  if constexpr (kN > 1) {                                                             \
    const std::int64_t rest = (elements) / kN * kN + FirstItem();                     \
    if (rest < (elements)) body(std::integral_constant<int, 1>(), rest);              \
  }

template <typename To, typename From, int kN, GradientRule kRule>
__global__ void GradientKernel(To* target, const From* source, std::int64_t elements,
                               std::int64_t first_element, bool add, float scale, int rank,
                               int micro_batch, StepSource step) {
  const std::uint32_t seed = kRule == GradientRule::kSmallIntegers
                                 ? values::SmallIntegerSeed(rank, Resolve(step).step, micro_batch)
                                 : values::QuadraticSeed(rank, micro_batch);
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
  STEPCAST_FOR_PACKS(elements, kN, body)
}

template <typename To, typename From, int kN>
__global__ void MoveKernel(To* target, const From* source, std::int64_t elements, bool add,
                           float scale, std::int64_t block, std::int64_t target_stride,
                           std::int64_t source_stride) {
  const bool contiguous = block >= elements;
  const auto body = [&](auto count, std::int64_t i) {
    constexpr int kCount = decltype(count)::value;
    std::int64_t to_at = i;
    std::int64_t from_at = i;
    if (!contiguous) {
      const std::int64_t b = i / block;
      const std::int64_t within = i - b * block;
      to_at = b * target_stride + within;
      from_at = b * source_stride + within;
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
  STEPCAST_FOR_PACKS(elements, kN, body)
}

__device__ const values::AdamW& OptimizerOf(const StepValues& step, const values::AdamW&) {
  return step.adamw;
}
__device__ const values::Sgd& OptimizerOf(const StepValues&, const values::Sgd& sgd) { return sgd; }

template <typename Parameter, typename Gradient, typename Optimizer, int kN>
__global__ void UpdateKernel(Parameter* parameters, const Gradient* gradients, float* states,
                             std::int64_t elements, std::int64_t stride, Optimizer given,
                             StepSource source) {
  constexpr bool kMaster = !std::is_same_v<Parameter, float>;
  constexpr int kStates = Optimizer::kMoments + (kMaster ? 1 : 0);
  const StepValues step = Resolve(source);
  const Optimizer optimizer = OptimizerOf(step, given);
  const auto body = [&](auto count, std::int64_t i) {
    constexpr int kCount = decltype(count)::value;
    Pack<Parameter, kCount> parameter{};
    // With a master copy the parameter is only written.
    if constexpr (!kMaster) parameter = *reinterpret_cast<Pack<Parameter, kCount>*>(parameters + i);
    const auto gradient = *reinterpret_cast<const Pack<Gradient, kCount>*>(gradients + i);
    Pack<float, kCount> state[kStates];
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      state[s] = *reinterpret_cast<const Pack<float, kCount>*>(states + s * stride + i);
    }
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      values::UpdateElement(optimizer, parameter.at, gradient.at, state[0].at, kCount, e);
    }
    *reinterpret_cast<Pack<Parameter, kCount>*>(parameters + i) = parameter;
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      *reinterpret_cast<Pack<float, kCount>*>(states + s * stride + i) = state[s];
    }
  };
  STEPCAST_FOR_PACKS(elements, kN, body)
}

template <typename To>
__global__ void InitialValuesKernel(To* target, std::int64_t elements, std::int64_t first_element,
                                    std::uint32_t seed) {
  for (std::int64_t i = FirstItem(); i < elements; i += ItemStride()) {
    target[i] = FromFp32<To>(values::InitialValue(seed, first_element + i));
  }
}

// One block, so that the sum is always added up in the same order; its threads take as many packs
// each as keep memory busy.
constexpr int kSumThreads = 1024;

template <typename From>
__global__ void SquaresKernel(float* target, const From* source, std::int64_t elements, bool add,
                              float scale) {
  __shared__ double sums[kSumThreads];
  double sum = 0;
#pragma unroll 8
  for (std::int64_t i = threadIdx.x; i < elements; i += kSumThreads) {
    sum += values::Square(source[i]);
  }
  sums[threadIdx.x] = sum;
  for (int half = kSumThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *target = values::StoredSquares(*target, add, scale, sums[0]);
}

template <typename T>
__global__ void ClipKernel(T* target, const float* squares, std::int64_t elements, float limit) {
  const float factor = values::ClipFactor(*squares, limit);
  for (std::int64_t i = FirstItem(); i < elements; i += ItemStride()) {
    target[i] = values::Clipped(target[i], factor);
  }
}

template <typename To, typename From, GradientRule kRule>
void StartGradient(const GradientWork& w, const StepSource& step, cudaStream_t stream) {
  const auto start = [&](auto count) {
    constexpr int kN = decltype(count)::value;
    GradientKernel<To, From, kN, kRule><<<BlocksFor(w.elements / kN), kThreads, 0, stream>>>(
        static_cast<To*>(w.target), static_cast<const From*>(w.source), w.elements, w.first_element,
        w.add, w.scale, w.rank, w.micro_batch, step);
  };
  if (PacksFit(w.target, sizeof(To)) && PacksFit(w.source, sizeof(From))) {
    start(std::integral_constant<int, kPack>());
  } else {
    start(std::integral_constant<int, 1>());
  }
}

template <typename To, typename From>
void StartMove(const MoveWork& w, cudaStream_t stream) {
  const auto start = [&](auto count) {
    constexpr int kN = decltype(count)::value;
    MoveKernel<To, From, kN><<<BlocksFor(w.elements / kN), kThreads, 0, stream>>>(
        static_cast<To*>(w.target), static_cast<const From*>(w.source), w.elements, w.add, w.scale,
        w.block, w.target_stride, w.source_stride);
  };
  // In blocks, no pack may cross a border.
  const bool contiguous = w.block >= w.elements;
  const bool whole = contiguous || (w.block % kPack == 0 && w.target_stride % kPack == 0 &&
                                    w.source_stride % kPack == 0);
  if (whole && PacksFit(w.target, sizeof(To)) && PacksFit(w.source, sizeof(From))) {
    start(std::integral_constant<int, kPack>());
  } else {
    start(std::integral_constant<int, 1>());
  }
}

template <typename Parameter, typename Gradient, typename Optimizer>
void StartUpdate(const UpdateWork& w, const Optimizer& optimizer, const StepSource& step,
                 cudaStream_t stream) {
  const auto start = [&](auto count) {
    constexpr int kN = decltype(count)::value;
    UpdateKernel<Parameter, Gradient, Optimizer, kN>
        <<<BlocksFor(w.elements / kN), kThreads, 0, stream>>>(
            static_cast<Parameter*>(w.parameters), static_cast<const Gradient*>(w.gradients),
            w.states, w.elements, w.state_stride, optimizer, step);
  };
  if (w.state_stride % kPack == 0 && PacksFit(w.parameters, sizeof(Parameter)) &&
      PacksFit(w.gradients, sizeof(Gradient)) && PacksFit(w.states, sizeof(float))) {
    start(std::integral_constant<int, kPack>());
  } else {
    start(std::integral_constant<int, 1>());
  }
}

}  // namespace

StepValues StepValuesOf(std::uint32_t step) {
  return {.step = step, .adamw = values::AdamWOf(std::int64_t{step} + 1)};
}

cudaError_t StoreStepValues(const StepValues& values, StepValues* on_device, cudaStream_t stream) {
  StoreStepValuesKernel<<<1, 1, 0, stream>>>(values, on_device);
  return cudaGetLastError();
}

cudaError_t LaunchGradient(const GradientWork& work, const StepSource& step, cudaStream_t stream) {
  if (work.elements <= 0) return cudaSuccess;
  WithStorageType(work.target_type, [&](auto to) {
    WithStorageType(work.source_type, [&](auto from) {
      using To = decltype(to);
      using From = decltype(from);
      if (work.rule == GradientRule::kSmallIntegers) {
        StartGradient<To, From, GradientRule::kSmallIntegers>(work, step, stream);
      } else {
        StartGradient<To, From, GradientRule::kComputed>(work, step, stream);
      }
    });
  });
  return cudaGetLastError();
}

cudaError_t LaunchMove(const MoveWork& work, cudaStream_t stream) {
  if (work.elements <= 0) return cudaSuccess;
  WithStorageType(work.target_type, [&](auto to) {
    WithStorageType(work.source_type,
                    [&](auto from) { StartMove<decltype(to), decltype(from)>(work, stream); });
  });
  return cudaGetLastError();
}

cudaError_t LaunchUpdate(const UpdateWork& work, const StepSource& step, cudaStream_t stream) {
  if (work.elements <= 0) return cudaSuccess;
  WithStorageType(work.parameter_type, [&](auto parameter) {
    WithStorageType(work.gradient_type, [&](auto gradient) {
      using Parameter = decltype(parameter);
      using Gradient = decltype(gradient);
      if (work.adamw) {
        StartUpdate<Parameter, Gradient>(work, step.now.adamw, step, stream);
      } else {
        StartUpdate<Parameter, Gradient>(work, values::SgdOf(), step, stream);
      }
    });
  });
  return cudaGetLastError();
}

cudaError_t LaunchSquares(const SquaresWork& work, cudaStream_t stream) {
  WithStorageType(work.source_type, [&](auto from) {
    SquaresKernel<decltype(from)><<<1, kSumThreads, 0, stream>>>(
        work.target, static_cast<const decltype(from)*>(work.source), work.elements, work.add,
        work.scale);
  });
  return cudaGetLastError();
}

cudaError_t LaunchClip(const ClipWork& work, cudaStream_t stream) {
  if (work.elements <= 0) return cudaSuccess;
  WithStorageType(work.target_type, [&](auto to) {
    ClipKernel<decltype(to)><<<BlocksFor(work.elements), kThreads, 0, stream>>>(
        static_cast<decltype(to)*>(work.target), work.squares, work.elements, work.limit);
  });
  return cudaGetLastError();
}

cudaError_t LaunchInitialValues(void* target, DataType type, std::int64_t elements,
                                std::int64_t first_element, std::uint64_t seed,
                                cudaStream_t stream) {
  if (elements <= 0) return cudaSuccess;
  const std::uint32_t hash = values::SeedHash(seed);
  WithStorageType(type, [&](auto to) {
    using To = decltype(to);
    InitialValuesKernel<To><<<BlocksFor(elements), kThreads, 0, stream>>>(
        static_cast<To*>(target), elements, first_element, hash);
  });
  return cudaGetLastError();
}

}  // namespace stepcast::runtime::cuda
