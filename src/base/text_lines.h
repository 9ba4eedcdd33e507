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

// Finds the line and column of a position in a text, by bisection.
class TextLines {
 public:
  // `file` names the text in positions.
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

// Writes text into YAML documents (YAML 1.2.2, chapter 7) so that it reads back unchanged. All code
// that writes YAML calls these functions.

// The text in double quotes, on one line, with quotes, backslashes, tabs and line ends escaped.
// Characters that an input file may not hold (control characters, text direction marks, invalid
// UTF-8) are written as messages show them: "\x1b" as these four characters.
std::string YamlQuoted(std::string_view text);

// The text as a scalar or key on one line: plain if YAML reads it back as this text in every
// context, otherwise in double quotes.
std::string YamlScalar(std::string_view text);

// Whether YAML reads the unquoted text as the same text in a block, in a flow and as a key. Words
// for null ("null", "~") are not plain; numbers are.
bool IsPlainYaml(std::string_view text);

// Replaces a file in a folder by a new version. The new version is written under a temporary name
// in the same folder, made durable, and renamed.

// A unique name in the folder of `target`: ".NAME.1f0e2d3c4b5a6978", where a long NAME is
// truncated. The caller must create the file exclusively, and try another name if it exists.
std::string TemporaryName(const std::string& target);

// Writes a folder's entries to disk, so that a rename in the folder survives a power failure.
// Returns false, with errno, on failure. If the file system does not support this, that is not a
// failure.
bool SyncFolder(const std::string& folder);

// While an object of this class lives, no thread of the process ends the process on a signal,
// provided that signal handlers call LetFinish. Use it only for short sections in which an
// unfinished file is not yet in the list of files to remove.
class SignalsHeldBack {
 public:
  SignalsHeldBack();
  ~SignalsHeldBack();
  SignalsHeldBack(const SignalsHeldBack&) = delete;
  SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;

  // For signal handlers, and for code that is about to end the process. Waits until no other thread
  // holds signals back, and prevents threads from holding them back again. Gives up after some
  // seconds, because a file system may hang. The process must end next.
  static void LetFinish();

 private:
  sigset_t before_;
};

}  // namespace stepcast
