#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string_view>

#include "src/cli/process.h"

namespace stepcast::cli {
namespace {

std::atomic<StopFlag*> stopped{nullptr};

}  // namespace

StopAtInterrupt::StopAtInterrupt(StopFlag& flag) { stopped = &flag; }
StopAtInterrupt::~StopAtInterrupt() { stopped = nullptr; }

bool TakeInterrupt(int signal) {
  if (signal != SIGINT) return false;
  StopFlag* const flag = stopped.exchange(nullptr);
  if (flag == nullptr) return false;
  flag->Request();
  constexpr std::string_view kLine =
      "\nstepcast: ending with the best plan so far; Ctrl-C again ends without an answer\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kLine.data(), kLine.size());
  return true;
}

}  // namespace stepcast::cli
