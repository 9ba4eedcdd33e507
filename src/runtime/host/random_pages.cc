#include "src/runtime/host/random_pages.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace stepcast::runtime::host {
namespace {

constexpr std::int64_t kPageSize = 4096;
// The file that all memory is mapped from. A process may have some 65,000 mappings, so that this
// is enough for a TB.
constexpr std::int64_t kFile = 16 << 20;
// As many numbers are drawn; the file repeats them.
constexpr std::int64_t kNumbers = 1 << 16;
constexpr std::int64_t kTable = kNumbers * sizeof(std::uint16_t);
static_assert(kFile % kTable == 0);

const std::vector<std::uint16_t>& Numbers() {
  static const std::vector<std::uint16_t> numbers = [] {
    std::mt19937_64 random(1);
    std::vector<std::uint16_t> drawn(kNumbers);
    for (std::uint16_t& number : drawn) {
      const std::uint64_t bits = random();
      number = static_cast<std::uint16_t>(0x3c00u | (bits & 0x3ffu) | ((bits >> 32) & 0x8000u));
    }
    return drawn;
  }();
  return numbers;
}

// A file in memory that goes with the process; -1 where the system has none, or lets the process
// write none that large (`ulimit -f`).
int MakeFile() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < static_cast<rlim_t>(kFile))
    return -1;
  const int file = memfd_create("random numbers", MFD_CLOEXEC);
  for (std::int64_t at = 0; file >= 0 && at < kFile; at += kTable) {
    if (write(file, Numbers().data(), kTable) == kTable) continue;
    close(file);
    return -1;
  }
  return file;
}

// The same numbers in memory that is written at once.
std::byte* MapFilled(std::int64_t size, std::int64_t from) {
  void* const memory = mmap(nullptr, static_cast<std::size_t>(size), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const to = static_cast<std::byte*>(memory);
  const auto* const numbers = reinterpret_cast<const std::byte*>(Numbers().data());
  from %= kTable;
  for (std::int64_t at = 0; at < size;) {
    const std::int64_t length = std::min(size - at, kTable - from);
    std::memcpy(to + at, numbers + from, static_cast<std::size_t>(length));
    at += length;
    from = 0;
  }
  return to;
}

}  // namespace

std::byte* MapRandomPages(std::int64_t size, std::uint64_t seed) {
  static const int file = MakeFile();
  constexpr std::int64_t kPages = kFile / kPageSize;
  std::int64_t from = static_cast<std::int64_t>(seed % kPages) * kPageSize;
  if (file < 0) return MapFilled(size, from);
  // The addresses first, so that the pieces lie behind one another.
  void* const reserved = mmap(nullptr, static_cast<std::size_t>(size), PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  auto* const memory = static_cast<std::byte*>(reserved);
  for (std::int64_t at = 0; at < size;) {
    const std::int64_t length = std::min(size - at, kFile - from);
    const void* const piece = mmap(memory + at, static_cast<std::size_t>(length),
                                   PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, from);
    if (piece == MAP_FAILED) {
      munmap(reserved, static_cast<std::size_t>(size));
      return nullptr;
    }
    at += length;
    from = 0;
  }
  return memory;
}

}  // namespace stepcast::runtime::host
