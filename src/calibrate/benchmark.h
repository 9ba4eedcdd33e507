#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/runtime/device.h"

// A microbenchmark is a small step program whose operations are timed by the runtime, in the same
// way as a training step's. So what is measured is what an operation costs there, on every backend.
namespace stepcast::calibrate {

// How the records of operations become samples.
enum class Rule : std::uint8_t {
  // Operations of one stream, one right behind the other: a sample is the time from the end of one
  // to the end of the next, which is what it adds to its stream, gaps between operations included.
  // The first only warms up. One that was issued after the end of the one before waited for the
  // host and is no sample, unless all did.
  kPeriod,
  // Each collective is a sample: from when the last member of its group has reached it until the
  // last member's part ends. Ranks' clocks may differ a little, so the sample is held between the
  // shortest and the longest of what members saw on their own clocks, where it must lie.
  kCollective,
  // One sample a step: the time per operation that the host spends to issue them, as the slope of a
  // robust line.
  kIssue,
};

// Which operations of the step tell about one figure.
struct Probe {
  Rule rule = Rule::kPeriod;
  std::vector<program::Index> operations;  // into Program::step, ascending
};

struct Benchmark {
  program::Program program;
  std::vector<Probe> probes;
  // kCollective: the groups that run them at the same time, global ranks; they are disjoint.
  std::vector<std::vector<int>> groups;
};

// Runs a program on this rank's device: the prologue, `warmup_steps`, then `measured_steps` whose
// timeline comes back. All ranks call it together.
using Runner = std::function<runtime::Attempt<program::Timeline>(
    const program::Program& program, int warmup_steps, int measured_steps)>;

// This rank's records of a benchmark, as they travel to rank 0.
std::string PackRecords(const Benchmark& benchmark, const program::Timeline& timeline);

// The samples of each probe, in seconds, from what all ranks packed. Of the rules that look at one
// rank alone, the rank counts whose median is the longest: a step waits for the slowest. `steps`
// were measured; records that are missing are a Failure.
runtime::Attempt<std::vector<std::vector<double>>> SamplesOf(
    const Benchmark& benchmark, int steps, const std::vector<std::string>& packed);

}  // namespace stepcast::calibrate
