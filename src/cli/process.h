#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/stop.h"
#include "src/cli/hardware_request.h"

namespace stepcast::cli {

// The process: signals, descriptors, memory, exit status.

struct ProcessParts {
  // Called with the words of the command line.
  std::function<HardwareAccess(const std::vector<std::string>& arguments)> hardware;
  // Whether something else ends the process for this signal, such as a watch over ranks. Called in
  // a signal handler. Null: nothing does.
  bool (*take_signal)(int signal) = nullptr;
};

// The main function of a program.
int RunProcess(int count, char** words, const ProcessParts& parts);

// Ctrl-C in a command that can end early with an answer.

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

// For stepcast: each command becomes stepcast-hardware, the program beside this one, with the same
// arguments. Sweeps and searches do under mpirun or srun alone, where several ranks were started.
// Errors: command.no-hardware.
HardwareAccess HandedOver(std::vector<std::string> arguments);

}  // namespace stepcast::cli
