#include "src/cli/trace_file.h"

#include <string_view>

namespace stepcast::cli {

std::optional<Outcome> TraceFile::Write(std::span<const report::TraceProcess> processes,
                                        const report::TraceSubject& subject) {
  return file_.WriteBy([&](report::OutputFile& file) {
    return report::WriteTrace(processes, subject,
                              [&](std::string_view bytes) { return file.Write(bytes); });
  });
}

std::optional<Outcome> TraceFile::Write(const forecast::Run& run,
                                        const report::TraceSubject& subject, int steps) {
  return file_.WriteBy([&](report::OutputFile& file) {
    return report::WriteTrace(
        run, subject, [&](std::string_view bytes) { return file.Write(bytes); }, steps);
  });
}

}  // namespace stepcast::cli
