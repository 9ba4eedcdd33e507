#include "src/runtime/cuda/effect_batches.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace stepcast::runtime::cuda {
namespace {

using program::Effect;
using program::EffectKind;
using program::Elements;
using program::Index;

// Bytes of a buffer: `count` runs, with a distance of `stride` between their starts.
struct Region {
  Index buffer;
  std::int64_t begin, run, stride, count;
  std::int64_t end() const { return begin + (count - 1) * stride + run; }
};

Region RegionOf(const Elements& at, std::int64_t run, std::int64_t stride, std::int64_t count) {
  const std::int64_t size = SizeOf(at.type);
  return {at.buffer, at.offset.count(), run * size, stride * size, count};
}

Region Whole(const Elements& at, std::int64_t elements) {
  return RegionOf(at, elements, elements, 1);
}

// The region of elements that move in blocks.
Region Blocks(const Elements& at, const Effect& effect, std::int64_t stride) {
  if (effect.block <= 0 || effect.block >= effect.elements) return Whole(at, effect.elements);
  return RegionOf(at, effect.block, stride, (effect.elements + effect.block - 1) / effect.block);
}

bool Overlap(const Region& a, const Region& b) {
  if (a.buffer != b.buffer || a.end() <= b.begin || b.end() <= a.begin) return false;
  // Two regions with the same stride are disjoint if their first runs and their strides leave gaps.
  const std::int64_t stride = a.count > 1 ? a.stride : b.stride;
  const bool in_step =
      stride > 0 && (a.count == 1 || a.stride == stride) && (b.count == 1 || b.stride == stride);
  if (!in_step) return true;
  const std::int64_t apart = ((b.begin - a.begin) % stride + stride) % stride;
  return apart < a.run || apart + b.run > stride;
}

struct Footprint {
  std::vector<Region> read, written;
};

Footprint FootprintOf(const Effect& effect, bool adamw) {
  const std::int64_t n = effect.elements;
  switch (effect.kind) {
    case EffectKind::kMove:
      return {{Blocks(effect.source, effect, effect.source_stride)},
              {Blocks(effect.target, effect, effect.target_stride)}};
    case EffectKind::kUpdate: {
      const std::int64_t arrays = program::StateArrays(adamw, effect);
      return {{Whole(effect.source, n)},
              {Whole(effect.target, n), RegionOf(effect.states, n, effect.state_stride, arrays)}};
    }
    case EffectKind::kSquares:
      return {{Whole(effect.source, n)}, {Whole(effect.target, 1)}};
    case EffectKind::kClip:
      return {{Whole(effect.source, 1)}, {Whole(effect.target, n)}};
    case EffectKind::kGradient:
    case EffectKind::kMix: {
      Footprint footprint{{}, {Whole(effect.target, n)}};
      if (effect.source.buffer != program::kNone) footprint.read.push_back(Whole(effect.source, n));
      if (effect.states.buffer != program::kNone) footprint.read.push_back(Whole(effect.states, 1));
      return footprint;
    }
    case EffectKind::kCollective:
      break;
  }
  return {{Whole(effect.source, n)}, {Whole(effect.target, n)}};
}

bool AnyOverlap(const std::vector<Region>& some, const std::vector<Region>& others) {
  return std::any_of(some.begin(), some.end(), [&](const Region& one) {
    return std::any_of(others.begin(), others.end(),
                       [&](const Region& other) { return Overlap(one, other); });
  });
}

bool AtOnce(const Footprint& first, const Footprint& second, bool in_order) {
  return !AnyOverlap(first.written, second.read) && !AnyOverlap(first.read, second.written) &&
         (in_order || !AnyOverlap(first.written, second.written));
}

}  // namespace

std::size_t FirstBatch(std::span<const Effect> effects, bool adamw) {
  if (effects.size() < 2 || effects[0].kind == EffectKind::kCollective) {
    return std::min<std::size_t>(effects.size(), 1);
  }
  const Effect& first = effects[0];
  const bool in_order = first.kind == EffectKind::kSquares;
  std::vector<Footprint> batch = {FootprintOf(first, adamw)};
  for (const Effect& effect : effects.subspan(1)) {
    if (effect.kind != first.kind || effect.target.type != first.target.type ||
        effect.source.type != first.source.type || effect.states.type != first.states.type) {
      break;
    }
    Footprint footprint = FootprintOf(effect, adamw);
    if (!std::all_of(batch.begin(), batch.end(),
                     [&](const Footprint& one) { return AtOnce(one, footprint, in_order); })) {
      break;
    }
    batch.push_back(std::move(footprint));
  }
  return batch.size();
}

}  // namespace stepcast::runtime::cuda
