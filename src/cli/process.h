#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/stop.h"
#include "src/cli/hardware_request.h"

namespace stepcast::cli {

// The process: signals, file descriptors, memory, exit status.

struct ProcessParts {
  // Called with the words of the command line.
  std::function<HardwareAccess(const std::vector<std::string>& arguments)> hardware;
  // Whether other code, such as a watch over ranks, ends the process for this signal. Called in a
  // signal handler. Null: none.
  bool (*take_signal)(int signal) = nullptr;
};

// The main function of each program.
int RunProcess(int count, char** words, const ProcessParts& parts);

// Ctrl-C in a command that can end early with an answer.

// While an object lives, the first SIGINT requests a stop instead of ending the process. At most
// one at a time.
class StopAtInterrupt {
 public:
  explicit StopAtInterrupt(StopFlag& flag);
  ~StopAtInterrupt();
  StopAtInterrupt(const StopAtInterrupt&) = delete;
  StopAtInterrupt& operator=(const StopAtInterrupt&) = delete;
};

// For signal handlers: whether the signal was handled as a request to stop.
bool TakeInterrupt(int signal);

// For the program stepcast: each command is handed over to stepcast-hardware, the program in the
// same folder, with the same arguments. Sweeps and searches are handed over only if mpirun or srun
// started several ranks. Errors: command.no-hardware.
HardwareAccess HandedOver(std::vector<std::string> arguments);

}  // namespace stepcast::cli
