#include "src/base/text_lines.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <random>

#include "fmt/format.h"
#include "src/base/printable.h"
#include "src/base/utf8.h"

namespace stepcast {
std::string YamlQuoted(std::string_view text) {
  std::string quoted = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = std::max<std::size_t>(utf8::SequenceLength(text.substr(i, 4)), 1);
    const std::string_view character = text.substr(i, length);
    i += length;
    if (character == "\n") {
      quoted += "\\n";
    } else if (character == "\t") {
      quoted += "\\t";
    } else if (character == "\r") {
      quoted += "\\r";
    } else {
      for (const char c : Printable(character)) {
        if (c == '"' || c == '\\') quoted += '\\';
        quoted += c;
      }
    }
  }
  return quoted + '"';
}

std::string YamlScalar(std::string_view text) {
  return IsPlainYaml(text) ? std::string(text) : YamlQuoted(text);
}

bool IsPlainYaml(std::string_view text) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  if (text.empty() || text == "null" || text == "Null" || text == "NULL") return false;
  // "- a" is a list item, and "---" and "..." separate documents; "-1" and "./a" are neither.
  const bool number = text.front() == '-' && text.find_first_of(kLetters) == 1;
  const bool first = kLetters.find(text.front()) != std::string_view::npos || number ||
                     text.front() == '.' || text.front() == '/' || text.front() == '_';
  const bool others = std::all_of(text.begin(), text.end(), [&](char c) {
    return kLetters.find(c) != std::string_view::npos ||
           std::string_view("_-./+ ").find(c) != std::string_view::npos;
  });
  return first && others && text.back() != ' ' && !text.starts_with("...");
}

namespace {

std::atomic<int> holders = 0;  // SignalsHeldBack of all threads
std::atomic<bool> stopping = false;
thread_local int held_here = 0;

static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "atomic values in a signal handler must be lock-free");

}  // namespace

std::string TemporaryName(const std::string& target) {
  const std::filesystem::path path(target);
  std::random_device random;
  const std::uint64_t number = std::uint64_t{random()} << 32 | random();
  // File systems limit names to 255 bytes.
  constexpr std::size_t kMostKept = 200;
  const std::string name = path.filename().string();
  return (path.parent_path() / fmt::format(".{}.{:016x}", name.substr(0, kMostKept), number))
      .string();
}

bool SyncFolder(const std::string& folder) {
  const char* const name = folder.empty() ? "." : folder.c_str();
  const int descriptor = ::open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return errno == EACCES;  // a folder may be writable but not readable
  const bool done = ::fsync(descriptor) == 0 || errno == EINVAL;
  const int error = errno;
  ::close(descriptor);
  errno = error;
  return done;
}

SignalsHeldBack::SignalsHeldBack() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  // A process that is ending must not begin another file.
  while (held_here == 0 && stopping) ::pause();
  ++held_here;
  ++holders;
  if (held_here > 1 || !stopping) return;
  // LetFinish was called between the two checks.
  --holders;
  for (;;) ::pause();
}

SignalsHeldBack::~SignalsHeldBack() {
  --holders;
  --held_here;
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void SignalsHeldBack::LetFinish() {
  constexpr int kLongest = 5000;  // ms
  const int error = errno;
  stopping = true;
  for (int waited = 0; holders > held_here && waited < kLongest; ++waited) ::poll(nullptr, 0, 1);
  errno = error;
}

}  // namespace stepcast
