#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/stop.h"
#include "src/cli/hardware_request.h"

namespace stepcast::cli {

// The program-specific parts of RunProcess. RunProcess handles signals, file descriptors, memory
// and the exit status.

struct ProcessParts {
  // Returns the commands that need hardware. `arguments` is the command line.
  std::function<HardwareAccess(const std::vector<std::string>& arguments)> hardware;
  // Returns whether other code, such as a watch over ranks, will end the process after this signal.
  // Called in a signal handler. May be null.
  bool (*take_signal)(int signal) = nullptr;
};

// The main function of each program.
int RunProcess(int count, char** words, const ProcessParts& parts);

// Ends a command early on Ctrl-C, with an answer.

// During the lifetime of this object, the first SIGINT requests a stop through `flag` instead of
// ending the process. Only one object may exist at a time.
class StopAtInterrupt {
 public:
  explicit StopAtInterrupt(StopFlag& flag);
  ~StopAtInterrupt();
  StopAtInterrupt(const StopAtInterrupt&) = delete;
  StopAtInterrupt& operator=(const StopAtInterrupt&) = delete;
};

// Returns whether the signal was handled as a request to stop. For use in signal handlers.
bool TakeInterrupt(int signal);

// Returns the commands for the program stepcast. Each command runs stepcast-hardware, a program in
// the same folder, with the same arguments. Sweeps and plan searches run stepcast-hardware only if
// mpirun or srun started several ranks. Errors: command.no-hardware.
HardwareAccess HandedOver(std::vector<std::string> arguments);

}  // namespace stepcast::cli
