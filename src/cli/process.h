#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/stop.h"
#include "src/cli/hardware_request.h"

namespace stepcast::cli {

// Handles what concerns the whole process: signals, file descriptors, memory and the exit status.

struct ProcessParts {
  // Returns the commands that need hardware. `arguments` are the words of the command line.
  std::function<HardwareAccess(const std::vector<std::string>& arguments)> hardware;
  // Returns whether other code, such as a watch over ranks, ends the process after this signal.
  // Called in a signal handler. Null: there is no such code.
  bool (*take_signal)(int signal) = nullptr;
};

// The main function of each program.
int RunProcess(int count, char** words, const ProcessParts& parts);

// Lets Ctrl-C end a command early with an answer.

// While an object of this class exists, the first SIGINT requests a stop through `flag` instead of
// ending the process. Only one object may exist at once.
class StopAtInterrupt {
 public:
  explicit StopAtInterrupt(StopFlag& flag);
  ~StopAtInterrupt();
  StopAtInterrupt(const StopAtInterrupt&) = delete;
  StopAtInterrupt& operator=(const StopAtInterrupt&) = delete;
};

// Returns whether the signal was handled as a request to stop. For signal handlers.
bool TakeInterrupt(int signal);

// Returns functions for the program stepcast. Each of them runs its command in stepcast-hardware,
// the program in the same folder, with the same arguments. Sweeps and searches are handed over only
// if mpirun or srun started several ranks. Errors: command.no-hardware.
HardwareAccess HandedOver(std::vector<std::string> arguments);

}  // namespace stepcast::cli
