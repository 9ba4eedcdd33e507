#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "src/base/diagnostic.h"

namespace stepcast {

// An input file that is open. Every file that a command reads for the user is opened here: files
// and pipes, never directories and devices. A named pipe that nothing writes into yet is waited
// for (named_pipe.h).
class InputFile {
 public:
  // Appends why not and returns nothing: there is no such file, it is a directory or a device, it
  // may not be read.
  static std::optional<InputFile> Open(const std::string& path, Diagnostics& diagnostics);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  // Fills the room, or as much of it as the file still has: fewer bytes come at its end alone.
  // Appends why not and returns nothing where reading fails.
  std::optional<std::size_t> Read(std::span<char> room, Diagnostics& diagnostics);
  const std::string& path() const { return path_; }

 private:
  InputFile(std::string path, int descriptor);

  std::string path_;
  int descriptor_ = -1;
};

}  // namespace stepcast
