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

// Opens named pipes, which waits for the process at the other end. If that takes more than two
// seconds, a line on stderr says what the command waits for.

// Returns the descriptor, or -1 with errno. When it returns, the first bytes have arrived or the
// writer has closed the pipe. Reads from the descriptor block.
int OpenPipeToRead(const std::string& path);

// Returns the descriptor, or -1 with errno. When it returns, a process reads the pipe. Symbolic
// links are not followed.
int OpenPipeToWrite(const std::string& path);

// Decides which file an output's name leads to, and which symbolic links it may pass through. Every
// command that writes a file calls these functions.

// The file that an output's name stands for after all symbolic links are followed.
struct Destination {
  std::string path;                   // without links; a name that may not exist yet
  std::optional<struct stat> status;  // of what is there; none: nothing is
  // The descriptor of this process that the name stands for: 1 for /dev/stdout. `path` is then the
  // link in /proc.
  std::optional<int> descriptor;
};

// Whether a link, pipe or device belongs to the caller or to the system. In a folder that everyone
// may write to, such as /tmp, another user's link can lead anywhere.
bool BelongsToCallerOrSystem(const struct stat& status);

// Follows all links of a path, including those of its folders. Nothing exists below a path that is
// a file. The error is a sentence that names the path and the reason:
// - a link of another user,
// - too many links,
// - a folder that may not be searched,
// - another user's folder inside a folder that everyone may write to, since its owner can replace
//   it with a link.
tl::expected<Destination, std::string> FollowTrustedLinks(const std::string& path);

// "cannot write 'PATH': it belongs to another user".
std::string AnothersOutput(const std::string& path);

// The largest input file, so that a wrong path cannot fill the memory.
inline constexpr std::size_t kLargestInputFile = std::size_t{16} << 20;

// Reads a whole text file. On failure it appends the reason and returns nothing: the file does not
// exist, is a directory or a device, cannot be read, is larger than kLargestInputFile, or is not
// text.
std::optional<std::string> ReadTextFile(const std::string& path, Diagnostics& diagnostics);

// Like ReadTextFile, for the output of other tools, which need not be text (terminal escape
// sequences). The caller must check the content.
std::optional<std::string> ReadAnyFile(const std::string& path, Diagnostics& diagnostics);

// Whether `text`, read from `file`, is valid in an input file: UTF-8 without control characters
// other than tabs and line ends. Otherwise appends the position of the first invalid character.
bool CheckText(std::string_view text, const std::string& file, Diagnostics& diagnostics);

// An open input file. Commands open every input file here: regular files and pipes, never
// directories or devices. Opening a named pipe waits for its writer.
class InputFile {
 public:
  // On failure, appends the reason and returns nothing: there is no such file, it is a directory or
  // a device, or it may not be read.
  static std::optional<InputFile> Open(const std::string& path, Diagnostics& diagnostics);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  // Fills `room`; fewer bytes are returned only at the end of the file. Appends the reason and
  // returns nothing if reading fails.
  std::optional<std::size_t> Read(std::span<char> room, Diagnostics& diagnostics);
  const std::string& path() const { return path_; }

 private:
  InputFile(std::string path, int descriptor);

  std::string path_;
  int descriptor_ = -1;
};

// A 64-bit FNV-1a hash of a content, and its length: "1f0e2d3c4b5a6978-1234". It detects accidental
// changes, not intended collisions.
std::string ContentDigest(std::string_view content);

// While an object lives, it records the files that this file's functions read on its thread.
class FilesRead {
 public:
  FilesRead();
  ~FilesRead();
  FilesRead(const FilesRead&) = delete;
  FilesRead& operator=(const FilesRead&) = delete;

  // The digest of each content, by the path as it was opened.
  const std::map<std::string, std::string>& digests() const { return digests_; }

  // The paths recorded on this thread since its outermost FilesRead was made, as they were opened.
  static std::vector<std::string> PathsOfThread();

  // Called by files.cc.
  static void Note(const std::string& path, std::string_view content);

 private:
  std::map<std::string, std::string> digests_;
  FilesRead* outer_;  // The enclosing FilesRead, which records the same files.
};

}  // namespace stepcast
