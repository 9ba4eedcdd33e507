#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tl/expected.hpp"

namespace stepcast::report {

// A file that appears under its name only when it is complete. Until Commit(), its bytes are in a
// temporary file in the same folder. The destructor removes the temporary file, and so does
// RemoveUnfinishedFiles(), which a signal handler may call.
//
// If the name is a symbolic link, its target is replaced and the link stays. Output that is not a
// regular file (a pipe, /dev/stdout) cannot be replaced and is written directly. If the name ends
// in .gz, the output is compressed; equal bytes give equal files.
//
// A file that replaces the caller's own file keeps its permissions and group, without set-user-id,
// set-group-id and the sticky bit. Any other file gets the permissions of a new file. Links, pipes
// and devices of users other than the caller or root are refused, and so are disks.
//
// An error is a sentence that names the file and the system's reason. After an error, the object
// can only be destroyed.
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
  std::string temporary_;  // empty if written directly
  int descriptor_ = -1;
  int slot_ = -1;                           // in the list of unfinished files
  std::unique_ptr<Compressor> compressor_;  // null if not compressed
};

// Removes the temporary files of all OutputFiles that are not committed. Safe in a signal handler.
void RemoveUnfinishedFiles();

}  // namespace stepcast::report
