#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/block_buffer.h"
#include "src/base/diagnostic.h"

// The events of a PyTorch profiler trace (Chrome trace JSON) that are read for any purpose: steps,
// operators, launches, kernels and waits of the host. kineto.h makes layers from them.
// traced_rank.h describes what a device did in a step. Traces that stepcast writes can also be
// read.
namespace stepcast::formats {

// A time in picoseconds since the first event of the file. The trace itself states microseconds
// since 1970, with fractions.
using Moment = std::int64_t;

// An operator that has a sequence number of autograd. Other operators are ignored.
struct KinetoOperator {
  std::int64_t thread = 0;
  Moment start = 0, end = 0;
  std::optional<std::int64_t> sequence;
  std::int64_t elements = 0;  // of its first input; 0: not recorded
  std::int32_t node = -1;     // engine's event: index in KinetoTrace::nodes; -1: another operator
  bool accumulates = false;   // AccumulateGrad itself
};

enum class KinetoWork : std::uint8_t { kKernel, kCopy, kSet };

// An operation that a stream ran: a kernel, a copy or a memset.
struct KinetoKernel {
  Moment start = 0, end = 0;
  // The start and the end of the host's call that launched the operation. If the trace has no such
  // call, both equal `start`.
  Moment launch = 0, launched = 0;
  bool launch_known = false;
  std::int64_t correlation = 0;
  std::int32_t name = 0;         // index in KinetoTrace::names
  std::int32_t collective = -1;  // NCCL kernel: index in KinetoTrace::collectives
  std::int32_t step = -1;        // of traces that stepcast writes: the step; otherwise -1
  Moment waited = 0;             // of those: how long its stream waited for other ranks before
  std::int32_t process = 0;
  KinetoWork work = KinetoWork::kKernel;
  bool optimizer = false;  // of traces that stepcast writes: its phase
  bool nccl() const { return collective >= 0; }
};

// The collective of an NCCL kernel, as the trace describes it. Texts are escaped. An empty text or
// 0 means that the trace does not record the value.
struct KinetoCollective {
  std::string collective;  // "allreduce", as the trace names it
  std::string data_type;   // "Float"
  std::string group;       // "Process Group Description": "default_pg", "data"
  std::string ranks;       // "Process Group Ranks": "[0, 1, 2, 3]"
  std::int64_t elements = 0;
  std::int64_t group_size = 0;
};

struct KinetoAnnotation {
  std::int64_t number = 0;
  Moment start = 0, end = 0;
};

// A reason why the host does not launch operations.
enum class KinetoHost : std::uint8_t {
  kDataLoading,  // next() of the data loader, and host tasks of that name
  kAllocator,    // cudaMalloc, cudaFree and similar calls
  kWaiting,      // cudaStreamSynchronize and similar: the host waits for the device
};
struct KinetoHostSpan {
  KinetoHost what = KinetoHost::kWaiting;
  Moment start = 0, end = 0;
};

struct KinetoTrace {
  std::vector<KinetoAnnotation> steps;    // ProfilerStep#N, by start
  std::vector<KinetoAnnotation> updates;  // of the optimizer, by start
  std::vector<KinetoOperator> operators;  // by start
  std::vector<KinetoKernel> kernels;      // by launch
  std::vector<KinetoCollective> collectives;
  std::vector<KinetoHostSpan> host;  // by start
  std::vector<std::string> nodes;    // "AddmmBackward0", distinct names of autograd's
  std::vector<std::string> names;    // of kernels, distinct, escaped
  std::optional<std::int64_t> rank;  // of distributedInfo
};

// A step on the host. It ends when the next step begins. The last step ends with its annotation. If
// there are no step annotations, a step ends with the optimizer's annotation, or the whole trace is
// one step.
struct KinetoStep {
  std::int64_t number = 0;
  Moment begin = 0, end = 0;
};
std::vector<KinetoStep> StepsOf(const KinetoTrace& trace);

// The limits of the data in memory. They are many times the data of one step of a large model.
inline constexpr std::size_t kMostKinetoEvents = 4'000'000;
inline constexpr std::size_t kMostKinetoCollectives = 500'000;
inline constexpr std::size_t kMostKinetoLayers = 100'000;

// Reads a trace. Only the current block of the text, and the data needed from its events, are kept
// in memory. Mistakes: file.not-json, kineto.too-many, json.too-deep.
Result<KinetoTrace> ReadKinetoTrace(const TextBlocks& blocks, const std::string& file);
Result<KinetoTrace> ReadKinetoTrace(std::string_view text, const std::string& file);

// These functions return mistakes: for a trace without any event of a step, and for a trace that is
// too large.
tl::unexpected<Diagnostics> NoKinetoStep(const std::string& file);
tl::unexpected<Diagnostics> TooManyKinetoEvents(const std::string& file);

// Returns the text in lower case.
std::string LowerCase(std::string text);

}  // namespace stepcast::formats
