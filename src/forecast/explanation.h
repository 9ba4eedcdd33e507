#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/forecast/values.h"
#include "src/forecast/what_if.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/scenario/scenario.h"

// Explains the time and memory of a step: the output of `explain`.
namespace stepcast::forecast {

// The activity in a part of the critical path. The critical path is a chain of operations that ends
// with the step; each operation starts when the previous one ends. A step becomes shorter only if
// an operation on the path becomes shorter.

enum class PathPartKind : std::uint8_t {
  kOperation,  // a kernel, copy, collective or host task runs
  kHost,       // the device is idle while the host issues instructions
  kPartners,   // a collective waits for ranks that are not ready
  kStall,      // the timeline shows no cause
};

struct PathPart {
  PathPartKind kind = PathPartKind::kStall;
  program::Index instruction = program::kNone;  // instruction of kOperation and kPartners
  Time start, end;
};

// Returns the critical path through [start, end) of one rank's timeline, in order of time. The
// parts are contiguous. A part that began before `start` is cut at `start`.
std::vector<PathPart> CriticalPath(const program::Program& program,
                                   const program::Timeline& timeline, Time start, Time end);

// The total time of one kind of operation on the critical path.
struct PathShare {
  std::string operation;  // "matrix products", "all_gather data", "host", ...
  std::string bound_by;   // "compute", "device memory", "network", "latency", ...; may be empty
  Time time;
  Time slowed;  // the part of `time` that contention with other operations causes
};

struct ExposedCollective {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  std::string group;
  std::int64_t calls = 0;  // number of exposed calls
  Time exposed;
  std::vector<std::pair<std::string, Time>>
      largest;  // layers or buckets of the three calls with the longest exposed time
};

// Buffers that are alive at the memory peak and whose names differ only in numbers.
struct PeakContent {
  std::string name;  // "h.*/attn.q_proj output"
  program::Category category = program::Category::kActivation;
  std::int64_t count = 0;
  Bytes total;
};

struct LayerMemory {
  std::string layer;  // the part of buffer names before the first '/'
  Bytes total;
};

struct Explanation {
  Forecast forecast;
  std::vector<PathShare> path;             // sorted by time, largest first; adds up to path_length
  Time path_length;                        // equals the step time
  std::vector<ExposedCollective> exposed;  // sorted by exposed time, largest first
  // The factor by which collectives must be faster to reduce exposed communication to the fraction
  // kHiddenPart of the step. None if no factor is sufficient.
  std::optional<double> speed_that_hides;
  std::vector<WhatIf> what_if;        // gains if operations are kFaster times as fast, sorted
  std::vector<PeakContent> contents;  // sorted by size, largest first; adds up to memory.peak
  std::vector<LayerMemory> layers;    // sorted by size, largest first; adds up to memory.peak
};

inline constexpr double kFaster = 1.1;
inline constexpr double kHiddenPart = 0.01;

// Explains the step of a scenario. Errors: the errors of Simulate.
Result<Explanation> Explain(const scenario::Scenario& scenario);

}  // namespace stepcast::forecast
