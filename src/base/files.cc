#include "src/base/files.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "src/base/printable.h"
#include "src/base/utf8.h"

namespace stepcast {
namespace {

constexpr int kMoment = 2000;  // ms, after which a message states what the command waits for

void SayWaiting(const char* whom, const std::string& path) {
  const std::string sentence =
      fmt::format("stepcast: waiting for {} the pipe {}\n", whom, Printable(path));
  std::fputs(sentence.c_str(), stderr);
  std::fflush(stderr);
}

bool SetBlocking(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  return flags >= 0 && ::fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

int Closed(int descriptor) {
  const int error = errno;
  ::close(descriptor);
  errno = error;
  return -1;
}

}  // namespace

int OpenPipeToRead(const std::string& path) {
  // O_NONBLOCK makes open return at once; poll then waits for the first writer and its bytes
  // (pipe(7), poll(2)).
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return -1;
  struct pollfd end = {descriptor, POLLIN, 0};
  int ready = ::poll(&end, 1, kMoment);
  if (ready == 0) SayWaiting("a writer of", path);
  while (ready == 0 || (ready < 0 && errno == EINTR)) ready = ::poll(&end, 1, -1);
  if (ready < 0 || !SetBlocking(descriptor)) return Closed(descriptor);
  return descriptor;
}

int OpenPipeToWrite(const std::string& path) {
  constexpr int kPause = 10;  // ms
  // With O_NONBLOCK, open fails with ENXIO until a process reads the pipe (open(2)).
  for (int waited = 0;; waited += kPause) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (descriptor >= 0) return SetBlocking(descriptor) ? descriptor : Closed(descriptor);
    if (errno != ENXIO && errno != EINTR) return -1;
    if (waited == kMoment) SayWaiting("a reader of", path);
    ::poll(nullptr, 0, kPause);
  }
}

std::optional<std::string> ReadAnyFile(const std::string& path, Diagnostics& diagnostics) {
  std::optional<InputFile> file = InputFile::Open(path, diagnostics);
  if (!file) return std::nullopt;
  std::string text;
  std::array<char, 1 << 16> block;
  for (;;) {
    const auto count = file->Read(block, diagnostics);
    if (!count) return std::nullopt;
    text.append(block.data(), *count);
    if (text.size() > kLargestInputFile) {
      diagnostics.push_back({"file.too-large",
                             {path, 0, 0},
                             fmt::format("the input file is larger than the maximum of {} MiB",
                                         kLargestInputFile >> 20),
                             "check that the path is correct"});
      return std::nullopt;
    }
    if (*count < block.size()) break;
  }
  FilesRead::Note(path, text);
  return text;
}

std::optional<std::string> ReadTextFile(const std::string& path, Diagnostics& diagnostics) {
  std::optional<std::string> text = ReadAnyFile(path, diagnostics);
  if (text && !CheckText(*text, path, diagnostics)) return std::nullopt;
  return text;
}

bool CheckText(std::string_view text, const std::string& file, Diagnostics& diagnostics) {
  int line = 1, column = 1;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = utf8::SequenceLength(text.substr(i, 4));
    const bool control =
        (byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t') || byte == 0x7F;
    // Non-ASCII characters that act on a terminal or change the order of the text shown.
    const std::string_view character = text.substr(i, length);
    const std::string shown = length > 1 ? Quoted(character, "") : std::string();
    const bool hidden = length > 1 && shown != character;
    if (length == 0 || control || hidden) {
      diagnostics.push_back({"file.not-text",
                             {file, line, column},
                             hidden ? fmt::format("the text contains an invisible character that "
                                                  "changes how other characters are displayed: {}",
                                                  shown)
                             : control ? fmt::format("a control character: byte 0x{:02x}", byte)
                                       : fmt::format("not UTF-8 text: byte 0x{:02x}", byte),
                             "convert the file to UTF-8 text"});
      return false;
    }
    i += length;
    column += static_cast<int>(length);
    if (byte == '\n') {
      ++line;
      column = 1;
    }
  }
  return true;
}

namespace {

// The mistake for a path that is neither a file nor a pipe; none for files and pipes.
std::optional<Diagnostic> Refusal(const std::string& path, const struct stat& status) {
  if (S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode)) return std::nullopt;
  if (S_ISDIR(status.st_mode)) {
    return Diagnostic{"file.not-a-file",
                      {path, 0, 0},
                      "the path leads to a directory, not to a file",
                      "write the path of a file in this directory"};
  }
  return Diagnostic{"file.not-a-file",
                    {path, 0, 0},
                    "the path leads to a device, not to a file",
                    "write the path of a text file"};
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
  // The operating system would take the text before a zero byte as the path.
  if (path.empty() || path.find('\0') != std::string::npos) {
    return fail(
        {"file.not-found", {path, 0, 0}, "there is no such file", "write the path of a file"});
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
  // The path may now lead to another file, so check the open file.
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

namespace {

thread_local FilesRead* innermost = nullptr;

}  // namespace

std::string ContentDigest(std::string_view content) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : content) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 0x100000001b3;
  }
  return fmt::format("{:016x}-{}", hash, content.size());
}

FilesRead::FilesRead() : outer_(innermost) { innermost = this; }

FilesRead::~FilesRead() { innermost = outer_; }

std::vector<std::string> FilesRead::PathsOfThread() {
  const FilesRead* outermost = innermost;
  while (outermost != nullptr && outermost->outer_ != nullptr) outermost = outermost->outer_;
  std::vector<std::string> paths;
  if (outermost == nullptr) return paths;
  for (const auto& [path, digest] : outermost->digests_) paths.push_back(path);
  return paths;
}

void FilesRead::Note(const std::string& path, std::string_view content) {
  if (innermost == nullptr) return;
  const std::string digest = ContentDigest(content);
  for (FilesRead* reader = innermost; reader != nullptr; reader = reader->outer_) {
    reader->digests_[path] = digest;
  }
}

}  // namespace stepcast
