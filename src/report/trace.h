#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/forecast/forecast.h"
#include "src/memory/account.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "tl/expected.hpp"

// Writes a run as Chrome trace JSON (the "Trace Event Format"), for Perfetto and chrome://tracing.
// The trace has the fields that Holistic Trace Analysis reads.
namespace stepcast::report {

// Writes the next bytes of the trace. After an error, the function is not called again.
using TraceSink = std::function<tl::expected<void, std::string>(std::string_view)>;

struct TraceSubject {
  std::string scenario;
  int rank = 0;   // the timeline's rank, which represents all ranks of its class
  int ranks = 1;  // number of ranks of the job
};

// The timeline of one rank, either forecast or measured. `prices` is null for a measured timeline.
struct TraceProcess {
  int id = 0;        // unique in the trace
  std::string name;  // "rank 3", "measured: rank 3 on node-1"
  const program::Program* program = nullptr;
  const program::Timeline* timeline = nullptr;
  memory::Account memory{};                    // source of the counters; without memory changes,
                                               // there are no counters
  const cost::Prices* prices = nullptr;        // sources of times, and cost of issues
  std::uint32_t first_step = 0;                // earlier steps are not written
  std::optional<std::uint32_t> last_step{};    // later steps are not written
  std::optional<std::uint32_t> marked_step{};  // the step that the report's figures describe
  Time shift{};                                // added to all times, to align processes
};

// Writes a trace.
//
// A process has these tracks:
//   - steps: the intervals between the ends of successive steps. The step that the figures describe
//     is marked "forecast".
//   - host: issues (if they take time; in a measurement, only their ends), host tasks, and waits
//     for the device.
//   - one per stream: kernels, copies and collectives. A collective's name starts with "nccl". Its
//     args contain bytes, algorithm, the source of its time, and the fields that analyzers need,
//     under Kineto's names ("Collective name", "In msg nelems", ...; pytorch,
//     torch/csrc/autograd/profiler_kineto.cpp).
//   - counters: allocated memory by category, at the host time at which the allocator sees each
//     change. If the peak is outside the written steps, counters extend to the step of the peak.
//   - arrows: from the operation before an event to the operation or host wait that waited for the
//     event, and from each send to its receive in another process.
//
// Slices of one track never overlap. Times are exact, in microseconds with six digits after the
// decimal point. If some times would be negative, all times are shifted together. Traces of equal
// runs are equal, byte by byte. Memory use does not depend on the length of the trace.
tl::expected<void, std::string> WriteTrace(std::span<const TraceProcess> processes,
                                           const TraceSubject& subject, const TraceSink& sink);

// Writes the trace of a forecast. Each class of ranks is one process, named "rank R" after the
// first rank of the class.
tl::expected<void, std::string> WriteTrace(const forecast::Run& run, const TraceSubject& subject,
                                           const TraceSink& sink, int steps = 1);

// Returns a class of the forecast as a process of a trace, with the described step and up to
// `steps` - 1 earlier steps, if they were simulated.
TraceProcess ForecastProcess(const forecast::Run& run, const forecast::ClassRun& own, int id,
                             std::string name, int steps = 1);
// Returns all classes of ranks as processes, named "rank R" after the first rank of the class.
std::vector<TraceProcess> ForecastProcesses(const forecast::Run& run, int steps = 1);

}  // namespace stepcast::report
