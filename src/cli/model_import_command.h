#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/cli/outcome.h"

namespace stepcast::cli {

struct ModelImportOptions {
  std::string kineto;                // a trace of torch.profiler
  std::optional<std::int64_t> step;  // nothing: the one of median duration
  std::string model;                 // the one that was traced; empty: the trace has shapes
  std::string name;                  // empty: the file's
  std::string output;                // empty: stdout
};

// Writes a layer list; what the trace did not tell is said on stderr, and in the file.
Outcome ModelImport(const ModelImportOptions& options);

}  // namespace stepcast::cli
