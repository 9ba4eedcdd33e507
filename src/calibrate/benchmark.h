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
#include "src/runtime/backend.h"
#include "src/runtime/device.h"
#include "src/runtime/job.h"
#include "src/runtime/watch.h"

namespace stepcast::calibrate {

// A microbenchmark is a small step program. The runtime executes it like a training step, so
// measured times include the overheads of training.

// How samples are computed from the recorded times of operations.
enum class Rule : std::uint8_t {
  // For consecutive operations of one stream: a sample is the time from the end of one operation to
  // the end of the next, including gaps. The first operation is a warm-up. An operation that was
  // issued after the end of the previous operation waited for the host, so it is not a sample. If
  // all operations waited, all are samples.
  kPeriod,
  // Each collective is one sample: the time from the last member's start to the last member's end.
  // Because clocks of ranks may differ, the sample is limited to the range of the members' own
  // durations.
  kCollective,
  // Each step is one sample: the host's time per operation, which is the slope of a robust line fit
  // to the issue times.
  kIssue,
};

// The operations of a step from which one value is measured.
struct Probe {
  Rule rule = Rule::kPeriod;
  std::vector<program::Index> operations;  // indices in Program::step, ascending
};

struct Benchmark {
  program::Program program;
  std::vector<Probe> probes;
  // For kCollective: the disjoint groups, as global ranks, that run the operations concurrently.
  std::vector<std::vector<int>> groups;
};

// Runs a program on this rank's device: the prologue, `warmup_steps` steps, then `measured_steps`
// steps. Returns the timeline of the measured steps. All ranks call this function together.
using Runner = std::function<runtime::Attempt<program::Timeline>(
    const program::Program& program, int warmup_steps, int measured_steps)>;

// Returns this rank's records of a benchmark as bytes, which are sent to rank 0.
std::string PackRecords(const Benchmark& benchmark, const program::Timeline& timeline);

// Returns the samples of each probe, in seconds, from the packed records of all ranks. Because a
// step waits for the slowest rank, kPeriod and kIssue use the samples of the rank with the longest
// median. `steps` is the number of measured steps. Returns a Failure if records are missing.
runtime::Attempt<std::vector<std::vector<double>>> SamplesOf(
    const Benchmark& benchmark, int steps, const std::vector<std::string>& packed);

// Functions that return benchmark programs, which are valid (program/validator.h).

// Returns an m x n x k matrix multiplication. With kWeightGradient, the result is FP32.
Kernel Product(DataType type, std::int64_t m, std::int64_t n, std::int64_t k,
               ProductLayout layout = ProductLayout::kForward);
// Returns a memory-bound kernel that reads half of `bytes` and writes the other half.
Kernel MemoryKernel(Bytes bytes);
// Returns a causal attention kernel, or its backward kernel with 2.5 times the FLOPs.
Kernel AttentionKernel(KernelKind kind, DataType type, std::int64_t heads, std::int64_t sequence,
                       std::int64_t head_size);

// Returns a benchmark that runs each kernel 1 + `repetitions` times in a row. Each kernel has one
// probe.
Benchmark KernelBenchmark(const std::vector<Kernel>& kernels, int repetitions);

// Returns a benchmark of fused AdamW with one probe per element of `elements` (numbers of FP32
// parameters). As after forward and backward, the operands are not in the device's cache: all
// operands together have at least four times the size `cache`.
Benchmark OptimizerBenchmark(const std::vector<std::int64_t>& elements, Bytes cache,
                             int repetitions);
// Returns the bytes that AdamW moves. It reads the parameter, the gradient and two moments, and
// writes all except the gradient.
constexpr Bytes OptimizerBytes(std::int64_t elements) { return Bytes(28 * elements); }

Benchmark CopyBenchmark(program::CopyDirection direction, const std::vector<Bytes>& sizes,
                        int repetitions);
// Returns a benchmark of concurrent copies in both directions between host and device, on two
// streams. The probes are the copies to the device and the copies from the device.
Benchmark TwoWayCopyBenchmark(Bytes size, int repetitions);

// Returns a benchmark of many tiny kernels, then many tiny collectives, issued faster than they
// run. The probes are the device time per kernel, and the host time to issue a kernel and a
// collective. A group of one rank has no collectives, because libraries may skip their
// communication.
Benchmark LaunchBenchmark(const std::vector<int>& group);

// Returns a benchmark of successive collectives of one kind, with one probe per size. Before each
// collective, the compute stream pauses and the communication stream waits for it; afterward, the
// compute stream waits for the collective. As in a training step, ranks start at slightly different
// times.
//
// `groups` must include the group of `rank`. Sizes are as in nccl-tests, in multiples of 4 x ranks
// bytes. Values are FP32, averaged, and never zero. send_recv is an exchange in which each rank
// sends to the next rank, like pipeline stages.
Benchmark CollectiveBenchmark(CollectiveKind kind, const std::vector<Bytes>& sizes,
                              const std::vector<std::vector<int>>& groups, int rank);

// Returns a benchmark that runs a kernel `kernels` times on one stream and, concurrently, a
// collective `collectives` times on another stream. `kernels` or `collectives` may be zero. The
// probes are the kernel and the collective, in this order; an operation that does not run has no
// probe.
Benchmark OverlapBenchmark(const Kernel& kernel, int kernels, CollectiveKind kind, Bytes size,
                           int collectives, const std::vector<int>& group, int rank);

// Numbers of repetitions with which a sequence of kernels and a sequence of collectives take equal
// time. Each sequence takes at least 0.2 s and has at least 4 operations, and not more than 300
// unless equal times require more.
struct Chains {
  int kernels = 0, collectives = 0;
};
Chains ChainsBeside(double kernel, double collective);

// Returns a function that runs benchmarks on a backend, each on a new device. All arguments must
// outlive this function. If a benchmark fails, the watch ends the run.
Runner RunOn(runtime::Backend& backend, runtime::Job& job, runtime::Watch& watch);

}  // namespace stepcast::calibrate
