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

// One rank's timeline: forecast, or measured (then without prices).
struct TraceProcess {
  int id = 0;        // unique in the trace
  std::string name;  // "rank 3", "measured: rank 3 on node-1"
  const program::Program* program = nullptr;
  const program::Timeline* timeline = nullptr;
  memory::Account memory{};              // of the timeline: counters; no changes: none are written
  const cost::Prices* prices = nullptr;  // where each time comes from, and what issues cost
  std::uint32_t first_step = 0;          // earlier ones are not written
  std::optional<std::uint32_t> last_step{};    // later ones are not written
  std::optional<std::uint32_t> marked_step{};  // the one that the figures describe
  Time shift{};  // added to all its times, to lay processes side by side
};

// A process has these tracks:
//  * steps: the intervals between the ends of successive steps; the one that the figures describe
//    is marked ("forecast").
//  * host: what the CPU issues (as long as that takes time), host tasks, and waits for the device.
//  * one per stream: kernels, copies and collectives. A collective's name starts with "nccl";
//    args say how many bytes, by which algorithm, and where its time comes from, and under Kineto's
//    names ("Collective name", "In msg nelems", ...; pytorch, torch/csrc/autograd/
//    profiler_kineto.cpp) what its analysers ask for.
//  * counters of allocated memory by category, in host time, when the allocator sees it. Where the
//    peak lies outside the steps that are written they reach as far as the step of the peak.
//  * arrows from the operation that an event marks to the first operation of another stream, or
//    the host's wait, that waited for it; and from each send to its receive in another process.
// Slices of one track never overlap. Times are microseconds with six digits after the point, so
// every picosecond is kept; where some would be below zero, all move up together. Same run, same
// bytes. Memory use does not grow with the text.
tl::expected<void, std::string> WriteTrace(std::span<const TraceProcess> processes,
                                           const TraceSubject& subject, const TraceSink& sink);

// A forecast alone: a process for each class of ranks, "rank R" of its first.
tl::expected<void, std::string> WriteTrace(const forecast::Run& run, const TraceSubject& subject,
                                           const TraceSink& sink, int steps = 1);

// A class of the forecast as a process of a trace: the step that the figures describe, and as many
// before it as make `steps`, if so many were run.
TraceProcess ForecastProcess(const forecast::Run& run, const forecast::ClassRun& own, int id,
                             std::string name, int steps = 1);
// All of them, "rank R" of their first ranks.
std::vector<TraceProcess> ForecastProcesses(const forecast::Run& run, int steps = 1);

}  // namespace stepcast::report
