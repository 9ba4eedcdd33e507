#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/cli/hardware_access.h"

// The process: signals, descriptors, memory, exit status.
namespace stepcast::cli {

struct ProcessParts {
  // Called with the words of the command line.
  std::function<HardwareAccess(const std::vector<std::string>& arguments)> hardware;
  // Whether something else ends the process for this signal, such as a watch over ranks. Called in
  // a signal handler. Null: nothing does.
  bool (*take_signal)(int signal) = nullptr;
};

// The main function of a program.
int RunProcess(int count, char** words, const ProcessParts& parts);

}  // namespace stepcast::cli
