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

// A microbenchmark is a small step program whose operations the runtime times as in a training
// step. Measured times therefore include the same overheads as in training, on every backend.

// The rule by which the records of operations become samples.
enum class Rule : std::uint8_t {
  // A rule for consecutive operations of one stream. A sample is the time from the end of one
  // operation to the end of the next. This is the operation's share of its stream's time, including
  // gaps. The first operation only warms up. An operation that was issued after the end of the
  // previous one waited for the host. It is not a sample, unless all operations waited.
  kPeriod,
  // Each collective is a sample, from the time at which its last member is ready to the end of its
  // last part. Ranks' clocks may differ a little. The sample is therefore limited to the range
  // between the shortest and the longest time that a member measured.
  kCollective,
  // Each step is a sample: the host's time to issue an operation, which is the slope of a robust
  // line.
  kIssue,
};

// The operations of a step from which one quantity is measured.
struct Probe {
  Rule rule = Rule::kPeriod;
  std::vector<program::Index> operations;  // indices in Program::step, ascending
};

struct Benchmark {
  program::Program program;
  std::vector<Probe> probes;
  // The disjoint groups that run the operations at the same time, as global ranks. Only for
  // kCollective.
  std::vector<std::vector<int>> groups;
};

// A function that runs a program on this rank's device: the prologue, `warmup_steps` steps, then
// `measured_steps` steps. It returns the timeline of the measured steps. All ranks call it
// together.
using Runner = std::function<runtime::Attempt<program::Timeline>(
    const program::Program& program, int warmup_steps, int measured_steps)>;

// Returns this rank's records of a benchmark as bytes, which are sent to rank 0.
std::string PackRecords(const Benchmark& benchmark, const program::Timeline& timeline);

// Returns the samples of each probe, in seconds, from the packed records of all ranks. For rules
// that concern a single rank, the rank with the longest median is used, because a step waits for
// the slowest rank. `steps` is the number of measured steps. Missing records are a Failure.
runtime::Attempt<std::vector<std::vector<double>>> SamplesOf(
    const Benchmark& benchmark, int steps, const std::vector<std::string>& packed);

// The step programs to be measured. All are valid (program/validator.h).

// Returns an m x n x k matrix product. With kWeightGradient, its results are FP32.
Kernel Product(DataType type, std::int64_t m, std::int64_t n, std::int64_t k,
               ProductLayout layout = ProductLayout::kForward);
// Returns a memory-bound kernel that reads half of `bytes` and writes the other half.
Kernel MemoryKernel(Bytes bytes);
// Returns a causal attention kernel, or its backward, which has 2.5 times the flops. Flops are
// counted as in src/model.
Kernel AttentionKernel(KernelKind kind, DataType type, std::int64_t heads, std::int64_t sequence,
                       std::int64_t head_size);

// Returns a benchmark that runs each kernel 1 + `repetitions` times in a row. It has one probe per
// kernel.
Benchmark KernelBenchmark(const std::vector<Kernel>& kernels, int repetitions);

// Returns a benchmark of fused AdamW. Each element of `elements` is a number of FP32 parameters,
// with one probe. Each size uses memory that has not been accessed for a long time, as in a
// training step after forward and backward. The memory used in total is at least four times the
// device's `cache`.
Benchmark OptimizerBenchmark(const std::vector<std::int64_t>& elements, Bytes cache,
                             int repetitions);
// Returns the bytes that AdamW moves. Parameter, gradient and two moments are read; all but the
// gradient are written.
constexpr Bytes OptimizerBytes(std::int64_t elements) { return Bytes(28 * elements); }

Benchmark CopyBenchmark(program::CopyDirection direction, const std::vector<Bytes>& sizes,
                        int repetitions);
// Returns a benchmark of copies in both directions between host and device at once, on two streams.
// It has two probes: copies to the device, and copies from the device.
Benchmark TwoWayCopyBenchmark(Bytes size, int repetitions);

// Returns a benchmark of many tiny kernels, then many tiny collectives, issued faster than they
// run. Its probes are the device's time per kernel, the host's time to issue a kernel, and the
// host's time to issue a collective. In a group of one rank, collectives and their probe are
// omitted, because a library may then skip communication.
Benchmark LaunchBenchmark(const std::vector<int>& group);

// Returns a benchmark of collectives of one kind, one after another. It has one probe per size. The
// compute stream pauses, the communication stream waits for it, the collective runs, and the
// compute stream waits for the collective. Ranks therefore reach each collective as in a training
// step: the previous collective synchronizes them, then computation spreads them.
//
// `group` is this rank's group in `groups`. Sizes are counted as in nccl-tests and are multiples of
// 4 x ranks bytes. Values are FP32, averaged, and never zero. send_recv is an exchange in which
// each rank sends to the next rank, like pipeline stages.
Benchmark CollectiveBenchmark(CollectiveKind kind, const std::vector<Bytes>& sizes,
                              const std::vector<std::vector<int>>& groups, int rank);

// Returns a benchmark that runs a kernel `kernels` times on one stream and, concurrently, a
// collective `collectives` times on another stream. One of the two counts may be zero. The probes
// are the kernel, then the collective, if present.
Benchmark OverlapBenchmark(const Kernel& kernel, int kernels, CollectiveKind kind, Bytes size,
                           int collectives, const std::vector<int>& group, int rank);

// The numbers of repetitions that make two chains of operations equally long, given the seconds per
// operation. Chains take at least 0.2 s and have at least 4 repetitions of each operation. They
// have more than 300 only if equal lengths require it.
struct Chains {
  int kernels = 0, collectives = 0;
};
Chains ChainsBeside(double kernel, double collective);

// Returns a runner of benchmarks on a backend. It creates a new device for each benchmark. All
// arguments must outlive the runner. If an execution fails, the watch ends the run.
Runner RunOn(runtime::Backend& backend, runtime::Job& job, runtime::Watch& watch);

}  // namespace stepcast::calibrate
