#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/stop.h"
#include "src/cli/hardware_request.h"

namespace stepcast::cli {

// The process: signals, file descriptors, memory, exit status.

struct ProcessParts {
  // Returns the commands that need hardware. `arguments` are the words of the command line.
  std::function<HardwareAccess(const std::vector<std::string>& arguments)> hardware;
  // Returns whether other code, such as a watch over ranks, ends the process for this signal.
  // Called in a signal handler. Null: there is no such code.
  bool (*take_signal)(int signal) = nullptr;
};

// The main function of each program.
int RunProcess(int count, char** words, const ProcessParts& parts);

// Ctrl-C in a command that can end early with an answer.

// While an object exists, the first SIGINT requests a stop through `flag` instead of ending the
// process. Only one object may exist at once.
class StopAtInterrupt {
 public:
  explicit StopAtInterrupt(StopFlag& flag);
  ~StopAtInterrupt();
  StopAtInterrupt(const StopAtInterrupt&) = delete;
  StopAtInterrupt& operator=(const StopAtInterrupt&) = delete;
};

// For signal handlers. Returns whether the signal was handled as a request to stop.
bool TakeInterrupt(int signal);

// For the program stepcast. Each returned function runs its command in stepcast-hardware, the
// program in the same folder, with the same arguments. Sweeps and searches are handed over only if
// mpirun or srun started several ranks. Errors: command.no-hardware.
HardwareAccess HandedOver(std::vector<std::string> arguments);

}  // namespace stepcast::cli
