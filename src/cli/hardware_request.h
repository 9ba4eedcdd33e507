#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/cli/outcome.h"
#include "src/cli/outputs.h"

namespace stepcast::cli {

// The options of commands that run on hardware. These structs do not depend on the implementation,
// so that a program without backends can also parse the options.

// Options that `execute` and `validate` have in common.
struct HardwareOptions {
  std::string scenario;
  std::vector<std::string> set;  // values of --set, "KEY=VALUE"
  std::string backend;           // "host" or "cuda"
  int steps = 5;                 // number of measured steps
  int warmup = 2;
  bool barrier = false;  // as with training.step_barrier
  bool graph = false;
  bool caching_pool = false;     // place buffers like PyTorch's caching allocator
  bool check = false;            // use small-integer gradients and compare parameters after the run
  std::string timeout = "60 s";  // the run is considered hung if no operation ends in this time
  Diagnostics faults;            // command-line mistakes, to report with all others
};

struct ExecuteOptions {
  HardwareOptions hardware;
  AnswerForms forms;
  std::string trace;      // file name; empty: no trace
  std::string trace_dir;  // folder for one trace per rank; empty: none
};

struct ValidateOptions {
  HardwareOptions hardware;
  AnswerForms forms;
  std::string trace;           // file name; empty: no trace
  std::string within = "10%";  // fraction of the measured step time
};

struct CalibrateOptions {
  std::string backend;  // "host" or "cuda"
  bool quick = false;
  std::string time;                      // measurement duration; empty: default
  std::vector<std::string> only;         // parts to measure; empty: all
  std::vector<std::string> types;        // data types; empty: fp32, bf16
  std::vector<std::string> collectives;  // kinds; empty: default in calibrate.h
  std::string from, to;                  // sizes of collectives; empty: defaults in calibrate.h
  std::vector<int> groups;               // sizes of groups; empty: all possible sizes
  std::string gpu;                       // GPU type; empty: type of the backend's device
  std::string output;                    // file name; empty: <host>.yaml
  std::string resume;                    // name of the state file; empty: none
  int ranks = 0;                         // number of ranks without a launcher; 0: one per core
  std::string timeout = "120 s";
  bool json = false;
  std::string command;  // the complete command line, for the provenance
  std::string version;  // version of stepcast
};

// The commands that need hardware or several processes. The program stepcast links neither MPI nor
// a backend; it starts stepcast-hardware for these commands (process.h).

struct HardwareAccess {
  std::function<Outcome(const ExecuteOptions&)> execute{};
  std::function<Outcome(const ValidateOptions&)> validate{};
  std::function<Outcome(const CalibrateOptions&)> calibrate{};
  // Runs the work of sweeps and plan searches.
  RunWork run_work;
  // Returns the backends that --version prints, such as "host, cuda, MPI".
  std::function<std::string()> backends{};
};

}  // namespace stepcast::cli
