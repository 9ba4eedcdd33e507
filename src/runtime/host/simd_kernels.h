#pragma once

#include <cstdint>

// The ranks' most frequent computations beside communication, over FP32, for whatever vector
// registers the processor has. The same bits on all of them: no operation is contracted or
// reordered. With more ranks than cores, and cores that also carry the messages, it counts what
// they take.
namespace stepcast::runtime::host {

// target[i] = scale gradient(source[i]) (values::QuadraticGradient), or that more. The elements are
// `first` and those behind it.
void WriteQuadraticGradients(const float* source, std::int64_t count, std::uint32_t seed,
                             std::int64_t first, float scale, bool add, float* target);

// sum[i] = (a[i] + b[i]) / divisor; the sum may be one of the two.
void AddAndDivide(const float* a, const float* b, std::int64_t count, float divisor, float* sum);

}  // namespace stepcast::runtime::host
