#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/base/time.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/runtime/device.h"

namespace stepcast::calibrate {

// A microbenchmark is a small step program whose operations are timed by the runtime, in the same
// way as a training step's. So what is measured is what an operation costs there, on every backend.

// How the records of operations become samples.
enum class Rule : std::uint8_t {
  // Operations of one stream, one right behind the other: a sample is the time from the end of one
  // to the end of the next, which is what it adds to its stream, gaps between operations included.
  // The first only warms up. One that was issued after the end of the one before waited for the
  // host and is no sample, unless all did.
  kPeriod,
  // Each collective is a sample: from when the last member of its group has reached it until the
  // last member's part ends. Ranks' clocks may differ a little, so the sample is held between the
  // shortest and the longest of what members saw on their own clocks, where it must lie.
  kCollective,
  // One sample a step: the time per operation that the host spends to issue them, as the slope of a
  // robust line.
  kIssue,
};

// Which operations of the step tell about one figure.
struct Probe {
  Rule rule = Rule::kPeriod;
  std::vector<program::Index> operations;  // into Program::step, ascending
};

struct Benchmark {
  program::Program program;
  std::vector<Probe> probes;
  // kCollective: the groups that run them at the same time, global ranks; they are disjoint.
  std::vector<std::vector<int>> groups;
};

// Runs a program on this rank's device: the prologue, `warmup_steps`, then `measured_steps` whose
// timeline comes back. All ranks call it together.
using Runner = std::function<runtime::Attempt<program::Timeline>(
    const program::Program& program, int warmup_steps, int measured_steps)>;

// This rank's records of a benchmark, as they travel to rank 0.
std::string PackRecords(const Benchmark& benchmark, const program::Timeline& timeline);

// The samples of each probe, in seconds, from what all ranks packed. Of the rules that look at one
// rank alone, the rank counts whose median is the longest: a step waits for the slowest. `steps`
// were measured; records that are missing are a Failure.
runtime::Attempt<std::vector<std::vector<double>>> SamplesOf(
    const Benchmark& benchmark, int steps, const std::vector<std::string>& packed);

// The step programs that are measured. All are sound (program/validator.h).

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
