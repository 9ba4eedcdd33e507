#pragma once

#include <string>

#include "src/cli/outcome.h"

namespace stepcast::cli {

struct TopologyImportOptions {
  std::string file;       // NCCL's XML, or what nvidia-smi topo -m printed
  std::string gpu;        // empty: as the file tells
  std::string nic_speed;  // empty: as the file tells
  std::string nics;       // names with commas between them, or "all"; empty: by rule
  std::string nvlink;     // "assume" or "none", where the file lists none; empty: refuse
  std::string name;       // empty: the file's
  std::string output;     // empty: stdout
};

// Writes a topology file; what the input did not tell is said on stderr, and in the file.
Outcome TopologyImport(const TopologyImportOptions& options);

}  // namespace stepcast::cli
