#pragma once

#include "src/base/stop.h"

// Ctrl-C in a command that can end early with an answer.
namespace stepcast::cli {

// While one lives, the first SIGINT requests the stop instead of ending the process. At most one at
// a time.
class StopAtInterrupt {
 public:
  explicit StopAtInterrupt(StopFlag& flag);
  ~StopAtInterrupt();
  StopAtInterrupt(const StopAtInterrupt&) = delete;
  StopAtInterrupt& operator=(const StopAtInterrupt&) = delete;
};

// In a signal handler: whether the signal was taken so.
bool TakeInterrupt(int signal);

}  // namespace stepcast::cli
