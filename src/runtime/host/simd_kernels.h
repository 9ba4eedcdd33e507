#pragma once

#include <cstdint>

// The most frequent FP32 computations of ranks, compiled for several vector instruction sets. The
// results of all instruction sets are bitwise equal, because no operation is contracted or
// reordered.
namespace stepcast::runtime::host {

// Computes target[i] = scale * gradient(source[i]) (values::QuadraticGradient). If `add` is true,
// adds this value to target[i] instead. `first` is the index of the first element.
void WriteQuadraticGradients(const float* source, std::int64_t count, std::uint32_t seed,
                             std::int64_t first, float scale, bool add, float* target);

// Computes sum[i] = (a[i] + b[i]) / divisor. `sum` may be `a` or `b`.
void AddAndDivide(const float* a, const float* b, std::int64_t count, float divisor, float* sum);

}  // namespace stepcast::runtime::host
