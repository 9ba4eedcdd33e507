#include "src/runtime/host/value_effects.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "src/base/check.h"
#include "src/runtime/host/simd_kernels.h"
#include "src/runtime/values/gradients.h"
#include "src/runtime/values/number_types.h"
#include "src/runtime/values/optimizers.h"
#include "src/runtime/values/random_values.h"

namespace stepcast::runtime::host {
namespace {

using program::Effect;
using program::EffectKind;

template <typename T>
T* As(std::byte* data) {
  return reinterpret_cast<T*>(data);
}
template <typename T>
const T* As(const std::byte* data) {
  return reinterpret_cast<const T*>(data);
}

// target[i] = scale * value(i), or += if `add`.
template <typename Target, typename Value>
void Store(Target* target, std::int64_t count, bool add, float scale, Value value) {
  if (add) {
    for (std::int64_t i = 0; i < count; ++i) {
      target[i] =
          values::FromFp32<Target>(values::AddScaled(values::ToFp32(target[i]), scale, value(i)));
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      target[i] = values::FromFp32<Target>(values::Multiply(scale, value(i)));
    }
  }
}

std::uint32_t SeedOf(const EffectContext& context) {
  return values::SmallIntegerSeed(context.rank, context.step, context.micro_batch);
}

std::uint32_t BitsAt(const std::byte* place) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, place, sizeof(bits));
  return bits;
}

void MixPasses(const BoundEffect& bound, const EffectContext& context) {
  const std::uint32_t mixed = values::MixedPass(
      bound.source != nullptr ? BitsAt(bound.source)
                              : values::SmallIntegerSeed(static_cast<int>(bound.effect.batch_part),
                                                         context.step, context.micro_batch),
      bound.states != nullptr ? BitsAt(bound.states) : 0, bound.effect.first_element);
  std::memcpy(bound.target, &mixed, sizeof(mixed));
}

void WriteGradient(const BoundEffect& bound, const EffectContext& context) {
  const Effect& effect = bound.effect;
  const auto scale = static_cast<float>(effect.scale);
  const std::int64_t first = effect.first_element;
  values::WithStorageType(effect.target.type, [&](auto target_storage) {
    using Target = decltype(target_storage);
    auto* target = As<Target>(bound.target);
    if (context.gradients == GradientRule::kComputed && context.product != nullptr) {
      for (std::int64_t at = 0; at < effect.elements; at += context.product_elements) {
        Store(target + at, std::min(context.product_elements, effect.elements - at), effect.add,
              scale, [product = context.product](std::int64_t i) { return product[i]; });
      }
      return;
    }
    values::WithStorageType(effect.source.type, [&](auto source_storage) {
      const auto* source = As<decltype(source_storage)>(bound.source);
      if (context.gradients == GradientRule::kSmallIntegers) {
        const std::uint32_t seed = bound.states != nullptr ? BitsAt(bound.states) : SeedOf(context);
        Store(target, effect.elements, effect.add, scale, [=](std::int64_t i) {
          return values::SmallIntegerGradient(values::ToFp32(source[i]), seed, first + i);
        });
      } else {
        const std::uint32_t seed = values::QuadraticSeed(context.rank, context.micro_batch);
        if constexpr (std::is_same_v<Target, float> &&
                      std::is_same_v<decltype(source_storage), float>) {
          return WriteQuadraticGradients(source, effect.elements, seed, first, scale, effect.add,
                                         target);
        }
        Store(target, effect.elements, effect.add, scale, [=](std::int64_t i) {
          return values::QuadraticGradient(values::ToFp32(source[i]), seed, first + i);
        });
      }
    });
  });
}

void Move(const BoundEffect& bound) {
  const Effect& effect = bound.effect;
  if (effect.elements == 0) return;
  const std::int64_t block = effect.block > 0 ? effect.block : effect.elements;
  const auto scale = static_cast<float>(effect.scale);
  values::WithStorageType(effect.target.type, [&](auto target_storage) {
    using Target = decltype(target_storage);
    values::WithStorageType(effect.source.type, [&](auto source_storage) {
      using Source = decltype(source_storage);
      auto* target = As<Target>(bound.target);
      const auto* source = As<Source>(bound.source);
      for (std::int64_t begin = 0; begin < effect.elements; begin += block) {
        const std::int64_t count = std::min(block, effect.elements - begin);
        bool copied = false;
        if constexpr (std::is_same_v<Target, Source>) {
          if (!effect.add && effect.scale == 1) {
            std::memmove(target, source, static_cast<std::size_t>(count) * sizeof(Target));
            copied = true;
          }
        }
        if (!copied) {
          Store(target, count, effect.add, scale,
                [source](std::int64_t i) { return values::ToFp32(source[i]); });
        }
        target += effect.target_stride;
        source += effect.source_stride;
      }
    });
  });
}

// Like values::UpdateRange, but the arrays must not overlap, so that the compiler can vectorize.
// The rounding is the same.
template <typename Optimizer, typename Parameter, typename Gradient, typename State>
void UpdateAll(const Optimizer& optimizer, Parameter* parameters, const Gradient* gradients,
               State* states, std::int64_t stride, std::int64_t elements) {
#ifdef __clang__
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (std::int64_t i = 0; i < elements; ++i) {
    values::UpdateElement(optimizer, parameters, gradients, states, stride, i);
  }
}

template <typename State, typename Parameter, typename Gradient>
void UpdateOf(const BoundEffect& bound, const EffectContext& context, Parameter* parameters,
              const Gradient* gradients) {
  const Effect& effect = bound.effect;
  auto* states = As<State>(bound.states);
  if (context.adamw) {
    UpdateAll(values::AdamWOf(std::int64_t{context.step} + 1), parameters, gradients, states,
              effect.state_stride, effect.elements);
  } else {
    UpdateAll(values::SgdOf(), parameters, gradients, states, effect.state_stride, effect.elements);
  }
}

void Update(const BoundEffect& bound, const EffectContext& context) {
  const Effect& effect = bound.effect;
  values::WithStorageType(effect.target.type, [&](auto target_storage) {
    using Parameter = decltype(target_storage);
    values::WithStorageType(effect.source.type, [&](auto source_storage) {
      auto* parameters = As<Parameter>(bound.target);
      const auto* gradients = As<decltype(source_storage)>(bound.source);
      if (effect.states.type == DataType::kFp32) {
        UpdateOf<float>(bound, context, parameters, gradients);
      } else {
        UpdateOf<Parameter>(bound, context, parameters, gradients);
      }
    });
  });
}

void AddSquares(const BoundEffect& bound) {
  const Effect& effect = bound.effect;
  values::WithStorageType(effect.source.type, [&](auto storage) {
    auto* number = As<float>(bound.target);
    *number = values::StoredSquares(
        *number, effect.add, static_cast<float>(effect.scale),
        values::SumOfSquares(As<decltype(storage)>(bound.source), effect.elements));
  });
}

void Clip(const BoundEffect& bound) {
  const Effect& effect = bound.effect;
  const float factor =
      values::ClipFactor(*As<float>(bound.source), static_cast<float>(effect.scale));
  values::WithStorageType(effect.target.type, [&](auto storage) {
    auto* target = As<decltype(storage)>(bound.target);
    for (std::int64_t i = 0; i < effect.elements; ++i) {
      target[i] = values::Clipped(target[i], factor);
    }
  });
}

}  // namespace

void Apply(const BoundEffect& bound, const EffectContext& context) {
  switch (bound.effect.kind) {
    case EffectKind::kGradient:
      return WriteGradient(bound, context);
    case EffectKind::kMove:
      return Move(bound);
    case EffectKind::kUpdate:
      return Update(bound, context);
    case EffectKind::kSquares:
      return AddSquares(bound);
    case EffectKind::kClip:
      return Clip(bound);
    case EffectKind::kMix:
      return MixPasses(bound, context);
    case EffectKind::kCollective:
      break;
  }
  STEPCAST_CHECK(false, "collectives must run on a channel");
}

void WriteInitial(const program::StatePart& part, std::byte* target, std::uint64_t seed) {
  const std::uint32_t hash = values::SeedHash(seed);
  values::WithStorageType(part.place.type, [&](auto storage) {
    using T = decltype(storage);
    auto* to = As<T>(target);
    for (std::int64_t i = 0; i < part.elements; ++i) {
      to[i] = values::FromFp32<T>(part.role == program::StateRole::kMoment
                                      ? 0.0f
                                      : values::InitialValue(hash, part.first_element + i));
    }
  });
}

void ReadValues(const std::byte* source, DataType type, std::int64_t count, float* out) {
  values::WithStorageType(type, [&](auto storage) {
    const auto* from = As<decltype(storage)>(source);
    for (std::int64_t i = 0; i < count; ++i) out[i] = values::ToFp32(from[i]);
  });
}

std::int64_t BytesMoved(const program::Effect& effect) {
  if (effect.kind == EffectKind::kSquares) return effect.elements * SizeOf(effect.source.type);
  if (effect.kind == EffectKind::kClip) return 2 * effect.elements * SizeOf(effect.target.type);
  const auto bytes = [&](const program::Elements& elements) {
    return elements.buffer == program::kNone ? 0 : effect.elements * SizeOf(elements.type);
  };
  return bytes(effect.target) + bytes(effect.source);
}

}  // namespace stepcast::runtime::host
