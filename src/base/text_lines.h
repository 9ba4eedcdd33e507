#pragma once

#include <signal.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"

namespace stepcast {

// Finds the line and column of a position in a text, by binary search.
class TextLines {
 public:
  // `file` is the file name in returned positions.
  TextLines(std::string_view text, std::string file) : file_(std::move(file)) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') starts_.push_back(i + 1);
    }
  }
  Location At(std::size_t offset) const {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), offset);
    return {file_, static_cast<int>(after - starts_.begin()),
            static_cast<int>(offset - *std::prev(after)) + 1};
  }

 private:
  std::string file_;
  std::vector<std::size_t> starts_{0};
};

// Writes text into YAML documents (YAML 1.2.2, chapter 7) so that a parser reads the same text. All
// code that writes YAML must use these functions.

// Returns the text in double quotes, on one line, with quotes, backslashes, tabs and line ends
// escaped. Characters that are not allowed in input files (control characters, text direction
// marks, invalid UTF-8) become printable: "\x1b" is written as four characters.
std::string YamlQuoted(std::string_view text);

// Returns the text as a one-line scalar or key, in double quotes only if YAML requires them in some
// context.
std::string YamlScalar(std::string_view text);

// Returns whether YAML reads the unquoted text as the same text in block collections, in flow
// collections and as a key. False for words that mean null ("null", "~"); true for numbers.
bool IsPlainYaml(std::string_view text);

// Replaces a file by a new version. The new version is written under a temporary name in the same
// folder, flushed to disk, and renamed.

// Returns a unique name in the folder of `target`: ".NAME.1f0e2d3c4b5a6978", with a long NAME
// truncated. The caller must create the file exclusively, and call again if the file exists.
std::string TemporaryName(const std::string& target);

// Flushes the entries of a folder to disk, so that a rename in the folder survives a power failure.
// On failure, returns false and sets errno. Returns true if the file system does not support
// flushing.
bool SyncFolder(const std::string& folder);

// Delays signals that end the process during the object's lifetime. Signal handlers must call
// LetFinish. Use this class only for short sections in which an unfinished file is not yet in the
// list of files to remove.
class SignalsHeldBack {
 public:
  SignalsHeldBack();
  ~SignalsHeldBack();
  SignalsHeldBack(const SignalsHeldBack&) = delete;
  SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;

  // Waits until no other thread has an object of this class, and prevents new objects. Stops
  // waiting after some seconds, because a file system may hang. Call this function only from signal
  // handlers, or immediately before the process ends.
  static void LetFinish();

 private:
  sigset_t before_;
};

}  // namespace stepcast
