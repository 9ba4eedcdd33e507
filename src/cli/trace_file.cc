#include "src/cli/trace_file.h"

#include <string_view>
#include <utility>

#include "src/cli/output_failure.h"

namespace stepcast::cli {

std::optional<Outcome> TraceFile::Create(const std::string& path) {
  if (path.empty()) return std::nullopt;
  auto file = report::OutputFile::Create(path);
  if (!file) return CannotCreate(path, file.error());
  file_.emplace(std::move(*file));
  return std::nullopt;
}

std::optional<Outcome> TraceFile::Write(std::span<const report::TraceProcess> processes,
                                        const report::TraceSubject& subject) {
  if (!file_) return std::nullopt;
  auto written = report::WriteTrace(processes, subject,
                                    [&](std::string_view bytes) { return file_->Write(bytes); });
  if (written) written = file_->Commit();
  file_.reset();
  if (!written) return Failed(written.error());
  return std::nullopt;
}

}  // namespace stepcast::cli
