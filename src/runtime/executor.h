#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/runtime/device.h"
#include "src/runtime/job.h"

// Runs a step program on one rank's device: the prologue once, then warm-up steps, then measured
// ones, issuing in host order what the simulator issues in virtual time.
namespace stepcast::runtime {

// Where the run is, for whoever watches over it from another thread (watch.h).
struct Progress {
  std::atomic<std::uint64_t> operations = 0;      // finished so far
  std::atomic<std::uint32_t> step = 0;            // being issued
  std::atomic<program::Index> instruction = program::kNone;  // being issued or waited for
};

struct ExecuteOptions {
  int warmup_steps = 2;
  int measured_steps = 5;
  // Every rank waits for all others between steps, so that each step is measured alone
  // (training.step_barrier); otherwise steps follow one another as in training.
  bool barrier = false;
  bool graph = false;  // capture the step once and replay it
};

// One rank's measured run.
struct Measurement {
  // Steps are numbered from the first measured one; time zero is the common start of measuring.
  program::Timeline timeline;
  MemoryUse memory;
};

// All ranks call this together. `program` is this rank's; the device was made for it.
Attempt<Measurement> Execute(const program::Program& program, Device& device, Job& job,
                             const ExecuteOptions& options, Progress& progress);

}  // namespace stepcast::runtime
