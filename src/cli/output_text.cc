#include "src/cli/output_text.h"

#include <utility>

#include "src/cli/output_failure.h"
#include "src/report/output_file.h"

namespace stepcast::cli {

Outcome PutText(const std::string& file, std::string text) {
  Outcome outcome;
  if (file.empty()) {
    outcome.output = std::move(text);
    return outcome;
  }
  auto output = report::OutputFile::Create(file);
  if (!output) return CannotCreate(file, output.error());
  if (const auto written = output->Write(text); !written) return Failed(written.error());
  if (const auto done = output->Commit(); !done) return Failed(done.error());
  return outcome;
}

}  // namespace stepcast::cli
