#include "src/runtime/job_secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/base/files_read.h"
#include "src/base/replacement.h"
#include "src/runtime/authentication.h"

namespace stepcast::runtime {
namespace {

Failure SystemFailure(const char* doing, const std::string& path, int error) {
  return {fmt::format("cannot {} '{}': {}", doing, path, std::strerror(error))};
}

bool IsPrivate(const struct stat& status) {
  return status.st_uid == ::geteuid() && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

std::string Hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace

Attempt<std::string> ReadSecret(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return tl::unexpected(SystemFailure("read", path, errno));
  struct stat status = {};
  std::array<char, 4096> bytes;
  const bool plain = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const ssize_t size = plain ? ::read(descriptor, bytes.data(), bytes.size()) : 0;
  ::close(descriptor);
  if (!plain) return tl::unexpected(Failure{fmt::format("'{}' is not a plain file", path)});
  if (!IsPrivate(status)) {
    return tl::unexpected(Failure{fmt::format(
        "'{}' must belong to the user that runs the ranks, and no other user may read or write it "
        "(chmod 600)",
        path)});
  }
  std::string_view text(bytes.data(), size < 0 ? 0 : static_cast<std::size_t>(size));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  if (text.size() < kShortestSecret) {
    return tl::unexpected(Failure{fmt::format(
        "'{}' holds fewer than {} bytes, which could be guessed", path, kShortestSecret)});
  }
  return Attempt<std::string>(tl::in_place, text);
}

SharedSecret::SharedSecret(SharedSecret&& other) noexcept
    : job_(std::move(other.job_)), written_(std::exchange(other.written_, std::string())) {}

SharedSecret::~SharedSecret() {
  if (!written_.empty()) ::unlink(written_.c_str());
}

Attempt<std::string> SharedSecret::Path() const {
  std::string folder;
  struct stat status = {};
  // As the login left it, for this user alone.
  if (const char* const given = std::getenv("XDG_RUNTIME_DIR");
      given != nullptr && ::stat(given, &status) == 0 && S_ISDIR(status.st_mode) &&
      IsPrivate(status)) {
    folder = given;
  } else {
    folder = fmt::format("/tmp/stepcast-{}", ::geteuid());
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
      return tl::unexpected(SystemFailure("make the folder", folder, errno));
    }
    if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || !IsPrivate(status)) {
      return tl::unexpected(Failure{fmt::format(
          "'{}' is not a folder of this user's alone; set STEPCAST_JOB_SECRET to the same random "
          "text at all ranks instead",
          folder)});
    }
  }
  return fmt::format("{}/stepcast-job-{}", folder, ContentDigest(job_));
}

Attempt<std::string> SharedSecret::Write() {
  const auto path = Path();
  if (!path) return path;
  const std::string secret = Hex(RandomBytes(32));
  const std::string temporary = TemporaryName(*path);
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) return tl::unexpected(SystemFailure("create", *path, errno));
  const bool whole =
      ::write(descriptor, secret.data(), secret.size()) == static_cast<ssize_t>(secret.size());
  ::close(descriptor);
  if (!whole || ::rename(temporary.c_str(), path->c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return tl::unexpected(SystemFailure("write", *path, error));
  }
  written_ = *path;
  return secret;
}

Attempt<std::optional<std::string>> SharedSecret::Read() const {
  const auto path = Path();
  if (!path) return tl::unexpected(path.error());
  if (::access(path->c_str(), F_OK) != 0) return std::nullopt;
  auto secret = ReadSecret(*path);
  if (!secret) return std::nullopt;  // it was removed or replaced just now
  return std::optional(*std::move(secret));
}

}  // namespace stepcast::runtime
