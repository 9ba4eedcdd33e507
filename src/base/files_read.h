#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

// 64 bits of a content and its length, "1f0e2d3c4b5a6978-1234": equal for equal contents, and as
// good as never for two that happen to differ (FNV-1a; no protection against intent).
std::string ContentDigest(std::string_view content);

// While it lives, notes what the functions of text_file.h read on the thread that made it.
class FilesRead {
 public:
  FilesRead();
  ~FilesRead();
  FilesRead(const FilesRead&) = delete;
  FilesRead& operator=(const FilesRead&) = delete;

  // Path as it was opened, and digest of the content.
  const std::map<std::string, std::string>& digests() const { return digests_; }

  // What was noted on this thread since its outermost FilesRead was made, as it was opened.
  static std::vector<std::string> PathsOfThread();

  // For text_file.cc.
  static void Note(const std::string& path, std::string_view content);

 private:
  std::map<std::string, std::string> digests_;
  FilesRead* outer_;  // that this one is within, and which notes the same
};

}  // namespace stepcast
