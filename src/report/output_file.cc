#include "src/report/output_file.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"

namespace stepcast::report {
namespace {

// The unfinished files, where a signal handler can find them: no locks, no allocation. A slot is
// taken, its path written, and only then marked as holding a file.
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

// Holds signals back, so that a handler never runs between the birth of a file and its entry in
// the list.
class SignalsHeldBack {
 public:
  SignalsHeldBack() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsHeldBack() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeldBack(const SignalsHeldBack&) = delete;
  SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;

 private:
  sigset_t before_;
};

// The permissions that an ordinary new file gets; mkstemp gives fewer.
mode_t OrdinaryMode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

}  // namespace

// A gzip file, piece by piece. Its header names neither a time nor a machine.
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

  // What is to be written after these bytes.
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
  std::string target = path;
  struct stat status = {};
  mode_t mode = OrdinaryMode();
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return tl::unexpected(Failure("write", path, EISDIR));
    if (!S_ISREG(status.st_mode)) {
      const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
      if (descriptor < 0) return tl::unexpected(Failure("write", path, errno));
      return OutputFile(path, path, "", descriptor, -1);
    }
    if (::access(path.c_str(), W_OK) != 0) return tl::unexpected(Failure("write", path, errno));
    mode = status.st_mode & 07777;
    char* const real = ::realpath(path.c_str(), nullptr);
    if (real == nullptr) return tl::unexpected(Failure("write", path, errno));
    target = real;
    std::free(real);
  }
  const std::filesystem::path file(target);
  if (!file.has_filename()) return tl::unexpected(Failure("write", path, EISDIR));
  std::string temporary =
      (file.parent_path() / fmt::format(".{}.XXXXXX", file.filename().string())).string();
  const SignalsHeldBack held_back;
  const int descriptor = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) return tl::unexpected(Failure("create", path, errno));
  // A relative name would mean another file to a handler that runs after a change of folder.
  const std::string absolute = std::filesystem::absolute(temporary).string();
  OutputFile result(path, target, temporary, descriptor, TakeSlot(absolute));
  if (::fchmod(descriptor, mode) != 0) return tl::unexpected(Failure("create", path, errno));
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
  // A full disk of a network file system may only tell when the file is closed.
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0) return tl::unexpected(Failure("write", path_, errno));
  if (temporary_.empty()) return {};
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    return tl::unexpected(Failure("write", path_, errno));
  }
  temporary_.clear();
  GiveSlotBack(std::exchange(slot_, -1));
  return {};
}

void RemoveUnfinishedFiles() {
  for (Slot& slot : unfinished) {
    if (slot.state.load() == kHoldsFile) ::unlink(slot.path);
  }
}

}  // namespace stepcast::report
