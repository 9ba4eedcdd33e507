#include "src/base/text_file.h"

#include <array>

#include "fmt/format.h"
#include "src/base/files_read.h"
#include "src/base/input_file.h"
#include "src/base/utf8.h"

namespace stepcast {

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
                             fmt::format("larger than {} MiB, the most an input file may have",
                                         kLargestInputFile >> 20),
                             "check that this is the right file"});
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
