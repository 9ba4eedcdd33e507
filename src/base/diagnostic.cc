#include "src/base/diagnostic.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>

#include "fmt/format.h"
#include "src/base/printable.h"
#include "src/base/utf8.h"

namespace stepcast {
namespace {

// The number of edits (insert, delete, replace, swap of neighbors) that turn `a` into `b`, ignoring
// case: the restricted Damerau-Levenshtein distance.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
          lower(a[i - 2]) == lower(b[j - 1])) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

// Whether a terminal obeys the character instead of showing it: C0 and C1 controls, text direction
// controls (Unicode 15, annex 9) and line breaks.
bool IsControl(std::uint32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || point == 0x061C || point == 0x200E ||
         point == 0x200F ||                       // marks of direction
         (point >= 0x2028 && point <= 0x202E) ||  // separators; embeddings and overrides
         (point >= 0x2066 && point <= 0x2069);    // isolates
}

// The text with terminal control characters escaped, so that the text cannot move the cursor.
std::string OnOneLine(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8::SequenceLength(text.substr(i, 4));
    const std::string_view character = text.substr(i, std::max<std::size_t>(length, 1));
    i += character.size();
    const std::uint32_t point = length == 0 ? 0 : utf8::CodePoint(character);
    if (length != 0 && !IsControl(point)) {
      line += character;
    } else if (character == "\n") {
      line += "\\n";
    } else if (character == "\t") {
      line += "\\t";
    } else if (character.size() == 1) {
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(character.front()));
    } else {
      line += fmt::format("\\u{:04x}", point);
    }
  }
  return line;
}

}  // namespace

std::string Format(const Diagnostic& diagnostic) {
  // The path is never cut: a cut path cannot be opened.
  std::string text = OnOneLine(diagnostic.location.file);
  if (diagnostic.location.line > 0) {
    text += fmt::format(":{}", diagnostic.location.line);
    if (diagnostic.location.column > 0) text += fmt::format(":{}", diagnostic.location.column);
  }
  if (!text.empty()) text += ": ";
  text += fmt::format("error[{}]: {}\n", diagnostic.code, OnOneLine(diagnostic.message));
  if (!diagnostic.hint.empty()) {
    text += fmt::format("  hint: {}\n", OnOneLine(diagnostic.hint));
  }
  return text;
}

std::string Format(const Diagnostics& diagnostics) {
  std::string text;
  const std::size_t shown = std::min(diagnostics.size(), kMostShownFaults);
  for (std::size_t i = 0; i < shown; ++i) text += Format(diagnostics[i]);
  if (shown < diagnostics.size()) {
    text += fmt::format("... and {} more\n", diagnostics.size() - shown);
  }
  return text;
}

namespace {

// The letters and digits of a word, in small letters.
std::string PlainLetters(std::string_view word) {
  std::string letters;
  for (const unsigned char c : word) {
    if (std::isalnum(c) != 0) letters += static_cast<char>(std::tolower(c));
  }
  return letters;
}

// The only known word that starts like `word`, apart from hyphens and underscores. Empty if no
// word, or more than one word, matches.
std::string_view Abbreviated(std::string_view word, const std::vector<std::string_view>& known) {
  constexpr std::size_t kShortest = 4;
  const std::string start = PlainLetters(word);
  if (start.size() < kShortest) return {};
  std::string_view only;
  for (const std::string_view candidate : known) {
    if (!PlainLetters(candidate).starts_with(start)) continue;
    if (!only.empty()) return {};
    only = candidate;
  }
  return only;
}

}  // namespace

std::string_view NearestWord(std::string_view word, const std::vector<std::string_view>& known) {
  // A third of the letters may be wrong, with a limit so that not every word matches. Long texts
  // are skipped, because they are not typing mistakes, and the cost is the product of the lengths.
  constexpr std::size_t kLongest = 64;
  if (word.empty() || word.size() > kLongest) return {};
  // A hint must not repeat the input.
  if (std::find(known.begin(), known.end(), word) != known.end()) return {};
  std::string_view nearest;
  std::size_t nearest_distance = 0;
  for (std::string_view candidate : known) {
    if (candidate.size() > kLongest) continue;
    const std::size_t distance = EditDistance(word, candidate);
    const std::size_t allowed =
        std::max<std::size_t>(1, std::max(word.size(), candidate.size()) / 3);
    if (distance > allowed || distance >= std::min(word.size(), candidate.size())) continue;
    if (nearest.empty() || distance < nearest_distance) {
      nearest = candidate;
      nearest_distance = distance;
    }
  }
  return nearest.empty() ? Abbreviated(word, known) : nearest;
}

std::string Quoted(std::string_view value, std::string_view quote, std::size_t longest) {
  std::size_t shown = std::min(value.size(), longest);
  // Cuts between characters, not inside a UTF-8 sequence.
  while (shown < value.size() && shown > 0 &&
         (static_cast<unsigned char>(value[shown]) & 0xC0) == 0x80) {
    --shown;
  }
  return fmt::format("{}{}{}{}", quote, OnOneLine(value.substr(0, shown)),
                     shown < value.size() ? "..." : "", quote);
}

}  // namespace stepcast
