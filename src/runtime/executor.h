#pragma once

#include <cstdint>
#include <vector>

#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/runtime/device.h"
#include "src/runtime/job.h"

// Runs a step program on one rank's device: the prologue once, then warm-up steps, then measured
// steps. The executor issues the same instructions in the same order as the simulator.
//
// The host thread runs ahead of the device as far as the device's queue allows (device.h). It runs
// the program's host tasks itself, as sleeps of their duration.
//
// Clocks. Records use the time of rank 0. Time zero is shortly after a barrier, when all ranks
// start measuring. Ranks on one machine (same boot) share CLOCK_MONOTONIC. The clock of another
// machine is compared with rank 0's in rounds over the Job, before and after the measured steps. In
// a round, rank 0 sends its time; the other rank notes when the message arrived and answers with
// its own time; rank 0 notes when the answer arrived. A message cannot arrive before it is sent, so
// each round gives a lower and an upper bound of the offset. The middle between the tightest bounds
// is used; its error is at most half the shortest round trip. The offset is interpolated linearly
// between the two comparisons.
//
// A collective starts when its last member is ready. No device knows that time, so ranks exchange
// their ready times afterward. The record's `start` is the latest of them.
namespace stepcast::runtime {

// Returns CLOCK_MONOTONIC, in nanoseconds since the machine started.
std::int64_t MonotonicNanoseconds();

// How far this rank's CLOCK_MONOTONIC is ahead of rank 0's, at time `at` of this rank's clock.
struct ClockOffset {
  std::int64_t ahead = 0;      // ns
  std::int64_t uncertain = 0;  // ns; the maximum error of `ahead`
  std::int64_t at = 0;         // ns
};

// Compares this rank's clock with rank 0's clock, by the method described above. All ranks of the
// job call this function together.
Attempt<ClockOffset> CompareClocks(Job& job);

// Returns the rate at which this rank's clock gains on rank 0's clock between two comparisons, in
// seconds per second.
double Drift(const ClockOffset& before, const ClockOffset& after);

struct ExecuteOptions {
  int warmup_steps = 2;
  int measured_steps = 5;
  // Whether all ranks wait for one another between steps, so that each step is measured separately
  // (training.step_barrier). If false, steps follow one another as in training.
  bool barrier = false;
  // Whether the step is captured once and then replayed. Execution fails if the device cannot do
  // so, or if the host takes part in the step (host tasks, host waits).
  bool graph = false;
};

// The measured steps of one rank.
struct Measurement {
  // The timeline of the measured steps. Step 0 is the first measured step. Time zero is the common
  // start of the measurement.
  program::Timeline timeline;
  MemoryUse memory;
};

// Executes the steps. All ranks call this function together. `program` is this rank's program, for
// which the device was created. A Failure names the rank, the operation and the step, counted from
// 1 and including warm-up steps. After a failure, other ranks may wait in collectives, so end the
// run and the process.
Attempt<Measurement> Execute(const program::Program& program, Device& device, Job& job,
                             const ExecuteOptions& options, Progress& progress);

}  // namespace stepcast::runtime
