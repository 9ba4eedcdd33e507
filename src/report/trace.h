#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "src/forecast/forecast.h"
#include "tl/expected.hpp"

// A run as Chrome trace JSON (the "Trace Event Format"): opens in Perfetto and chrome://tracing,
// and carries what Holistic Trace Analysis reads from a profiler's trace.
namespace stepcast::report {

// Takes the next bytes of the trace; an error ends the writing.
using TraceSink = std::function<tl::expected<void, std::string>(std::string_view)>;

struct TraceSubject {
  std::string scenario;
  int rank = 0;   // whose timeline it is; it stands for all ranks of its class
  int ranks = 1;  // of the whole job
};

// One process, "rank R", with these tracks:
//  * steps: the intervals between the ends of successive steps; the forecast's own is marked.
//  * host: what the CPU issues (as long as that takes time), host tasks, and waits for the device.
//  * one per stream: kernels, copies and collectives. A collective's name starts with "nccl";
//    args say how many bytes, by which algorithm, and where its time comes from.
//  * counters of allocated memory by category, in host time, when the allocator sees it.
//  * arrows from the operation that an event marks to the first operation of another stream, or
//    the host's wait, that waited for it.
// Slices of one track never overlap. Times are microseconds with six digits after the point, so
// every picosecond is kept. Same run, same bytes. Memory use does not grow with the text.
tl::expected<void, std::string> WriteTrace(const forecast::Run& run, const TraceSubject& subject,
                                           const TraceSink& sink);

}  // namespace stepcast::report
