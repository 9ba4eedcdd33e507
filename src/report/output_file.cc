#include "src/report/output_file.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/text_lines.h"

namespace stepcast::report {
namespace {

// The list of unfinished files for a signal handler: no locks, no allocation. A slot is reserved,
// its path is written, and only then it is marked as used.
constexpr int kFree = 0;
constexpr int kTaken = 1;
constexpr int kHoldsFile = 2;
struct Slot {
  std::atomic<int> state{kFree};
  char path[PATH_MAX] = {};
};
Slot unfinished[8];

int TakeSlot(const std::string& path) {
  if (path.size() >= PATH_MAX) return -1;
  for (int i = 0; i < static_cast<int>(std::size(unfinished)); ++i) {
    int expected = kFree;
    if (!unfinished[i].state.compare_exchange_strong(expected, kTaken)) continue;
    std::memcpy(unfinished[i].path, path.c_str(), path.size() + 1);
    unfinished[i].state.store(kHoldsFile);
    return i;
  }
  return -1;
}

void GiveSlotBack(int slot) {
  if (slot >= 0) unfinished[slot].state.store(kFree);
}

std::string Failure(const char* doing, const std::string& path, int error) {
  return fmt::format("cannot {} '{}': {}", doing, path, std::strerror(error));
}

std::string Refusal(const std::string& path, const char* reason) {
  return fmt::format("cannot write '{}': {}", path, reason);
}

// Opens an output that cannot be replaced.
tl::expected<int, std::string> OpenInPlace(const std::string& path,
                                           const Destination& destination) {
  if (destination.descriptor) {
    // The duplicate continues at the present offset, also in the middle of a file.
    const int twin = ::fcntl(*destination.descriptor, F_DUPFD_CLOEXEC, 0);
    if (twin < 0) return tl::unexpected(Failure("write", path, errno));
    return twin;
  }
  const struct stat& expected = *destination.status;
  if (S_ISDIR(expected.st_mode)) return tl::unexpected(Failure("write", path, EISDIR));
  if (S_ISBLK(expected.st_mode)) return tl::unexpected(Refusal(path, "it is a disk"));
  if (!BelongsToCallerOrSystem(expected)) return tl::unexpected(AnothersOutput(path));
  const int descriptor = S_ISFIFO(expected.st_mode)
                             ? OpenPipeToWrite(destination.path)
                             : ::open(destination.path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return tl::unexpected(Failure("write", path, errno));
  struct stat opened = {};
  if (::fstat(descriptor, &opened) != 0 || opened.st_dev != expected.st_dev ||
      opened.st_ino != expected.st_ino) {
    ::close(descriptor);
    return tl::unexpected(Refusal(path, "another process has just replaced the file"));
  }
  return descriptor;
}

// Copies the permissions of the caller's own file, without set-user-id and the like. The group's
// permissions are copied only if the new file can have the same group.
bool TakeOver(const struct stat& replaced, int descriptor) {
  mode_t mode = replaced.st_mode & 0777;
  struct stat made = {};
  if (::fstat(descriptor, &made) != 0) return false;
  if (made.st_gid != replaced.st_gid && ::fchown(descriptor, -1, replaced.st_gid) != 0) {
    mode &= ~static_cast<mode_t>(S_IRWXG) | (mode & S_IRWXO) << 3;
  }
  return ::fchmod(descriptor, mode) == 0;
}

}  // namespace

// Compresses to gzip piece by piece. The header contains neither time nor machine.
class OutputFile::Compressor {
 public:
  Compressor() {
    constexpr int kGzip = 16 + MAX_WBITS, kMemory = 8;
    STEPCAST_CHECK(::deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, kMemory,
                                  Z_DEFAULT_STRATEGY) == Z_OK,
                   "zlib has memory");
  }
  ~Compressor() { ::deflateEnd(&stream_); }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  // The compressed bytes to be written after these bytes.
  std::string Add(std::string_view bytes) { return Deflate(bytes, Z_NO_FLUSH); }
  std::string End() { return Deflate("", Z_FINISH); }

 private:
  std::string Deflate(std::string_view bytes, int flush) {
    std::string out;
    do {
      // avail_in has 32 bits.
      const std::string_view piece = bytes.substr(0, 1 << 30);
      bytes.remove_prefix(piece.size());
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
      stream_.avail_in = static_cast<uInt>(piece.size());
      do {
        char block[1 << 14];
        stream_.next_out = reinterpret_cast<Bytef*>(block);
        stream_.avail_out = sizeof(block);
        ::deflate(&stream_, flush);
        out.append(block, sizeof(block) - stream_.avail_out);
      } while (stream_.avail_out == 0);
    } while (!bytes.empty());
    return out;
  }

  z_stream stream_{};
};

OutputFile::OutputFile(std::string path, std::string target, std::string temporary, int descriptor,
                       int slot)
    : path_(std::move(path)),
      target_(std::move(target)),
      temporary_(std::move(temporary)),
      descriptor_(descriptor),
      slot_(slot),
      compressor_(path_.ends_with(".gz") ? std::make_unique<Compressor>() : nullptr) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, std::string())),
      descriptor_(std::exchange(other.descriptor_, -1)),
      slot_(std::exchange(other.slot_, -1)),
      compressor_(std::move(other.compressor_)) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  GiveSlotBack(slot_);
}

tl::expected<OutputFile, std::string> OutputFile::Create(const std::string& path) {
  if (path.empty()) return tl::unexpected(std::string("the name of the output file is empty"));
  auto destination = FollowTrustedLinks(path);
  if (!destination) return tl::unexpected(std::move(destination.error()));
  const std::string& target = destination->path;
  const auto& replaced = destination->status;
  if (replaced && (destination->descriptor || !S_ISREG(replaced->st_mode))) {
    const auto descriptor = OpenInPlace(path, *destination);
    if (!descriptor) return tl::unexpected(descriptor.error());
    return OutputFile(path, path, "", *descriptor, -1);
  }
  if (replaced && ::access(target.c_str(), W_OK) != 0) {
    return tl::unexpected(Failure("write", path, errno));
  }
  if (!std::filesystem::path(path).has_filename()) {
    return tl::unexpected(Failure("write", path, EISDIR));
  }
  // Permissions of another user's file are not copied.
  const bool own = replaced && replaced->st_uid == ::geteuid();
  const SignalsHeldBack held_back;
  std::string temporary;
  int descriptor = -1;
  do {
    temporary = TemporaryName(target);
    descriptor =
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, own ? 0600 : 0666);
  } while (descriptor < 0 && errno == EEXIST);
  if (descriptor < 0) return tl::unexpected(Failure("create", path, errno));
  // An absolute path, since a handler may run after a change of folder.
  std::error_code error;
  const std::string absolute = std::filesystem::absolute(temporary, error).string();
  OutputFile result(path, target, temporary, descriptor, TakeSlot(error ? temporary : absolute));
  if (own && !TakeOver(*replaced, descriptor)) {
    return tl::unexpected(Failure("create", path, errno));
  }
  return result;
}

tl::expected<void, std::string> OutputFile::Write(std::string_view bytes) {
  return compressor_ ? WriteAsItIs(compressor_->Add(bytes)) : WriteAsItIs(bytes);
}

tl::expected<void, std::string> OutputFile::WriteAsItIs(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return tl::unexpected(Failure("write", path_, errno));
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

tl::expected<void, std::string> OutputFile::Commit() {
  if (compressor_) {
    if (auto written = WriteAsItIs(compressor_->End()); !written) return written;
  }
  // After a power failure, the name stands for the old file or for the whole new one.
  if (!temporary_.empty() && ::fsync(descriptor_) != 0 && errno != EINVAL) {
    return tl::unexpected(Failure("write", path_, errno));
  }
  // A network file system may report a full disk only when the file is closed.
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0) return tl::unexpected(Failure("write", path_, errno));
  if (temporary_.empty()) return {};
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    return tl::unexpected(Failure("write", path_, errno));
  }
  temporary_.clear();
  GiveSlotBack(std::exchange(slot_, -1));
  if (!SyncFolder(std::filesystem::path(target_).parent_path().string())) {
    return tl::unexpected(Failure("write", path_, errno));
  }
  return {};
}

void RemoveUnfinishedFiles() {
  for (Slot& slot : unfinished) {
    if (slot.state.load() == kHoldsFile) ::unlink(slot.path);
  }
}

}  // namespace stepcast::report
