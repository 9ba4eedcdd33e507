#include "tests/training/threaded_training.h"

#include <cstddef>
#include <thread>
#include <utility>

#include "src/runtime/executor.h"
#include "src/runtime/host/backend.h"
#include "src/runtime/job.h"
#include "src/validate/training_check.h"
#include "tests/proofs/data_flow_validator.h"

namespace stepcast::training {
namespace {

constexpr int kWarmup = 1;
constexpr int kMeasured = 2;

// The rank's weights after its steps, or a failure.
runtime::Attempt<std::string> Train(const program::Program& program, runtime::Job& job) {
  const auto backend = runtime::host::MakeHostBackend();
  runtime::DeviceOptions options;
  options.gradients = runtime::GradientRule::kSmallIntegers;
  auto device = backend->MakeDevice(program, job, options);
  if (!device) return tl::unexpected(device.error());
  runtime::Progress progress;
  const auto measured = runtime::Execute(
      program, **device, job, {.warmup_steps = kWarmup, .measured_steps = kMeasured}, progress);
  if (!measured) return tl::unexpected(measured.error());
  return validate::ReadWeights(program, **device);
}

}  // namespace

std::string WrongAfterTraining(const scenario::Scenario& scenario,
                               const std::vector<program::Program>& programs) {
  for (const program::Program& program : programs) {
    for (const std::string& flaw : program::ValidateDataFlow(program)) return flaw;
  }
  auto jobs = runtime::MakeThreadJobs(static_cast<int>(programs.size()));
  std::vector<runtime::Attempt<std::string>> weights(programs.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    threads.emplace_back([&, rank] { weights[rank] = Train(programs[rank], *jobs[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::string> read;
  for (runtime::Attempt<std::string>& own : weights) {
    if (!own) return own.error().message;
    read.push_back(*std::move(own));
  }
  const auto check =
      validate::CheckTraining(scenario, read, kWarmup + kMeasured, runtime::DeviceOptions().seed);
  if (!check) return check.error().message;
  if (!check->missing.empty()) return check->missing;
  if (check->bound != 0) return "the plan's means are not exact";
  return check->right() ? "" : check->example;
}

}  // namespace stepcast::training
