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

// A microbenchmark is a small step program. The runtime times its operations as in a training step,
// so measured times include the overheads of training on every backend.

// How the recorded times of operations become samples.
enum class Rule : std::uint8_t {
  // For consecutive operations of one stream: a sample is the time from the end of one operation to
  // the end of the next, including gaps. The first operation only warms up. An operation that was
  // issued after the end of the previous one waited for the host. Its time is not a sample, unless
  // all operations waited.
  kPeriod,
  // Each collective is one sample: the time from when its last member is ready to the end of its
  // last part. The clocks of ranks may differ a little. The sample is therefore limited to the
  // range between the shortest and the longest time that a member measured.
  kCollective,
  // Each step is one sample: the host's time to issue an operation, which is the slope of a robust
  // line fit.
  kIssue,
};

// The operations of a step that measure one value.
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

// Runs a program on this rank's device: the prologue, `warmup_steps` steps, then `measured_steps`
// steps. Returns the timeline of the measured steps. All ranks call this function together.
using Runner = std::function<runtime::Attempt<program::Timeline>(
    const program::Program& program, int warmup_steps, int measured_steps)>;

// Returns this rank's records of a benchmark as bytes, to send to rank 0.
std::string PackRecords(const Benchmark& benchmark, const program::Timeline& timeline);

// Returns the samples of each probe, in seconds, from the packed records of all ranks. For rules
// that apply to a single rank, the samples of the rank with the longest median are used, because a
// step waits for the slowest rank. `steps` is the number of measured steps. Missing records are a
// Failure.
runtime::Attempt<std::vector<std::vector<double>>> SamplesOf(
    const Benchmark& benchmark, int steps, const std::vector<std::string>& packed);

// The benchmark programs. All are valid (program/validator.h).

// Returns an m x n x k matrix multiplication. With kWeightGradient, the result is FP32.
Kernel Product(DataType type, std::int64_t m, std::int64_t n, std::int64_t k,
               ProductLayout layout = ProductLayout::kForward);
// Returns a memory-bound kernel that reads half of `bytes` and writes the other half.
Kernel MemoryKernel(Bytes bytes);
// Returns a causal attention kernel, or its backward kernel, which has 2.5 times the FLOPs. FLOPs
// are counted as in src/model.
Kernel AttentionKernel(KernelKind kind, DataType type, std::int64_t heads, std::int64_t sequence,
                       std::int64_t head_size);

// Returns a benchmark that runs each kernel 1 + `repetitions` times in a row. Each kernel has one
// probe.
Benchmark KernelBenchmark(const std::vector<Kernel>& kernels, int repetitions);

// Returns a benchmark of fused AdamW with one probe per element of `elements` (numbers of FP32
// parameters). Each size uses memory that was not accessed recently, as in a training step after
// forward and backward. The total memory is at least four times the device's `cache`.
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
// run. The probes are the device's time per kernel, and the host's times to issue a kernel and a
// collective. For a group of one rank, collectives are omitted, because a library may then skip
// communication.
Benchmark LaunchBenchmark(const std::vector<int>& group);

// Returns a benchmark of collectives of one kind, one after another, with one probe per size. The
// compute stream pauses, the communication stream waits for it, the collective runs, and the
// compute stream waits for the collective. As in a training step, ranks start each collective at
// slightly different times.
//
// `group` is this rank's group in `groups`. Sizes are defined as in nccl-tests and are multiples of
// 4 x ranks bytes. Values are FP32, averaged, and never zero. send_recv is an exchange in which
// each rank sends to the next rank, like pipeline stages.
Benchmark CollectiveBenchmark(CollectiveKind kind, const std::vector<Bytes>& sizes,
                              const std::vector<std::vector<int>>& groups, int rank);

// Returns a benchmark that runs a kernel `kernels` times on one stream and, concurrently, a
// collective `collectives` times on another stream. One of the two numbers may be zero. The probes
// are the kernel and the collective, in this order, if present.
Benchmark OverlapBenchmark(const Kernel& kernel, int kernels, CollectiveKind kind, Bytes size,
                           int collectives, const std::vector<int>& group, int rank);

// The numbers of repetitions for which a sequence of kernels and a sequence of collectives take
// equal time. Each sequence takes at least 0.2 s and has at least 4 operations. It has more than
// 300 operations only if equal times require it.
struct Chains {
  int kernels = 0, collectives = 0;
};
Chains ChainsBeside(double kernel, double collective);

// Returns a runner of benchmarks on a backend. The runner creates a new device for each benchmark.
// All arguments must outlive the runner. If an execution fails, the watch ends the run.
Runner RunOn(runtime::Backend& backend, runtime::Job& job, runtime::Watch& watch);

}  // namespace stepcast::calibrate
