#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tl/expected.hpp"

namespace stepcast::report {

// A file that appears under its name only when it is complete. Until Commit() the bytes stand in a
// temporary file of the same folder; the destructor removes it, and so does
// RemoveUnfinishedFiles(), which a signal handler may call. A symbolic link keeps pointing where it
// did: its target is replaced. What is not a regular file (a pipe, /dev/stdout) is written
// directly, because it cannot be replaced. What is written under a name that ends in .gz is
// compressed; the same bytes give the same file.
//
// A file that replaces one of the caller's own keeps its permissions and group, but for
// set-user-id, set-group-id and the sticky bit; any other gets those of a new file. Links, pipes
// and devices of another user than the caller or root are refused, and so are disks.
//
// Errors are a sentence that names the file and the system's reason. After an error the file can
// only be destroyed.
class OutputFile {
 public:
  static tl::expected<OutputFile, std::string> Create(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  tl::expected<void, std::string> Write(std::string_view bytes);
  tl::expected<void, std::string> Commit();

 private:
  class Compressor;

  OutputFile(std::string path, std::string target, std::string temporary, int descriptor, int slot);
  tl::expected<void, std::string> WriteAsItIs(std::string_view bytes);

  std::string path_;       // as the user wrote it, for messages
  std::string target_;     // what the temporary file is renamed to
  std::string temporary_;  // empty: written directly
  int descriptor_ = -1;
  int slot_ = -1;                           // in the list of unfinished files
  std::unique_ptr<Compressor> compressor_;  // null: bytes are written as they are
};

// Removes the temporary files of every OutputFile that is not committed. Safe in a signal handler.
void RemoveUnfinishedFiles();

}  // namespace stepcast::report
