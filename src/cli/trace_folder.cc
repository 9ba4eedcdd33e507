#include "src/cli/trace_folder.h"

#include <filesystem>
#include <system_error>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/base/trusted_path.h"
#include "src/cli/output_failure.h"
#include "src/cli/trace_file.h"

namespace stepcast::cli {

std::optional<Outcome> TraceFolder::Create(const std::string& path) {
  path_ = path;
  if (path.empty()) return std::nullopt;
  const auto destination = FollowTrustedLinks(path);
  if (!destination) return Failed(destination.error());
  std::error_code error;
  std::filesystem::create_directory(path, error);
  if (error == std::errc::no_such_file_or_directory) {
    if (auto missing = NoFolderFor(path)) return missing;
  }
  // What is in the way is a file, and so a slip in the name.
  if (error == std::errc::not_a_directory || error == std::errc::file_exists ||
      (!error && !std::filesystem::is_directory(path, error))) {
    return WrongInput(
        {{"file.exists",
          {path, 0, 0},
          fmt::format("this folder cannot be made, a file is in its place: {}", Quoted(path)),
          "name another folder"}});
  }
  if (error) return Failed(fmt::format("cannot make the folder {}: {}", path, error.message()));
  return std::nullopt;
}

std::optional<Outcome> TraceFolder::Write(const std::vector<report::TraceProcess>& processes,
                                          const std::string& scenario, int ranks) {
  if (path_.empty()) return std::nullopt;
  for (const report::TraceProcess& process : processes) {
    TraceFile file;
    if (auto failed = file.Create(fmt::format("{}/rank-{}.json", path_, process.id))) return failed;
    const report::TraceSubject subject{scenario, process.id, ranks};
    if (auto failed = file.Write({&process, 1}, subject)) return failed;
  }
  return std::nullopt;
}

}  // namespace stepcast::cli
