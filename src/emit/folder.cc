#include "src/emit/folder.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "fmt/format.h"

namespace stepcast::emit {
namespace {

namespace fs = std::filesystem;

FolderFailure Failure(const char* doing, const std::string& path, int error) {
  return {{}, fmt::format("cannot {} '{}': {}", doing, path, std::strerror(error))};
}

FolderFailure Exists(const std::string& path, std::string message, std::string hint) {
  return {{{"file.exists", {path, 0, 0}, std::move(message), std::move(hint)}}, ""};
}

// Whether the process runs in the folder, or in one below it.
bool HoldsWorkingFolder(const std::string& path) {
  std::error_code error;
  for (fs::path folder = fs::current_path(error); !error; folder = folder.parent_path()) {
    if (fs::equivalent(folder, path, error)) return true;
    if (folder == folder.parent_path()) break;
  }
  return false;
}

// What is in the way at `path`; nothing: it may be written.
std::optional<FolderFailure> InTheWay(const std::string& path, bool force) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    const fs::path parent = fs::absolute(fs::path(path)).parent_path();
    if (fs::is_directory(parent, error)) return std::nullopt;
    return FolderFailure{{{"file.not-found",
                           {path, 0, 0},
                           fmt::format("the folder to write into does not exist: {}",
                                       Quoted(parent.string(), "'", PATH_MAX)),
                           "make it first, or name another"}},
                         ""};
  }
  if (status.type() != fs::file_type::directory) {
    return Exists(path,
                  fmt::format("there is something of this name, and it is no folder: {}",
                              Quoted(path, "'", PATH_MAX)),
                  "name another folder");
  }
  // The folder is replaced as a whole: whoever stands in it would not see what was written.
  if (HoldsWorkingFolder(path)) {
    return Exists(path,
                  fmt::format("the command runs in this folder, which would be replaced: {}",
                              Quoted(path, "'", PATH_MAX)),
                  "name a folder of its own, which need not exist");
  }
  if (fs::is_empty(path, error)) return std::nullopt;
  if (!force) {
    return Exists(
        path, fmt::format("the folder exists and is not empty: {}", Quoted(path, "'", PATH_MAX)),
        "name another folder, or replace the plan in this one with --force");
  }
  if (!fs::exists(fs::path(path) / "plan.json", error)) {
    return Exists(path,
                  fmt::format("the folder holds no plan.json, so it is not replaced: {}",
                              Quoted(path, "'", PATH_MAX)),
                  "name another folder, or remove this one");
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

// Holds signals back, so that an interruption comes before the first file or after the last: what
// is written takes a moment, and an unfinished folder must not stay.
class SignalsHeldBack {
 public:
  SignalsHeldBack() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsHeldBack(const SignalsHeldBack&) = delete;
  SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;
  ~SignalsHeldBack() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// Removes a folder when it goes out of scope, unless it has become what was wanted.
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
        FolderFailure{{{"file.not-found", {"''", 0, 0}, "the name of a folder is due", ""}}, ""});
  }
  if (auto fault = InTheWay(path, force)) return tl::unexpected(*std::move(fault));
  return {};
}

tl::expected<void, FolderFailure> WriteFolder(const std::string& path,
                                              const std::vector<File>& files, bool force) {
  if (auto good = CheckFolder(path, force); !good) return tl::unexpected(std::move(good.error()));
  const SignalsHeldBack held_back;
  std::error_code error;
  // A link to a folder stays one.
  fs::path target = fs::weakly_canonical(path, error);
  if (error) return tl::unexpected(Failure("find", path, error.value()));
  if (!target.has_filename()) target = target.parent_path();

  std::string name =
      (target.parent_path() / fmt::format(".{}.XXXXXX", target.filename().string())).string();
  if (::mkdtemp(name.data()) == nullptr) {
    return tl::unexpected(Failure("make a folder beside", path, errno));
  }
  Temporary fresh{fs::path(name)};
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::chmod(name.c_str(), 0777 & ~mask);  // as mkdir would have made it
  for (const File& file : files) {
    const fs::path place = fresh.path() / file.name;
    fs::create_directories(place.parent_path(), error);
    if (error) return tl::unexpected(Failure("create", place.string(), error.value()));
    if (auto fault = WriteFile(place, file)) return tl::unexpected(*std::move(fault));
  }

  // An empty folder gives way to a rename, a full one is moved aside first.
  if (::rename(name.c_str(), target.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) {
      return tl::unexpected(Failure("write", path, errno));
    }
    if (!force) return tl::unexpected(Exists(path, "the folder exists and is not empty", ""));
    // Both names always stand for a complete folder.
    if (::renameat2(AT_FDCWD, name.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) != 0) {
      return tl::unexpected(Failure("replace", path, errno));
    }
    return {};  // what lies under the temporary name now is the plan before
  }
  fresh.Keep();
  return {};
}

}  // namespace stepcast::emit
