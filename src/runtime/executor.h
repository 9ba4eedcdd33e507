#pragma once

#include <cstdint>
#include <vector>

#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/runtime/device.h"
#include "src/runtime/job.h"
#include "src/runtime/progress.h"

// Runs a step program on one rank's device: the prologue once, then warm-up steps, then measured
// ones, issuing in host order what the simulator issues in virtual time.
//
// The host thread runs ahead of the device as far as the device's queue goes (device.h), and runs
// the program's host tasks itself, as sleeps of their duration.
//
// Clocks. Records are in the time of rank 0: time zero is an instant shortly after a barrier, at
// which all ranks start measuring. Ranks of one running machine (same boot) share CLOCK_MONOTONIC.
// The clock of another machine is compared with rank 0's in rounds over the Job, before and after
// the measured steps: rank 0 sends its time, the rank notes when it came and answers with its own
// time, rank 0 notes when that came. A message cannot arrive before it is sent, so each round
// bounds the offset from both sides; the middle between the tightest bounds is taken, which is
// wrong by at most half the shortest way there and back. Between the two comparisons the offset is
// taken to change evenly.
//
// A collective starts when its last member reaches it. No device knows when that is; the ranks tell
// each other afterwards when they were ready, and `start` of the record is the latest of them.
namespace stepcast::runtime {

// CLOCK_MONOTONIC, in nanoseconds since the machine started.
std::int64_t MonotonicNanoseconds();

// How far this rank's CLOCK_MONOTONIC was ahead of rank 0's, and when (by this rank's).
struct ClockOffset {
  std::int64_t ahead = 0;      // ns
  std::int64_t uncertain = 0;  // ns; the offset is at most this far off
  std::int64_t at = 0;         // ns
};

// All ranks of the job call this together. How it is measured: executor.h.
Attempt<ClockOffset> CompareClocks(Job& job);

// How fast this rank's clock gains on rank 0's, between two comparisons: seconds for each second.
double Drift(const ClockOffset& before, const ClockOffset& after);

struct ExecuteOptions {
  int warmup_steps = 2;
  int measured_steps = 5;
  // Every rank waits for all others between steps, so that each step is measured alone
  // (training.step_barrier); otherwise steps follow one another as in training.
  bool barrier = false;
  // Capture the step once and replay it. Fails when the device cannot, or when the host takes part
  // in the step (host tasks, waits of the host).
  bool graph = false;
};

// One rank's measured run.
struct Measurement {
  // Steps are numbered from the first measured one; time zero is the common start of measuring.
  program::Timeline timeline;
  MemoryUse memory;
};

// All ranks call this together. `program` is this rank's; the device was made for it. A Failure
// names the rank, the operation and the step, which counts from 1 and includes the warm-up. After
// one, partners in collectives may be stuck: the run is over, and so should be the process.
Attempt<Measurement> Execute(const program::Program& program, Device& device, Job& job,
                             const ExecuteOptions& options, Progress& progress);

}  // namespace stepcast::runtime
