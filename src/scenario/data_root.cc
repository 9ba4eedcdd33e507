#include "src/scenario/data_root.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "fmt/format.h"
#include "src/base/diagnostic.h"

namespace stepcast::scenario {
namespace {

namespace fs = std::filesystem;

bool IsDirectory(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool HoldsData(const fs::path& folder) {
  for (const char* name : {"models", "topologies", "calibration"}) {
    if (!IsDirectory(folder / name)) return false;
  }
  return true;
}

// The data in a runfiles folder, which has a subfolder for each workspace.
std::string DataIn(const fs::path& runfiles) {
  for (const char* workspace : {"stepcast", "__main__"}) {
    if (HoldsData(runfiles / workspace)) return (runfiles / workspace).string();
  }
  return "";
}

// The data next to the executable: Bazel's <binary>.runfiles; for an installation, share/stepcast
// next to its bin/; otherwise, for a binary in bazel-out, the execution root above it, whose
// entries link into the workspace.
std::string DataBeside(const fs::path& executable) {
  if (std::string folder = DataIn(executable.string() + ".runfiles"); !folder.empty()) {
    return folder;
  }
  const fs::path shared = executable.parent_path().parent_path() / "share" / "stepcast";
  if (HoldsData(shared)) return shared.string();
  for (fs::path folder = executable.parent_path(); !folder.empty(); folder = folder.parent_path()) {
    if (HoldsData(folder)) return folder.string();
    if (folder == folder.parent_path()) break;
  }
  return "";
}

std::string BuiltWith() {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    if (std::string folder = DataBeside(executable); !folder.empty()) return folder;
  }
  // For a library inside another program (a Python module): beside the file of this code, found by
  // the name that it was loaded under, which may be a link, and by its real name.
  Dl_info info = {};
  if (::dladdr(reinterpret_cast<const void*>(&HoldsData), &info) == 0) return "";
  if (info.dli_fname == nullptr) return "";
  const fs::path library = fs::absolute(info.dli_fname, error);
  if (std::string folder = DataBeside(library); !folder.empty()) return folder;
  return DataBeside(fs::weakly_canonical(library, error));
}

bool Exists(const std::string& path) {
  // To the operating system, a zero byte would end the path.
  if (path.find('\0') != std::string::npos) return false;
  std::error_code error;
  return fs::exists(path, error);
}

std::string Join(std::string_view folder, std::string_view path) {
  if (folder.empty()) return std::string(path);
  return fmt::format("{}{}{}", folder, folder.back() == '/' ? "" : "/", path);
}

// Quotes a path without shortening it.
std::string Whole(std::string_view path) { return Quoted(path, "'", path.size()); }

}  // namespace

std::string DataRoot() {
  const char* given = std::getenv("STEPCAST_DATA");
  if (given != nullptr && *given != '\0') return IsDirectory(given) ? given : "";
  // Bazel sets it for a test, whose runfiles contain those of the programs it runs. The folder
  // beside such a program belongs to another target and may be of an earlier build.
  if (const char* runfiles = std::getenv("RUNFILES_DIR"); runfiles != nullptr) {
    if (std::string folder = DataIn(runfiles); !folder.empty()) return folder;
  }
  static const std::string built_with = BuiltWith();
  return built_with;
}

std::optional<std::string> FindInput(std::string_view path, std::string_view folder) {
  if (path.empty()) return std::nullopt;
  if (path.front() == '/') {
    return Exists(std::string(path)) ? std::optional(std::string(path)) : std::nullopt;
  }
  std::string beside = Join(folder, path);
  if (Exists(beside)) return beside;
  const std::string root = DataRoot();
  if (root.empty()) return std::nullopt;
  std::string shipped = Join(root, path);
  if (Exists(shipped)) return shipped;
  return std::nullopt;
}

std::string PlacesTried(std::string_view path, std::string_view folder) {
  if (!path.empty() && path.front() == '/') {
    return fmt::format("{} does not exist", Whole(path));
  }
  const std::string beside = folder.empty() ? std::string("the working directory") : Whole(folder);
  const std::string root = DataRoot();
  const char* given = std::getenv("STEPCAST_DATA");
  const bool own = given != nullptr && *given != '\0';
  if (!root.empty() && own) {
    return fmt::format("stepcast looked in {} and in the data root {}", beside, Whole(root));
  }
  // Users should not look into a build's data folder, nor add files to it.
  if (!root.empty()) {
    return fmt::format("stepcast looked in {} and in the data folder of its build", beside);
  }
  if (own) {
    return fmt::format("stepcast looked in {}; STEPCAST_DATA is not a directory: {}", beside,
                       Whole(given));
  }
  return fmt::format("stepcast looked in {}; set STEPCAST_DATA to the folder with the shipped data",
                     beside);
}

std::string MissingData() {
  const std::string root = DataRoot();
  if (!root.empty() && HoldsData(root)) return "";
  const char* given = std::getenv("STEPCAST_DATA");
  if (given != nullptr && *given != '\0') {
    return fmt::format(
        "set STEPCAST_DATA to the folder with the shipped models, topologies and calibration, "
        "instead of {}",
        Whole(given));
  }
  return "the shipped models, topologies and calibration were not found beside the program; set "
         "STEPCAST_DATA to their folder";
}

std::string FolderOf(std::string_view file) {
  const std::size_t slash = file.rfind('/');
  if (slash == std::string_view::npos) return "";
  return std::string(file.substr(0, slash == 0 ? 1 : slash));
}

}  // namespace stepcast::scenario
