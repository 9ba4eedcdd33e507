#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tl/expected.hpp"

namespace stepcast::report {

// An output file that appears under its name only when it is complete. Until Commit(), its bytes
// are in a temporary file in the same folder, which the destructor and RemoveUnfinishedFiles()
// remove.
//
// If the name is a symbolic link, its target is replaced. A file that is not regular (a pipe,
// /dev/stdout) is written directly. If the name ends in .gz, the output is compressed, with equal
// bytes for equal content.
//
// If the caller owns the replaced file, the new file gets the replaced file's group and
// permissions. Set-user-id, set-group-id and the sticky bit are not copied. If the caller does not
// own the replaced file, the output file gets the permissions of a new file. Links, pipes and
// devices are refused if they belong to a user other than the caller or root. Disks are always
// refused.
//
// An error is a sentence with the file and the system's reason. After an error, the object must not
// be used again.
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

  std::string path_;       // path as the user wrote it, for messages
  std::string target_;     // the path to which the temporary file is renamed
  std::string temporary_;  // empty: the output is written directly
  int descriptor_ = -1;
  int slot_ = -1;                           // index in the list of unfinished files
  std::unique_ptr<Compressor> compressor_;  // null if not compressed
};

// Removes the temporary files of all OutputFiles that are not committed. Safe in a signal handler.
void RemoveUnfinishedFiles();

}  // namespace stepcast::report
