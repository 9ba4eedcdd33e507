#pragma once

#include "src/cli/hardware_run.h"
#include "src/cli/outcome.h"

namespace stepcast::cli {

struct ExecuteOptions {
  HardwareOptions hardware;
  bool json = false;
  std::string trace;      // file to write; empty: none
  std::string trace_dir;  // folder for a trace of each rank; empty: none
};

Outcome Execute(const ExecuteOptions& options);

}  // namespace stepcast::cli
