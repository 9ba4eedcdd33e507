#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "tl/expected.hpp"

namespace stepcast {

// Opens named pipes, which requires a process at the other end. After two seconds without such a
// process, a line on stderr states what the command waits for.

// Opens a named pipe for reading. Returns the descriptor, or -1 with errno. Returns after the first
// bytes have arrived or the writer has closed the pipe. Later reads wait for data.
int OpenPipeToRead(const std::string& path);

// Opens a named pipe for writing. Returns the descriptor, or -1 with errno. Returns only when a
// process reads from the pipe. Does not follow symbolic links.
int OpenPipeToWrite(const std::string& path);

// Resolves the names of output files, and decides which symbolic links to follow. Every command
// that writes files uses these functions.

// The file to which an output's name refers, after all symbolic links are followed.
struct Destination {
  std::string path;                   // contains no links; the file may not exist yet
  std::optional<struct stat> status;  // status of the existing file; none: the file does not exist
  // The descriptor of this process that the name refers to, such as 1 for /dev/stdout. `path` is
  // then the link in /proc. None if the name refers to no descriptor.
  std::optional<int> descriptor;
};

// Returns whether a link, pipe or device belongs to the caller or to the system. In a folder that
// is writable for all users, such as /tmp, another user's link can point to any file.
bool BelongsToCallerOrSystem(const struct stat& status);

// Follows all links in a path, including links in its folders. A path below a regular file does not
// exist. An error is a sentence with the path and one of these reasons:
//   - a link of another user
//   - too many links
//   - a folder without search permission
//   - another user's folder inside a folder that is writable for all users, because the owner can
//     replace the inner folder with a link
tl::expected<Destination, std::string> FollowTrustedLinks(const std::string& path);

// Returns the message "cannot write 'PATH': it belongs to another user".
std::string AnothersOutput(const std::string& path);

// The largest size of an input file in bytes. The limit prevents a wrong path from exhausting the
// memory.
inline constexpr std::size_t kLargestInputFile = std::size_t{16} << 20;

// Reads a complete text file. On failure, appends a diagnostic and returns none. Fails if the file
// does not exist, is a directory or device, is not readable, is larger than kLargestInputFile, or
// is not text.
std::optional<std::string> ReadTextFile(const std::string& path, Diagnostics& diagnostics);

// Like ReadTextFile, but does not require valid text. For the output of other tools, which may
// contain terminal escape sequences. The caller must check the content.
std::optional<std::string> ReadAnyFile(const std::string& path, Diagnostics& diagnostics);

// Returns whether `text`, read from `file`, is valid in an input file: UTF-8 without control
// characters except tabs and line ends. If `text` is invalid, appends a mistake at the first
// invalid character.
bool CheckText(std::string_view text, const std::string& file, Diagnostics& diagnostics);

// An open input file: a regular file or a pipe, never a directory or device. Commands open all
// input files with this class. Opening a named pipe waits for its writer.
class InputFile {
 public:
  // Opens a file. Appends a diagnostic and returns none if the file does not exist, is a directory
  // or device, or is not readable.
  static std::optional<InputFile> Open(const std::string& path, Diagnostics& diagnostics);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  // Fills `room` and returns the number of bytes read, which is smaller than `room` only at the end
  // of the file. On failure, appends a diagnostic and returns none.
  std::optional<std::size_t> Read(std::span<char> room, Diagnostics& diagnostics);
  const std::string& path() const { return path_; }

 private:
  InputFile(std::string path, int descriptor);

  std::string path_;
  int descriptor_ = -1;
};

// Returns the 64-bit FNV-1a hash and the length of `content`: "1f0e2d3c4b5a6978-1234". The digest
// detects accidental changes, but not deliberate changes.
std::string ContentDigest(std::string_view content);

// Records the input files that the current thread reads during the object's lifetime. Scopes may be
// nested.
class FilesRead {
 public:
  FilesRead();
  ~FilesRead();
  FilesRead(const FilesRead&) = delete;
  FilesRead& operator=(const FilesRead&) = delete;

  // Returns the digest of each file's content, indexed by the path under which the file was opened.
  const std::map<std::string, std::string>& digests() const { return digests_; }

  // Returns the paths that this thread has opened since its outermost FilesRead was created.
  static std::vector<std::string> PathsOfThread();

  // Only files.cc calls this function.
  static void Note(const std::string& path, std::string_view content);

 private:
  std::map<std::string, std::string> digests_;
  FilesRead* outer_;  // the enclosing FilesRead, which records the same files
};

}  // namespace stepcast
