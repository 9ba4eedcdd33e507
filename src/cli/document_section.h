#pragma once

#include <functional>
#include <optional>
#include <string>

#include "src/cli/optional_output.h"
#include "src/cli/outcome.h"

namespace stepcast::cli {

// The section of a document that --update names, if it does: what stands between the lines
// '<!-- NAME: begin -->' and '<!-- NAME: end -->'.
class DocumentSection {
 public:
  // Before the work, so that a document without the section is noticed at once. An outcome is a
  // failure.
  std::optional<Outcome> Open(const std::string& path, const std::string& name);
  // Writes the section anew, and leaves the rest as it was when the document was opened. Makes the
  // content only where a document is asked for.
  std::optional<Outcome> Write(const std::function<std::string()>& content);

 private:
  std::string before_, after_;
  OptionalOutput file_;
};

}  // namespace stepcast::cli
