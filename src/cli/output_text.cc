#include "src/cli/output_text.h"

#include <utility>

#include "src/cli/asked_file.h"

namespace stepcast::cli {

Outcome PutText(const std::string& file, std::string text) {
  Outcome outcome;
  if (file.empty()) {
    outcome.output = std::move(text);
    return outcome;
  }
  AskedFile output;
  if (auto failed = output.Create(file)) return *std::move(failed);
  if (auto failed = output.Write([&] { return std::move(text); })) return *std::move(failed);
  return outcome;
}

}  // namespace stepcast::cli
