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

// Lines and columns of places in a text, found by bisection.
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

// Text as a YAML document holds it (YAML 1.2.2, chapter 7). Every file that is written as YAML asks
// here, so that what was written reads back.

// The text in double quotes, on one line: quotes, backslashes, tabs and line ends as escapes. What
// an input file may not hold (other control characters, what turns text round, bytes that are not
// UTF-8) stands as a message shows it: "\x1b" as these four characters.
std::string YamlQuoted(std::string_view text);

// The text as a scalar or a key on one line: without quotes where YAML takes it for just this text
// wherever it stands, otherwise in double quotes.
std::string YamlScalar(std::string_view text);

// Whether YAML takes the text for itself without quotes, in a block, in a flow and as a key. A word
// for null ("null", "~") is not plain; a number is.
bool IsPlainYaml(std::string_view text);

// Replacing a name in a folder by a new version: that is written under a temporary name beside it,
// made durable, and renamed.

// A name in the folder of `target` that nothing is likely to have: ".NAME.1f0e2d3c4b5a6978", of a
// long name its beginning. It is created exclusively; if the name exists, another is taken.
std::string TemporaryName(const std::string& target);

// Writes a folder's entries to the disk, so that a rename in it outlasts a power failure. False,
// with errno, where that fails; a file system that cannot do it has not failed.
bool SyncFolder(const std::string& folder);

// While one lives, neither its thread nor any other of the process ends it at a signal, provided
// that handlers call LetFinish: for the moments in which an unfinished version has no entry in a
// list of what to remove. Those must be short.
class SignalsHeldBack {
 public:
  SignalsHeldBack();
  ~SignalsHeldBack();
  SignalsHeldBack(const SignalsHeldBack&) = delete;
  SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;

  // For signal handlers, and for code that is about to end the process: waits until no other thread
  // holds signals back, and keeps further ones from it. Gives up after some seconds: a file system
  // may hang. The process must end next.
  static void LetFinish();

 private:
  sigset_t before_;
};

}  // namespace stepcast
