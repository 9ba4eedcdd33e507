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

// Why a step takes as long as it does and needs as much memory: what `explain` prints.
namespace stepcast::forecast {

// The chain of operations, each of which could not start before the one before it had ended, that
// leads to the end of a step: make something on it shorter and the step may become shorter; make
// anything else shorter and it does not.

enum class PathPartKind : std::uint8_t {
  kOperation,  // a kernel, copy, collective or host task runs
  kHost,       // the host issues instructions; the device has nothing to do before it does
  kPartners,   // a collective waits for ranks that have not reached it
  kStall,      // nothing that the timeline shows
};

struct PathPart {
  PathPartKind kind = PathPartKind::kStall;
  program::Index instruction = program::kNone;  // kOperation, kPartners: which
  Time start, end;
};

// The path through [start, end) of one rank's timeline, first part first. Parts follow one another
// without a gap and add up to end - start; one that began before `start` is cut there.
std::vector<PathPart> CriticalPath(const program::Program& program,
                                   const program::Timeline& timeline, Time start, Time end);

// The critical path's time of one kind.
struct PathShare {
  std::string operation;  // "matrix products", "all_gather data", "host", ...
  std::string bound_by;   // "compute", "device memory", "network", "latency", ...; "" : nothing
  Time time;
  Time slowed;  // the part that other operations beside it cost
};

struct ExposedCollective {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  std::string group;
  std::int64_t calls = 0;  // that are exposed
  Time exposed;
  std::vector<std::pair<std::string, Time>>
      largest;  // where they belong (layer, bucket), at most three
};

// Buffers alive at the peak whose names differ in numbers alone.
struct PeakContent {
  std::string name;  // "h.*/attn.q_proj output"
  program::Category category = program::Category::kActivation;
  std::int64_t count = 0;
  Bytes total;
};

struct LayerMemory {
  std::string layer;  // what of a buffer's name stands before the first '/'
  Bytes total;
};

struct Explanation {
  Forecast forecast;
  std::vector<PathShare> path;             // largest first; adds up to path_length
  Time path_length;                        // the step that is explained
  std::vector<ExposedCollective> exposed;  // largest first
  // How many times as fast collectives must send for exposed communication to be at most
  // kHiddenPart of the step; nothing if they never can.
  std::optional<double> speed_that_hides;
  std::vector<WhatIf> what_if;        // at kFaster, most helpful first
  std::vector<PeakContent> contents;  // largest first; adds up to memory.peak
  std::vector<LayerMemory> layers;    // largest first; adds up to memory.peak
};

inline constexpr double kFaster = 1.1;
inline constexpr double kHiddenPart = 0.01;

// Errors: as Simulate.
Result<Explanation> Explain(const scenario::Scenario& scenario);

}  // namespace stepcast::forecast
