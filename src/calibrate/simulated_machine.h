#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/calibrate/benchmark.h"
#include "src/runtime/job.h"

// A machine with known costs in virtual time, so that tests can compare calibration results with
// the true costs.
namespace stepcast::calibrate {

// The true costs, in seconds, and seconds per byte or flop.
struct Laws {
  double kernel_start = 2e-6;
  double memory = 1e-10;      // per byte read or written
  double optimizer = 2e-10;   // per byte read or written
  double arithmetic = 1e-12;  // per flop
  double copy_start = 5e-6;
  double copy = 4e-11;
  double collective_start = 2e-5;
  double collective = 1e-9;  // per byte, counted as in nccl-tests
  double issue = 1e-6;       // kernels and copies
  double issue_collective = 3e-6;
  double noise = 0;  // relative, for every operation, symmetric
};

// Runs programs with these costs. An operation's noise depends only on its content, its position
// and the step number. Fails after `runs` programs.
Runner SimulatedMachine(const Laws& laws, int runs = 1'000'000);

// Rank 0 of a job whose other ranks send the same bytes as rank 0.
class EchoJob : public runtime::Job {
 public:
  EchoJob(int ranks, int nodes);
  const runtime::Place& place() const override { return place_; }
  runtime::Attempt<void> Barrier() override { return {}; }
  // Returns rank 0's text for every rank, with "<node> <host>" replaced by that rank's own.
  runtime::Attempt<std::vector<std::string>> Gather(std::string bytes) override;
  runtime::Attempt<std::string> Broadcast(std::string bytes) override { return bytes; }

 private:
  runtime::Place place_;
};

}  // namespace stepcast::calibrate
