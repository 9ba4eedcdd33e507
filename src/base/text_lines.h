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

// Whether YAML reads the unquoted text as itself in a block, in a flow and as a key. A word for
// null ("null", "~") is not plain; a number is.
bool IsPlainYaml(std::string_view text);

// Replaces a file in a folder by a new version. The new version is written under a temporary name
// in the same folder, made durable, and renamed.

// A unique name in the folder of `target`: ".NAME.1f0e2d3c4b5a6978"; a long NAME is cut. The caller
// must create it exclusively and try again if it exists.
std::string TemporaryName(const std::string& target);

// Writes a folder's entries to the disk, so that a rename in it survives a power failure. Returns
// false, with errno, on failure. A file system that does not support this is not a failure.
bool SyncFolder(const std::string& folder);

// While an object lives, no thread of the process ends the process on a signal, if signal handlers
// call LetFinish. Use it only for short sections, while an unfinished file is not yet in the list
// of files to remove.
class SignalsHeldBack {
 public:
  SignalsHeldBack();
  ~SignalsHeldBack();
  SignalsHeldBack(const SignalsHeldBack&) = delete;
  SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;

  // For signal handlers, and for code about to end the process. Waits until no other thread holds
  // signals back, and keeps threads from doing so again. Gives up after some seconds, since a file
  // system may hang. The process must end next.
  static void LetFinish();

 private:
  sigset_t before_;
};

}  // namespace stepcast
