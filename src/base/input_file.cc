#include "src/base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "src/base/named_pipe.h"

namespace stepcast {
namespace {

// What cannot be read, by what it is; nothing for files and pipes.
std::optional<Diagnostic> Refusal(const std::string& path, const struct stat& status) {
  if (S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode)) return std::nullopt;
  if (S_ISDIR(status.st_mode)) {
    return Diagnostic{
        "file.not-a-file", {path, 0, 0}, "this is a directory, not a file", "name a file in it"};
  }
  return Diagnostic{
      "file.not-a-file", {path, 0, 0}, "this is a device, not a file", "name a text file"};
}

Diagnostic Unreadable(const std::string& path, const char* hint) {
  return {"file.unreadable",
          {path, 0, 0},
          fmt::format("cannot be read: {}", std::strerror(errno)),
          hint};
}

}  // namespace

InputFile::InputFile(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::optional<InputFile> InputFile::Open(const std::string& path, Diagnostics& diagnostics) {
  const auto fail = [&](Diagnostic mistake) {
    diagnostics.push_back(std::move(mistake));
    return std::nullopt;
  };
  // The operating system would take what stands before the zero byte as the path.
  if (path.empty() || path.find('\0') != std::string::npos) {
    return fail({"file.not-found",
                 {path, 0, 0},
                 "there is no such file",
                 "a path has one character or more"});
  }
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return fail({"file.not-found",
                   {path, 0, 0},
                   "there is no such file",
                   "check the path for typing mistakes"});
    }
    return fail(Unreadable(path, ""));
  }
  if (auto refusal = Refusal(path, status)) return fail(*std::move(refusal));
  InputFile file(path, S_ISFIFO(status.st_mode)
                           ? OpenPipeToRead(path)
                           : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.descriptor_ < 0) return fail(Unreadable(path, "check the permissions of the file"));
  // What stands there may be another file by now.
  if (::fstat(file.descriptor_, &status) != 0) return fail(Unreadable(path, ""));
  if (auto refusal = Refusal(path, status)) return fail(*std::move(refusal));
  return file;
}

std::optional<std::size_t> InputFile::Read(std::span<char> room, Diagnostics& diagnostics) {
  std::size_t filled = 0;
  while (filled < room.size()) {
    const ssize_t count = ::read(descriptor_, room.data() + filled, room.size() - filled);
    if (count == 0) break;
    if (count > 0) {
      filled += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      diagnostics.push_back(Unreadable(path_, ""));
      return std::nullopt;
    }
  }
  return filled;
}

}  // namespace stepcast
