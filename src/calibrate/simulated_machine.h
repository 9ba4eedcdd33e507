#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/calibrate/benchmark.h"
#include "src/runtime/job.h"

// A machine with known laws, in virtual time, to calibrate in tests: what calibration says can be
// held against what is true.
namespace stepcast::calibrate {

// Seconds, and seconds a byte or flop.
struct Laws {
  double kernel_start = 2e-6;
  double memory = 1e-10;      // a byte read or written
  double optimizer = 2e-10;   // likewise
  double arithmetic = 1e-12;  // a flop
  double copy_start = 5e-6;
  double copy = 4e-11;
  double collective_start = 2e-5;
  double collective = 1e-9;  // a byte by nccl-tests' convention
  double issue = 1e-6;       // kernels and copies
  double issue_collective = 3e-6;
  double noise = 0;  // relative, of every operation, even to both sides
};

// Runs programs by the laws. The noise of an operation depends on what it is, its place and the
// number of the step, and on nothing else. Stops with a Failure after `runs` programs.
Runner SimulatedMachine(const Laws& laws, int runs = 1'000'000);

// Rank 0 of a job whose other ranks do and say the same.
class EchoJob : public runtime::Job {
 public:
  EchoJob(int ranks, int nodes);
  const runtime::Place& place() const override { return place_; }
  runtime::Attempt<void> Barrier() override { return {}; }
  // Rank 0's text, from every rank; "<node> <host>" becomes that of each rank.
  runtime::Attempt<std::vector<std::string>> Gather(std::string bytes) override;
  runtime::Attempt<std::string> Broadcast(std::string bytes) override { return bytes; }

 private:
  runtime::Place place_;
};

}  // namespace stepcast::calibrate
