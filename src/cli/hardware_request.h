#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/cli/outcome.h"

namespace stepcast::cli {

// What the command line asks of the commands that run on hardware. The structs know nothing of how
// it is done, so that a program which hands these commands over can read their options, too.

// What `execute` and `validate` have in common.
struct HardwareOptions {
  std::string scenario;
  std::vector<std::string> set;  // "KEY=VALUE"
  std::string backend;           // "host" or "cuda"
  int steps = 5;                 // that are measured
  int warmup = 2;
  bool barrier = false;  // as if the scenario said training.step_barrier
  bool graph = false;
  bool caching_pool = false;     // buffers as PyTorch's caching allocator places them
  bool check = false;            // small-integer gradients; compare the parameters afterwards
  std::string timeout = "60 s";  // a hang is when no operation finishes for that long
  Diagnostics faults;            // of the command line, found before; reported with the others
};

struct ExecuteOptions {
  HardwareOptions hardware;
  bool json = false;
  std::string trace;      // file to write; empty: none
  std::string trace_dir;  // folder for a trace of each rank; empty: none
};

struct ValidateOptions {
  HardwareOptions hardware;
  bool json = false;
  std::string report;          // HTML page to write; empty: none
  std::string trace;           // file to write; empty: none
  std::string within = "10%";  // of the measured step time
};

struct CalibrateOptions {
  std::string backend;  // "host" or "cuda"
  bool quick = false;
  std::string time;                      // how long to measure; empty: as calibrate.h says
  std::vector<std::string> only;         // parts; empty: all
  std::vector<std::string> types;        // data types; empty: fp32, bf16
  std::vector<std::string> collectives;  // kinds; empty: as calibrate.h says
  std::string from, to;                  // sizes of collectives; empty: as calibrate.h says
  std::vector<int> groups;               // sizes of groups; empty: all that there are
  std::string gpu;                       // the GPU type; empty: as the backend's device tells
  std::string output;                    // empty: <host>.yaml
  std::string resume;                    // the state file; empty: none
  int ranks = 0;                         // threads, without a launcher; 0: a rank a core
  std::string timeout = "120 s";
  bool json = false;
  std::string command;  // the whole command line, for the provenance
  std::string version;  // of stepcast
};

// The commands that need hardware or several processes, which two programs share: stepcast-hardware
// runs them, and stepcast, which links neither MPI nor a backend, starts stepcast-hardware for them
// (process.h).

struct HardwareAccess {
  std::function<Outcome(const ExecuteOptions&)> execute;
  std::function<Outcome(const ValidateOptions&)> validate;
  std::function<Outcome(const CalibrateOptions&)> calibrate;
  // For sweeps and searches.
  RunWork run_work;
  // What --version says of the backends: "host, cuda, MPI".
  std::function<std::string()> backends;
};

}  // namespace stepcast::cli
