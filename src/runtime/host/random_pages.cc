#include "src/runtime/host/random_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <vector>

namespace stepcast::runtime::host {
namespace {

constexpr std::int64_t kPage = 4096;
// The file that all memory is mapped from. A process may have some 65,000 mappings, so that this
// is enough for a TB.
constexpr std::int64_t kFile = 16 << 20;
// As many numbers are drawn; the file repeats them.
constexpr std::int64_t kNumbers = 1 << 16;

// A file in memory that goes with the process; -1 where the system has none.
int MakeFile() {
  std::mt19937_64 random(1);
  std::vector<std::uint16_t> numbers(kNumbers);
  for (std::uint16_t& number : numbers) {
    const std::uint64_t bits = random();
    number = static_cast<std::uint16_t>(0x3c00u | (bits & 0x3ffu) | ((bits >> 32) & 0x8000u));
  }
  const int file = memfd_create("random numbers", MFD_CLOEXEC);
  constexpr auto kBytes = static_cast<ssize_t>(kNumbers * sizeof(std::uint16_t));
  static_assert(kFile % kBytes == 0);
  for (std::int64_t at = 0; file >= 0 && at < kFile; at += kBytes) {
    if (write(file, numbers.data(), kBytes) == kBytes) continue;
    close(file);
    return -1;
  }
  return file;
}

}  // namespace

std::byte* MapRandomPages(std::int64_t size, std::uint64_t seed) {
  static const int file = MakeFile();
  if (file < 0) return nullptr;
  // The addresses first, so that the pieces lie behind one another.
  void* const reserved = mmap(nullptr, static_cast<std::size_t>(size), PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  auto* const memory = static_cast<std::byte*>(reserved);
  constexpr std::int64_t kPages = kFile / kPage;
  std::int64_t from = static_cast<std::int64_t>(seed % kPages) * kPage;
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
