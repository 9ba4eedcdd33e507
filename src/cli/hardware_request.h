#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/cli/outcome.h"

namespace stepcast::cli {

// The options of commands that run on hardware. These structs do not depend on the implementation.
// A program that hands the commands over to another program can therefore parse the options too.

// Options common to `execute` and `validate`.
struct HardwareOptions {
  std::string scenario;
  std::vector<std::string> set;  // "KEY=VALUE"
  std::string backend;           // "host" or "cuda"
  int steps = 5;                 // measured steps
  int warmup = 2;
  bool barrier = false;  // like training.step_barrier
  bool graph = false;
  bool caching_pool = false;     // places buffers like PyTorch's caching allocator
  bool check = false;            // small-integer gradients; compares parameters afterward
  std::string timeout = "60 s";  // the run hangs if no operation finishes in this time
  Diagnostics faults;            // mistakes found on the command line, reported with the others
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
  std::string time;                      // duration of the measurement; empty: see calibrate.h
  std::vector<std::string> only;         // parts; empty: all
  std::vector<std::string> types;        // data types; empty: fp32, bf16
  std::vector<std::string> collectives;  // kinds; empty: see calibrate.h
  std::string from, to;                  // sizes of collectives; empty: see calibrate.h
  std::vector<int> groups;               // sizes of groups; empty: all that are possible
  std::string gpu;                       // the GPU type; empty: from the backend's device
  std::string output;                    // empty: <host>.yaml
  std::string resume;                    // the state file; empty: none
  int ranks = 0;                         // threads, without a launcher; 0: one rank per core
  std::string timeout = "120 s";
  bool json = false;
  std::string command;  // the whole command line, for the provenance
  std::string version;  // of stepcast
};

// The commands that need hardware or several processes. stepcast-hardware runs them. stepcast links
// neither MPI nor a backend, so it starts stepcast-hardware for these commands (process.h).

struct HardwareAccess {
  std::function<Outcome(const ExecuteOptions&)> execute{};
  std::function<Outcome(const ValidateOptions&)> validate{};
  std::function<Outcome(const CalibrateOptions&)> calibrate{};
  // Runs the work of sweeps and searches.
  RunWork run_work;
  // Returns the backends that --version prints, such as "host, cuda, MPI".
  std::function<std::string()> backends{};
};

}  // namespace stepcast::cli
