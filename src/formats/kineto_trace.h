#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/block_buffer.h"
#include "src/base/diagnostic.h"

// The events of a PyTorch profiler trace (Chrome trace JSON): steps, operators, launches, kernels,
// and waits of the host. kineto.h and traced_rank.h use the events. Traces written by stepcast are
// also accepted.
namespace stepcast::formats {

// A time in picoseconds since the first event of the file. (Times in the file are microseconds
// since 1970.)
using Moment = std::int64_t;

// An operator with an autograd sequence number. Other operators are ignored.
struct KinetoOperator {
  std::int64_t thread = 0;
  Moment start = 0, end = 0;
  std::optional<std::int64_t> sequence;
  std::int64_t elements = 0;  // number of elements of the first input; 0: not recorded
  std::int32_t node = -1;     // autograd engine: index in KinetoTrace::nodes; else -1
  bool accumulates = false;   // whether this is AccumulateGrad
};

enum class KinetoWork : std::uint8_t { kKernel, kCopy, kSet };

// An operation on a stream: a kernel, a copy or a memset.
struct KinetoKernel {
  Moment start = 0, end = 0;
  // Start and end of the host call that launched the operation. If the trace lacks this call, both
  // are `start`.
  Moment launch = 0, launched = 0;
  bool launch_known = false;
  std::int64_t correlation = 0;
  std::int32_t name = 0;         // index in KinetoTrace::names
  std::int32_t collective = -1;  // NCCL: index in KinetoTrace::collectives; else -1
  std::int32_t step = -1;        // step number in a trace written by stepcast; otherwise -1
  Moment waited = 0;             // only from stepcast: preceding wait for other ranks
  std::int32_t process = 0;
  KinetoWork work = KinetoWork::kKernel;
  bool optimizer = false;  // only from stepcast: the phase is the optimizer
  bool nccl() const { return collective >= 0; }
};

// The collective of an NCCL kernel, with the values in the trace. Texts are escaped. An empty text
// or 0: not recorded.
struct KinetoCollective {
  std::string collective;  // name in the trace, such as "allreduce"
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

// Host activities other than launches of operations.
enum class KinetoHost : std::uint8_t {
  kDataLoading,  // next() of the data loader, and host tasks for data loading
  kAllocator,    // cudaMalloc, cudaFree and similar calls
  kWaiting,      // cudaStreamSynchronize and similar calls, which wait for the device
};
struct KinetoHostSpan {
  KinetoHost what = KinetoHost::kWaiting;
  Moment start = 0, end = 0;
};

struct KinetoTrace {
  std::vector<KinetoAnnotation> steps;    // ProfilerStep#N, sorted by start
  std::vector<KinetoAnnotation> updates;  // updates by the optimizer, sorted by start
  std::vector<KinetoOperator> operators;  // sorted by start
  std::vector<KinetoKernel> kernels;      // sorted by launch
  std::vector<KinetoCollective> collectives;
  std::vector<KinetoHostSpan> host;  // sorted by start
  std::vector<std::string> nodes;    // distinct names of autograd nodes, such as "AddmmBackward0"
  std::vector<std::string> names;    // distinct names of kernels, escaped
  std::optional<std::int64_t> rank;  // the rank in distributedInfo
};

// A step on the host. A step ends when the next step begins; the last step ends with its
// annotation. Without step annotations, a step ends with the optimizer's annotation. A trace
// without step and optimizer annotations is one step.
struct KinetoStep {
  std::int64_t number = 0;
  Moment begin = 0, end = 0;
};
std::vector<KinetoStep> StepsOf(const KinetoTrace& trace);

// Limits on the data in memory, many times the data of one step of a large model.
inline constexpr std::size_t kMostKinetoEvents = 4'000'000;
inline constexpr std::size_t kMostKinetoCollectives = 500'000;
inline constexpr std::size_t kMostKinetoLayers = 100'000;

// Reads a trace. Stores only the current block of the text and the needed event data. Errors:
// file.not-json, kineto.too-many, json.too-deep.
Result<KinetoTrace> ReadKinetoTrace(const TextBlocks& blocks, const std::string& file);
Result<KinetoTrace> ReadKinetoTrace(std::string_view text, const std::string& file);

// Return the errors for a trace without events of a step, and for a trace that is too large.
tl::unexpected<Diagnostics> NoKinetoStep(const std::string& file);
tl::unexpected<Diagnostics> TooManyKinetoEvents(const std::string& file);

// Returns the text in lower case.
std::string LowerCase(std::string text);

}  // namespace stepcast::formats
