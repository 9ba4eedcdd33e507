#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/cli/outcome.h"

namespace stepcast::cli {

struct CalibrateImportOptions {
  std::vector<std::string> logs;
  std::string op;                     // empty: as the logs tell
  std::optional<int> ranks;           // likewise
  std::optional<int> ranks_per_node;  // likewise
  bool in_place = false;
  bool keep_noise = false;  // times that fall with the size become means
  std::string gpu;          // the GPU type; empty: as the logs tell
  std::string name;         // empty: that of the first log
  std::string output;       // empty: stdout
};

// Writes a calibration profile whose tables are what nccl-tests measured.
Outcome CalibrateImport(const CalibrateImportOptions& options);

}  // namespace stepcast::cli
