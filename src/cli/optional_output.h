#pragma once

#include <functional>
#include <optional>
#include <string>

#include "src/cli/outcome.h"
#include "src/report/output_file.h"
#include "tl/expected.hpp"

namespace stepcast::cli {

// A file that an option names, if it does: a page, a trace, a document. It appears when it is
// complete, and replaces no file that was read.
class OptionalOutput {
 public:
  // Before the work, so that a folder that does not exist is noticed at once. An outcome is a
  // failure.
  std::optional<Outcome> Create(const std::string& path);
  // Makes the text only where a file is asked for.
  std::optional<Outcome> Write(const std::function<std::string()>& text);
  // Lets `put` write piece by piece, only where a file is asked for. The error is a sentence.
  std::optional<Outcome> WriteBy(
      const std::function<tl::expected<void, std::string>(report::OutputFile&)>& put);

 private:
  std::string path_;
  std::optional<report::OutputFile> file_;
};

}  // namespace stepcast::cli
