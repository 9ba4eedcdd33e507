#pragma once

#include <cstdint>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/base/time.h"
#include "src/calibrate/benchmark.h"
#include "src/program/program.h"

// The step programs that are measured. All are sound (program/validator.h).
namespace stepcast::calibrate {

// An m x n x k product; those of weights' gradients have FP32 results.
Kernel Product(DataType type, std::int64_t m, std::int64_t n, std::int64_t k,
               ProductLayout layout = ProductLayout::kForward);
// A memory-bound kernel that reads half of `bytes` and writes the other.
Kernel MemoryKernel(Bytes bytes);
// Causal attention, or its backward with 2.5 times the flops, as src/model has it.
Kernel AttentionKernel(KernelKind kind, DataType type, std::int64_t heads, std::int64_t sequence,
                       std::int64_t head_size);

// Each kernel 1 + repetitions times, back to back, kernel after kernel; one probe for each.
Benchmark KernelBenchmark(const std::vector<Kernel>& kernels, int repetitions);

// Fused AdamW over so many FP32 parameters, for real: each size on memory that was not touched
// since long, as in a training step, where forward and backward lie in between. One probe each.
// The memory is at least four times `cache`, the device's.
Benchmark OptimizerBenchmark(const std::vector<std::int64_t>& elements, Bytes cache,
                             int repetitions);
// Its traffic: parameter, gradient and two moments read, all but the gradient written.
constexpr Bytes OptimizerBytes(std::int64_t elements) { return Bytes(28 * elements); }

Benchmark CopyBenchmark(program::CopyDirection direction, const std::vector<Bytes>& sizes,
                        int repetitions);
// Both directions between host and device at once, on two streams. Probes: to the device, from it.
Benchmark TwoWayCopyBenchmark(Bytes size, int repetitions);

// Many tiny kernels, then many tiny collectives, issued faster than they run. Probes: the device's
// time from kernel to kernel, the host's to issue a kernel, the host's to issue a collective. A
// group of one has no collectives, and no probe for them: a library may not communicate at all
// then.
Benchmark LaunchBenchmark(const std::vector<int>& group);

// Collectives of one kind, each on its own: the compute stream pauses, the communication stream
// waits for it, the collective runs, the compute stream waits for that, and so on. Thereby ranks
// meet at each collective as they do in a training step: brought together by the one before, and
// apart by what computing scatters. `group` is this rank's, of `groups`. Sizes by nccl-tests'
// convention, multiples of 4 x ranks bytes; FP32 and averaged, values never zero. A probe each.
// send_recv: an exchange, in which each sends to the next one, as pipelines' stages do.
Benchmark CollectiveBenchmark(CollectiveKind kind, const std::vector<Bytes>& sizes,
                              const std::vector<std::vector<int>>& groups, int rank);

// `kernels` times a kernel on one stream beside `collectives` times a collective on another, both
// back to back; one of the two may be none. Probes: the kernel (if any), the collective (if any).
Benchmark OverlapBenchmark(const Kernel& kernel, int kernels, CollectiveKind kind, Bytes size,
                           int collectives, const std::vector<int>& group, int rank);

// How many make chains of the same length out of operations that take so many seconds each: as
// many as fill 0.2 s, but of each at least 4, and more than 300 only where that takes them.
struct Chains {
  int kernels = 0, collectives = 0;
};
Chains ChainsBeside(double kernel, double collective);

}  // namespace stepcast::calibrate
