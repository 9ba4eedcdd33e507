#include "src/cli/output_text.h"

#include <utility>

#include "src/cli/optional_output.h"

namespace stepcast::cli {

Outcome PutText(const std::string& file, std::string text) {
  Outcome outcome;
  if (file.empty()) {
    outcome.output = std::move(text);
    return outcome;
  }
  OptionalOutput output;
  if (auto failed = output.Create(file)) return *std::move(failed);
  if (auto failed = output.Write([&] { return std::move(text); })) return *std::move(failed);
  return outcome;
}

}  // namespace stepcast::cli
