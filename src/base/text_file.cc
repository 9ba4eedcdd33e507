#include "src/base/text_file.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "fmt/format.h"
#include "src/base/files_read.h"
#include "src/base/utf8.h"

namespace stepcast {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

std::optional<std::string> ReadAnyFile(const std::string& path, Diagnostics& diagnostics) {
  const auto fail = [&](const char* code, std::string message, std::string hint) {
    diagnostics.push_back({code, {path, 0, 0}, std::move(message), std::move(hint)});
    return std::nullopt;
  };
  std::error_code error;
  // The operating system would take what stands before the zero byte as the path.
  if (path.empty() || path.find('\0') != std::string::npos) {
    return fail("file.not-found", "there is no such file", "a path has one character or more");
  }
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    return fail("file.not-found", "there is no such file", "check the path for typing mistakes");
  }
  if (status.type() == std::filesystem::file_type::directory) {
    return fail("file.not-a-file", "this is a directory, not a file", "name a file in it");
  }
  if (error) {
    return fail("file.unreadable", fmt::format("cannot be read: {}", error.message()), "");
  }
  // A pipe is what `<(command)` of a shell gives.
  if (status.type() != std::filesystem::file_type::regular &&
      status.type() != std::filesystem::file_type::fifo) {
    return fail("file.not-a-file", "this is a device, not a file", "name a text file");
  }

  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return fail("file.unreadable", fmt::format("cannot be read: {}", std::strerror(errno)),
                "check the permissions of the file");
  }
  std::string text;
  std::array<char, 1 << 16> block;
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), file.get())) {
    text.append(block.data(), count);
    if (text.size() > kLargestInputFile) {
      return fail("file.too-large",
                  fmt::format("larger than {} MiB, the most an input file may have",
                              kLargestInputFile >> 20),
                  "check that this is the right file");
    }
  }
  if (std::ferror(file.get()) != 0) {
    return fail("file.unreadable", fmt::format("cannot be read: {}", std::strerror(errno)), "");
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
    // Those beyond ASCII that act on a terminal, or on the order in which others are shown.
    const std::string_view character = text.substr(i, length);
    const std::string shown = length > 1 ? Quoted(character, "") : std::string();
    const bool hidden = length > 1 && shown != character;
    if (length == 0 || control || hidden) {
      diagnostics.push_back(
          {"file.not-text",
           {file, line, column},
           hidden    ? fmt::format("a character that changes how others are shown: {}", shown)
           : control ? fmt::format("a control character: byte 0x{:02x}", byte)
                     : fmt::format("not UTF-8 text: byte 0x{:02x}", byte),
           "input files are text in UTF-8"});
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

}  // namespace stepcast
