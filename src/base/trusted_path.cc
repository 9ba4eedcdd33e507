#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <deque>
#include <filesystem>
#include <system_error>

#include "fmt/format.h"
#include "src/base/files.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;

std::string Failure(const std::string& path, int error) {
  return fmt::format("cannot write '{}': {}", path, std::strerror(error));
}

// The descriptor of this process that a link refers to: 1 for /proc/self/fd/1.
std::optional<int> DescriptorOf(const fs::path& link) {
  std::error_code error;
  if (!fs::equivalent(link.parent_path(), "/proc/self/fd", error)) return std::nullopt;
  const std::string name = link.filename().string();
  int number = 0;
  const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (fault != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

// Whether all users may create entries in a folder, but not remove other users' entries, as in
// /tmp.
bool IsSharedByAll(const fs::path& folder) {
  struct stat status = {};
  return ::stat(folder.empty() ? "." : folder.c_str(), &status) == 0 &&
         (status.st_mode & S_ISVTX) != 0 && (status.st_mode & S_IWOTH) != 0;
}

// Puts the components of a path in front of the components that are still to be followed.
void Prepend(const fs::path& path, std::deque<fs::path>& components) {
  std::deque<fs::path> own;
  for (const fs::path& component : path.relative_path()) {
    if (!component.empty() && component != ".") own.push_back(component);
  }
  components.insert(components.begin(), own.begin(), own.end());
}

}  // namespace

bool BelongsToCallerOrSystem(const struct stat& status) {
  // The owner of "/" is the system's user; in a container's user namespace its number is not 0.
  struct stat root = {};
  return status.st_uid == ::geteuid() || status.st_uid == 0 ||
         (::stat("/", &root) == 0 && status.st_uid == root.st_uid);
}

std::string AnothersOutput(const std::string& path) {
  return fmt::format("cannot write '{}': it belongs to another user", path);
}

tl::expected<Destination, std::string> FollowTrustedLinks(const std::string& path) {
  constexpr int kMostLinks = 40;  // as in Linux
  const fs::path named(path);
  std::deque<fs::path> components;
  Prepend(named, components);
  fs::path at = named.root_path();
  Destination destination;
  for (int links = 0; !components.empty();) {
    const fs::path next = at / components.front();
    components.pop_front();
    struct stat status = {};
    if (::lstat(next.c_str(), &status) != 0) {
      if (errno != ENOENT && errno != ENOTDIR) return tl::unexpected(Failure(path, errno));
      at = next;
      for (const fs::path& component : components) at /= component;
      destination.path = at.string();
      destination.status.reset();
      return destination;
    }
    if (!S_ISLNK(status.st_mode)) {
      if (S_ISDIR(status.st_mode) && !BelongsToCallerOrSystem(status) && IsSharedByAll(at)) {
        return tl::unexpected(fmt::format(
            "cannot write '{}': the folder '{}' belongs to another user", path, next.string()));
      }
      at = next;
      destination.status = status;
      continue;
    }
    if (!BelongsToCallerOrSystem(status)) return tl::unexpected(AnothersOutput(path));
    destination.descriptor = components.empty() ? DescriptorOf(next) : std::nullopt;
    if (destination.descriptor) {
      destination.path = next.string();
      destination.status = status;
      return destination;
    }
    if (++links > kMostLinks) return tl::unexpected(Failure(path, ELOOP));
    std::error_code error;
    const fs::path target = fs::read_symlink(next, error);
    if (error) return tl::unexpected(Failure(path, error.value()));
    if (target.is_absolute()) at = target.root_path();
    Prepend(target, components);
  }
  destination.path = at.empty() ? "." : at.string();
  if (!destination.status) {
    struct stat status = {};
    if (::stat(destination.path.c_str(), &status) == 0) destination.status = status;
  }
  return destination;
}

}  // namespace stepcast
