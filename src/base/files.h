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

// Opening a named pipe waits for who opens its other end. Where that takes more than a moment,
// stderr says what is waited for: a command that stands still without a word looks broken.

// The descriptor, from which reading waits as usual; -1, with errno, where it cannot be opened. The
// first bytes are there when it returns, or the writer has closed the pipe again.
int OpenPipeToRead(const std::string& path);

// The descriptor; -1, with errno. Something reads the pipe when it returns. Symbolic links are not
// followed.
int OpenPipeToWrite(const std::string& path);

// This file decides which file the name of an output leads to, and through whose symbolic links it
// may lead there. Every command that writes a file asks it.

// A destination is the file that an output's name stands for once all symbolic links are followed.
struct Destination {
  std::string path;                   // without links; a name that may not exist yet
  std::optional<struct stat> status;  // of what is there; none: nothing is
  // The process's own open descriptor that the name stands for: 1 for /dev/stdout. `path` is then
  // the link in /proc that says so.
  std::optional<int> descriptor;
};

// Whether a link, pipe or device belongs to the caller or to the system. Those of another user lead
// where that user wants, and in a folder that all may write to, such as /tmp, any user can put one.
bool BelongsToCallerOrSystem(const struct stat& status);

// Follows all links of a path, those of its folders, too. Below a file, which is no folder, nothing
// is there. The error is a sentence that names the path and the reason: a link of another user, too
// many links, a folder that may not be searched, another user's folder in one that all may write
// to: its owner can put a link in its place at any time.
tl::expected<Destination, std::string> FollowTrustedLinks(const std::string& path);

// "cannot write 'PATH': it belongs to another user".
std::string AnothersOutput(const std::string& path);

// No input file is larger; a limit, so that a wrong path cannot fill the memory.
inline constexpr std::size_t kLargestInputFile = std::size_t{16} << 20;

// The whole of a text file. Otherwise appends why not and returns nothing: it does not exist, is a
// directory or a device, cannot be read, is larger than kLargestInputFile, or is not text.
std::optional<std::string> ReadTextFile(const std::string& path, Diagnostics& diagnostics);

// The same for what other tools wrote: it need not be text (terminals' escape sequences). A caller
// that takes it apart checks it.
std::optional<std::string> ReadAnyFile(const std::string& path, Diagnostics& diagnostics);

// Whether `text`, read from `file`, is what an input file may hold: UTF-8 without control
// characters (tabs and line ends apart). Otherwise appends where it stops being so.
bool CheckText(std::string_view text, const std::string& file, Diagnostics& diagnostics);

// An input file that is open. Every file that a command reads for the user is opened here: files
// and pipes, never directories and devices. A named pipe that nothing writes into yet is waited
// for (files.h).
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

// 64 bits of a content and its length, "1f0e2d3c4b5a6978-1234": equal for equal contents, and as
// good as never for two that happen to differ (FNV-1a; no protection against intent).
std::string ContentDigest(std::string_view content);

// While it lives, notes what the functions of files.h read on the thread that made it.
class FilesRead {
 public:
  FilesRead();
  ~FilesRead();
  FilesRead(const FilesRead&) = delete;
  FilesRead& operator=(const FilesRead&) = delete;

  // Path as it was opened, and digest of the content.
  const std::map<std::string, std::string>& digests() const { return digests_; }

  // What was noted on this thread since its outermost FilesRead was made, as it was opened.
  static std::vector<std::string> PathsOfThread();

  // For files.cc.
  static void Note(const std::string& path, std::string_view content);

 private:
  std::map<std::string, std::string> digests_;
  FilesRead* outer_;  // that this one is within, and which notes the same
};

}  // namespace stepcast
