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

// Opens named pipes. Opening waits for the process at the other end. If that takes more than two
// seconds, a line on stderr states what the command waits for.

// Opens a named pipe for reading. Returns the descriptor, or -1 with errno. When it returns, the
// first bytes have arrived or the writer has closed the pipe. Reads from the descriptor block.
int OpenPipeToRead(const std::string& path);

// Opens a named pipe for writing. Returns the descriptor, or -1 with errno. When it returns, a
// process is reading from the pipe. Does not follow symbolic links.
int OpenPipeToWrite(const std::string& path);

// Determines the file to which an output's name refers, and the symbolic links that may be
// followed. Every command that writes a file calls these functions.

// The file to which an output's name refers, after all symbolic links were followed.
struct Destination {
  std::string path;                   // without links; the file may not exist yet
  std::optional<struct stat> status;  // of the existing file; none: there is no file
  // The descriptor of this process to which the name refers, such as 1 for /dev/stdout; `path` is
  // then the link in /proc. None if the name refers to no descriptor.
  std::optional<int> descriptor;
};

// Returns whether a link, pipe or device belongs to the caller or to the system. In a folder in
// which everyone may write, such as /tmp, a link of another user can lead anywhere.
bool BelongsToCallerOrSystem(const struct stat& status);

// Follows all links in a path, including those in its folders. A path that continues below a file
// does not exist. An error is a sentence that names the path and the reason:
//   - a link of another user
//   - too many links
//   - a folder that may not be searched
//   - another user's folder inside a folder in which everyone may write, because its owner can
//     replace it with a link
tl::expected<Destination, std::string> FollowTrustedLinks(const std::string& path);

// Returns the error "cannot write 'PATH': it belongs to another user".
std::string AnothersOutput(const std::string& path);

// The largest size of an input file in bytes. The limit keeps a wrong path from filling the memory.
inline constexpr std::size_t kLargestInputFile = std::size_t{16} << 20;

// Reads a whole text file. On failure, appends the reason and returns none. Reading fails if the
// file does not exist, is a directory or a device, is not readable, is larger than
// kLargestInputFile, or is not text.
std::optional<std::string> ReadTextFile(const std::string& path, Diagnostics& diagnostics);

// Like ReadTextFile, but the content need not be valid text, because the output of other tools may
// contain terminal escape sequences. The caller must check the content.
std::optional<std::string> ReadAnyFile(const std::string& path, Diagnostics& diagnostics);

// Returns whether `text`, read from `file`, is allowed in an input file: UTF-8 without control
// characters other than tabs and line ends. If not, appends a mistake at the first invalid
// character.
bool CheckText(std::string_view text, const std::string& file, Diagnostics& diagnostics);

// An open input file. Commands open all input files with this class: regular files and pipes, never
// directories or devices. Opening a named pipe waits for its writer.
class InputFile {
 public:
  // Opens a file. On failure, appends the reason and returns none: the file does not exist, is a
  // directory or a device, or may not be read.
  static std::optional<InputFile> Open(const std::string& path, Diagnostics& diagnostics);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  // Fills `room` and returns the number of bytes read, which is smaller than `room` only at the end
  // of the file. If reading fails, appends the reason and returns none.
  std::optional<std::size_t> Read(std::span<char> room, Diagnostics& diagnostics);
  const std::string& path() const { return path_; }

 private:
  InputFile(std::string path, int descriptor);

  std::string path_;
  int descriptor_ = -1;
};

// Returns a 64-bit FNV-1a hash of a content, and the content's length: "1f0e2d3c4b5a6978-1234". The
// digest detects accidental changes, but not deliberate collisions.
std::string ContentDigest(std::string_view content);

// Records the files that the functions of this header read on the object's thread during the
// object's life.
class FilesRead {
 public:
  FilesRead();
  ~FilesRead();
  FilesRead(const FilesRead&) = delete;
  FilesRead& operator=(const FilesRead&) = delete;

  // Returns the digest of each file's content, indexed by the path under which the file was opened.
  const std::map<std::string, std::string>& digests() const { return digests_; }

  // Returns the paths under which files were opened on this thread since its outermost FilesRead
  // was created.
  static std::vector<std::string> PathsOfThread();

  // Only files.cc calls this function.
  static void Note(const std::string& path, std::string_view content);

 private:
  std::map<std::string, std::string> digests_;
  FilesRead* outer_;  // The enclosing FilesRead, which records the same files.
};

}  // namespace stepcast
