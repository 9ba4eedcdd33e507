#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "src/program/program.h"
#include "src/runtime/launch.h"
#include "src/runtime/watch.h"

// One rank of a job that is attacked: job_of_ranks [SECONDS]. Meets the others as commands do, is
// watched, adds numbers up with them for so many rounds a second apart, and prints "sum N, X KiB":
// the sum that all agree on, and the most memory that this process had.
namespace stepcast {
namespace {

void Say(const std::string& sentence) { fmt::print(stderr, "stepcast: {}\n", sentence); }

long PeakKibibytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::atol(line.c_str() + 6);
  }
  return 0;
}

int Run(int rounds) {
  auto launch = runtime::FindLaunch([](const char* name) { return std::getenv(name); });
  if (!launch) {
    std::fputs(Format(launch.error()).c_str(), stderr);
    return 2;
  }
  launch->rendezvous.note = Say;
  auto limit = std::make_unique<runtime::StartLimit>(*launch);
  auto job = runtime::Join(*launch);
  if (!job) {
    Say(job.error().message);
    return 1;
  }
  runtime::WatchOptions options;
  options.note = Say;
  auto watch = runtime::Watch::OverJob(**job, options, [](int, const std::string& sentence) {
    if (!sentence.empty()) Say(sentence);
  });
  if (!watch) {
    Say(watch.error().message);
    return 1;
  }
  limit.reset();
  const int rank = (*job)->place().rank;
  (*watch)->SetStage(rank, runtime::Stage::kReporting);
  const program::Program program;
  (*watch)->SetPrograms(std::vector<const program::Program*>(
      static_cast<std::size_t>((*job)->place().ranks), &program));
  long sum = 0;
  for (int round = 0; round <= rounds; ++round) {
    if (round > 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    const auto all = (*job)->Gather(std::to_string(rank + 1));
    if (!all) (*watch)->Fail(rank, all.error());
    long own = 0;
    for (const std::string& number : *all) own += std::atol(number.c_str());
    const auto told = (*job)->Broadcast(std::to_string(own));
    if (!told) (*watch)->Fail(rank, told.error());
    sum += std::atol(told->c_str());
  }
  if (const auto met = (*job)->Barrier(); !met) (*watch)->Fail(rank, met.error());
  (*watch)->Finish();
  fmt::print("sum {}, {} KiB\n", sum, PeakKibibytes());
  return 0;
}

}  // namespace
}  // namespace stepcast

int main(int count, char** words) {
  ::signal(SIGPIPE, SIG_IGN);
  return stepcast::Run(count > 1 ? std::atoi(words[1]) : 0);
}
