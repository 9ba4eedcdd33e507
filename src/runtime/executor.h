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
// The host thread runs ahead of the device as far as the device's queue allows (device.h). For a
// host task, the host thread sleeps for the task's duration.
//
// Records use the clock of rank 0. Time zero is shortly after a barrier, when all ranks start to
// measure. Ranks on one machine (same boot) share CLOCK_MONOTONIC. The clock of another machine is
// compared with rank 0's clock by messages of the Job, before and after the measured steps. In each
// round, rank 0 sends its time. The other rank records the time of arrival and answers with its own
// time. Rank 0 records when the answer arrives. A message cannot arrive before it is sent, so each
// round yields a lower and an upper bound of the offset. The offset is the middle between the
// tightest bounds; its error is at most half the shortest round trip. Between the two comparisons,
// the offset is interpolated linearly.
//
// A collective starts when its last member is ready. Because no device knows this time, ranks
// exchange their ready times after the run, and `start` of the record is the latest.
namespace stepcast::runtime {

// Returns CLOCK_MONOTONIC, in nanoseconds since the machine started.
std::int64_t MonotonicNanoseconds();

// The difference between CLOCK_MONOTONIC of this rank and CLOCK_MONOTONIC of rank 0, at time `at`
// of this rank's clock. Positive: this rank's clock is ahead.
struct ClockOffset {
  std::int64_t ahead = 0;      // ns
  std::int64_t uncertain = 0;  // ns; the maximum error of `ahead`
  std::int64_t at = 0;         // ns
};

// Compares this rank's clock with rank 0's clock, by the method at the top of this file. All ranks
// of the job call this function together.
Attempt<ClockOffset> CompareClocks(Job& job);

// Returns the drift of this rank's clock relative to rank 0's clock between two comparisons, in
// seconds per second. Positive: this rank's clock is faster.
double Drift(const ClockOffset& before, const ClockOffset& after);

struct ExecuteOptions {
  int warmup_steps = 2;
  int measured_steps = 5;
  // True: all ranks wait for each other between steps, so that each step is measured separately
  // (training.step_barrier). False: steps follow each other without a barrier, as in training.
  bool barrier = false;
  // Whether the step is captured once and then replayed. Execution fails if the device does not
  // support capture, or if the step has host tasks or host waits.
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
// which the device was created. A Failure contains the rank, the operation and the step (counted
// from 1, including warm-up steps). After a failure, other ranks may wait in collectives, so the
// caller must end the run and the process.
Attempt<Measurement> Execute(const program::Program& program, Device& device, Job& job,
                             const ExecuteOptions& options, Progress& progress);

}  // namespace stepcast::runtime
