#include "src/base/files_read.h"

#include <cstdint>

#include "fmt/format.h"

namespace stepcast {
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
