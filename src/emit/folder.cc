#include "src/emit/folder.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/files.h"
#include "src/base/text_lines.h"

namespace stepcast::emit {
namespace {

namespace fs = std::filesystem;

FolderFailure Failure(const char* doing, const std::string& path, int error) {
  return {{}, fmt::format("cannot {} '{}': {}", doing, path, std::strerror(error))};
}

FolderFailure Exists(const std::string& path, std::string message, std::string hint) {
  return {{{"file.exists", {path, 0, 0}, std::move(message), std::move(hint)}}, ""};
}

// Whether the process's working folder is this folder or below it.
bool HoldsWorkingFolder(const std::string& path) {
  std::error_code error;
  for (fs::path folder = fs::current_path(error); !error; folder = folder.parent_path()) {
    if (fs::equivalent(folder, path, error)) return true;
    if (folder == folder.parent_path()) break;
  }
  return false;
}

std::string Manifest(const std::vector<File>& files) {
  std::set<std::string> names = {kManifest};
  for (const File& file : files) {
    names.insert(fs::path(file.name).lexically_normal().generic_string());
  }
  return fmt::format("{}\n", fmt::join(names, "\n"));
}

// The names in a folder's manifest, one per line; none without a manifest.
std::set<std::string> Listed(const fs::path& folder) {
  std::set<std::string> names;
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(folder / kManifest, error))) return names;
  std::ifstream in(folder / kManifest, std::ios::binary);
  constexpr int kMost = 10'000;
  for (std::string line; names.size() < kMost && std::getline(in, line);) names.insert(line);
  return names;
}

bool HoldsListed(const std::string& folder, const std::set<std::string>& listed) {
  const auto next = listed.lower_bound(folder + "/");
  return next != listed.end() && next->starts_with(folder + "/");
}

// Files in the folder other than listed files and their folders, by relative names.
std::vector<std::string> NotListed(const fs::path& folder, const std::set<std::string>& listed,
                                   std::error_code& error) {
  std::vector<std::string> others;
  // Links to folders are not followed.
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().lexically_relative(folder).generic_string();
    const fs::file_status status = entry->symlink_status(error);
    if (error) break;
    if (fs::is_directory(status) && HoldsListed(name, listed)) continue;
    if (fs::is_regular_file(status) && listed.contains(name)) continue;
    if (fs::is_directory(status)) {
      name += "/";
      entry.disable_recursion_pending();
    }
    others.push_back(std::move(name));
  }
  std::sort(others.begin(), others.end());
  return others;
}

// Removes only the listed files. Returns whether the folder is then gone.
bool RemoveListed(const fs::path& folder, const std::set<std::string>& listed) {
  std::error_code error;
  if (!NotListed(folder, listed, error).empty() || error) return false;
  std::vector<fs::path> folders = {folder};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    (entry.is_directory() && !entry.is_symlink() ? folders : files).push_back(entry.path());
  }
  // Files created meanwhile stay, and so does their folder.
  for (const fs::path& file : files) ::unlink(file.c_str());
  for (auto each = folders.rbegin(); each != folders.rend(); ++each) ::rmdir(each->c_str());
  return !fs::exists(folder, error);
}

std::string FirstOf(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", Quoted(names[i]));
  }
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

// Why `path` cannot be written; nothing if it can.
std::optional<FolderFailure> InTheWay(const std::string& path, bool force) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    const fs::path parent = fs::absolute(fs::path(path), error).parent_path();
    if (error) return Failure("find", path, error.value());
    if (fs::is_directory(parent, error)) return std::nullopt;
    return FolderFailure{{{"file.not-found",
                           {path, 0, 0},
                           fmt::format("the parent folder of the output does not exist: {}",
                                       Quoted(parent.string(), "'", PATH_MAX)),
                           "create the folder first, or write the path of another folder"}},
                         ""};
  }
  if (status.type() != fs::file_type::directory) {
    return Exists(
        path,
        fmt::format("the path leads to a file, not to a folder: {}", Quoted(path, "'", PATH_MAX)),
        "write the path of another folder");
  }
  // The folder is replaced as a whole, so a shell in it would not see the new files.
  if (HoldsWorkingFolder(path)) {
    return Exists(
        path,
        fmt::format("the working directory cannot be replaced: {}", Quoted(path, "'", PATH_MAX)),
        "write the path of another folder, which may be new");
  }
  if (fs::is_empty(path, error)) return std::nullopt;
  if (!force) {
    return Exists(
        path, fmt::format("the folder already contains files: {}", Quoted(path, "'", PATH_MAX)),
        "write the path of another folder, or replace the plan in the folder with --force");
  }
  const std::vector<std::string> others = NotListed(path, Listed(path), error);
  if (error) return Failure("read the folder", path, error.value());
  if (!others.empty()) {
    return Exists(
        path,
        fmt::format(
            "the folder is not replaced, because some of its files do not belong to a plan: {}",
            FirstOf(others)),
        fmt::format("write the path of another folder, or move the files that {} does not list",
                    kManifest));
  }
  return std::nullopt;
}

std::optional<FolderFailure> WriteFile(const fs::path& path, const File& file) {
  const int mode = file.executable ? 0777 : 0666;
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (descriptor < 0) return Failure("create", path.string(), errno);
  std::string_view rest = file.text;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      ::close(descriptor);
      return Failure("write", path.string(), error);
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(descriptor) != 0 && errno != EINVAL) {
    const int error = errno;
    ::close(descriptor);
    return Failure("write", path.string(), error);
  }
  if (::close(descriptor) != 0) return Failure("write", path.string(), errno);
  return std::nullopt;
}

// Removes a temporary folder at the end of a scope, unless it was renamed to the result.
class Temporary {
 public:
  explicit Temporary(fs::path path) : path_(std::move(path)) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  const fs::path& path() const { return path_; }
  void Keep() { path_.clear(); }

 private:
  fs::path path_;
};

}  // namespace

tl::expected<void, FolderFailure> CheckFolder(const std::string& path, bool force) {
  if (path.empty()) {
    return tl::unexpected(
        FolderFailure{{{"file.not-found", {"''", 0, 0}, "the folder's name is empty", ""}}, ""});
  }
  if (auto followed = FollowTrustedLinks(path); !followed) {
    return tl::unexpected(FolderFailure{{}, std::move(followed.error())});
  }
  if (auto fault = InTheWay(path, force)) return tl::unexpected(*std::move(fault));
  return {};
}

tl::expected<void, FolderFailure> WriteFolder(const std::string& path,
                                              const std::vector<File>& files, bool force) {
  if (auto good = CheckFolder(path, force); !good) return tl::unexpected(std::move(good.error()));
  const SignalsHeldBack held_back;
  std::error_code error;
  // A link to a folder is kept.
  auto destination = FollowTrustedLinks(path);
  if (!destination) return tl::unexpected(FolderFailure{{}, std::move(destination.error())});
  const fs::path target = fs::weakly_canonical(destination->path, error);
  if (error) return tl::unexpected(Failure("find", path, error.value()));

  std::string name;
  int refused = 0;
  do {
    name = TemporaryName(target.string());
    refused = ::mkdir(name.c_str(), 0777) == 0 ? 0 : errno;
  } while (refused == EEXIST);
  if (refused != 0) return tl::unexpected(Failure("create a folder next to", path, refused));
  Temporary fresh{fs::path(name)};
  std::set<fs::path> folders = {fresh.path()};
  const auto write = [&](const File& file) -> std::optional<FolderFailure> {
    const fs::path place = fresh.path() / file.name;
    fs::create_directories(place.parent_path(), error);
    if (error) return Failure("create", place.string(), error.value());
    folders.insert(place.parent_path());
    return WriteFile(place, file);
  };
  for (const File& file : files) {
    if (auto fault = write(file)) return tl::unexpected(*std::move(fault));
  }
  if (auto fault = write({kManifest, Manifest(files)})) return tl::unexpected(*std::move(fault));
  for (const fs::path& folder : folders) {
    if (!SyncFolder(folder.string())) return tl::unexpected(Failure("write", path, errno));
  }

  // A rename replaces an empty folder; a full one is exchanged first.
  if (::rename(name.c_str(), target.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) {
      return tl::unexpected(Failure("write", path, errno));
    }
    if (!force) return tl::unexpected(Exists(path, "the folder exists and is not empty", ""));
    // Both names always refer to a complete folder.
    if (::renameat2(AT_FDCWD, name.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) != 0) {
      return tl::unexpected(Failure("replace", path, errno));
    }
    // The temporary name now refers to the previous plan.
    fresh.Keep();
    if (!RemoveListed(name, Listed(name))) {
      return tl::unexpected(FolderFailure{
          {}, fmt::format("the previous plan could not be removed, and is now in '{}'", name)});
    }
  }
  fresh.Keep();
  if (!SyncFolder(target.parent_path().string())) {
    return tl::unexpected(Failure("write", path, errno));
  }
  return {};
}

}  // namespace stepcast::emit
