#include "src/formats/trace_text.h"

#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fmt/format.h"

namespace stepcast::formats {

std::optional<std::string> ReadTrace(const std::string& path, Diagnostics& diagnostics,
                                     std::size_t largest) {
  const auto fail = [&](const char* code, std::string message, std::string hint) {
    diagnostics.push_back({code, {path, 0, 0}, std::move(message), std::move(hint)});
    return std::nullopt;
  };
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (path.empty() || status.type() == std::filesystem::file_type::not_found) {
    return fail("file.not-found", "there is no such file", "check the path for typing mistakes");
  }
  if (status.type() == std::filesystem::file_type::directory) {
    return fail("file.not-a-file", "this is a directory, not a file", "name a file in it");
  }
  const gzFile file = ::gzopen(path.c_str(), "rbe");
  if (file == nullptr) {
    return fail("file.unreadable", fmt::format("cannot be read: {}", std::strerror(errno)),
                "check the permissions of the file");
  }
  std::string text;
  std::array<char, 1 << 16> block;
  int count = 0;
  while ((count = ::gzread(file, block.data(), block.size())) > 0) {
    text.append(block.data(), static_cast<std::size_t>(count));
    if (text.size() > largest) break;
  }
  int code = Z_OK;
  const std::string what = ::gzerror(file, &code);
  const int closed = ::gzclose_r(file);
  if (text.size() > largest) {
    return fail(
        "file.too-large",
        fmt::format("larger than {} MiB when unpacked, the most a trace may be", largest >> 20),
        "trace fewer steps");
  }
  // A file that ends too early shows when it is closed.
  if (count < 0 || closed != Z_OK) {
    return fail("file.bad-compression",
                fmt::format("the compressed file is damaged or cut off: {}",
                            what.empty() ? "it ends too early" : what),
                "copy it again");
  }
  if (text.empty()) return fail("file.empty", "the file holds no value", "");
  return text;
}

}  // namespace stepcast::formats
