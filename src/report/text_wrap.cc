#include <algorithm>
#include <atomic>

#include "src/report/table.h"

namespace stepcast::report {
namespace {

constexpr std::size_t kDefaultWidth = 80;
std::atomic<std::size_t> text_width = kDefaultWidth;

// The first separates words; long words are broken after the others.
constexpr std::string_view kBreaks = " /_.,=";

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// The number of bytes of the first `width` characters.
std::size_t BytesOf(std::string_view text, std::size_t width) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (IsContinuation(text[at])) continue;
    if (width == 0) break;
    --width;
  }
  return at;
}

// How many bytes of a long word to put on this line.
std::size_t BreakOf(std::string_view word, std::size_t width) {
  const std::size_t most = BytesOf(word, width);
  const std::size_t behind = word.substr(0, most).find_last_of(kBreaks);
  return behind != std::string_view::npos ? behind + 1 : most;
}

std::size_t Indentation(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// The indentation of continuation lines: after a label, which two blanks separate from the words.
std::size_t HangingIndentation(std::string_view line) {
  constexpr std::size_t kWidestLabel = 28;
  const std::size_t own = Indentation(line);
  const std::size_t gap = line.find("  ", own);
  if (gap == std::string_view::npos) return own;
  const std::size_t words = line.find_first_not_of(' ', gap);
  if (words == std::string_view::npos || words > own + kWidestLabel) return own;
  return WidthOf(line.substr(0, words));
}

// Whether the line is a command, "  stepcast plan ...", or continues one.
bool IsCommand(std::string_view line) {
  const std::size_t own = Indentation(line);
  if (line.ends_with('\\')) return true;
  const std::string_view words = line.substr(own);
  for (const std::string_view program : {"stepcast ", "tools/", "mpirun ", "srun ", "$ "}) {
    if (words.starts_with(program)) return own > 0 || program == "$ ";
  }
  return own > 2 && words.starts_with("--");
}

// The position at which to break a command: before an option, outside of quotes. It is the last one
// that leaves space for a backslash, otherwise the first; npos if there is none.
std::size_t CommandBreak(std::string_view line, std::size_t width) {
  constexpr std::size_t kBackslash = 2;
  std::size_t found = std::string_view::npos;
  bool quoted = false;
  for (std::size_t at = Indentation(line) + 1; at < line.size(); ++at) {
    quoted ^= line[at] == '\'';
    if (quoted || !line.substr(at).starts_with(" --")) continue;
    const bool fits = WidthOf(line.substr(0, at)) + kBackslash <= width;
    if (!fits && found != std::string_view::npos) break;
    found = at;
    if (!fits) break;
  }
  return found;
}

// Appends a command with line breaks that a shell ignores.
void AppendCommand(std::string_view line, std::size_t width, std::string& out) {
  constexpr std::size_t kFurther = 4;
  // Continuation lines are indented as far as possible.
  const std::size_t own = Indentation(line);
  const std::string further(own > 2 ? own : own + kFurther, ' ');
  std::string rest(line);
  while (WidthOf(rest) > width) {
    const std::size_t at = CommandBreak(rest, width);
    if (at == std::string::npos) break;
    out += rest.substr(0, at) + " \\\n";
    rest = further + rest.substr(at + 1);
  }
  out += rest + '\n';
}

void AppendLine(std::string_view line, std::size_t width, std::string& out) {
  if (IsCommand(line)) return AppendCommand(line, width, out);
  if (WidthOf(line) <= width) {
    out.append(line).push_back('\n');
    return;
  }
  // With less than half of the line, words would form a narrow column.
  std::size_t hanging = HangingIndentation(line);
  if (2 * hanging > width) hanging = Indentation(line);
  const std::size_t label = BytesOf(line, hanging);
  const std::vector<std::string> lines =
      WrapWords(line.substr(label), width - hanging, LongPaths::kWhole);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i == 0) {
      out.append(line.substr(0, label));
    } else {
      out.append(hanging, ' ');
    }
    out.append(lines[i]);
    out.erase(out.find_last_not_of(' ') + 1);
    out.push_back('\n');
  }
}

}  // namespace

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::size_t TextWidth() { return text_width; }
void SetTextWidth(std::size_t width) { text_width = width; }

std::size_t WidthOf(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuation(c); }));
}

std::size_t LongestWord(std::string_view text) {
  std::size_t longest = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    longest = std::max(longest, WidthOf(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return longest;
}

std::size_t LongestPiece(std::string_view text) {
  std::size_t longest = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(kBreaks), text.size());
    const bool blank = end < text.size() && text[end] == ' ';
    const std::size_t piece = std::min(end + (blank ? 0 : 1), text.size());
    longest = std::max(longest, WidthOf(text.substr(0, piece)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return longest;
}

std::vector<std::string> WrapWords(std::string_view text, std::size_t width, LongPaths paths) {
  if (WidthOf(text) <= width) return {std::string(text)};
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    std::size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t blank = lines.back().empty() ? 0 : 1;
    if (WidthOf(lines.back()) + blank + WidthOf(word) > width && blank == 1) {
      lines.emplace_back();
    } else if (blank == 1) {
      lines.back() += ' ';
    }
    const bool whole = paths == LongPaths::kWhole && word.find('/') != std::string_view::npos;
    while (!whole && WidthOf(word) > width) {
      const std::size_t piece = BreakOf(word, width);
      lines.back() += word.substr(0, piece);
      lines.emplace_back();
      word.remove_prefix(piece);
    }
    lines.back() += word;
  }
  return lines;
}

std::string Wrapped(std::string_view text, std::size_t width) {
  std::string out;
  for (const std::string_view line : LinesOf(text)) AppendLine(line, width, out);
  if (!text.empty() && text.back() != '\n') out.pop_back();
  return out;
}

std::string Reflowed(std::string_view text, std::size_t width) {
  std::string joined, above;  // the paragraph so far
  const auto end = [&] {
    joined += above + '\n';
    above.clear();
  };
  bool first = true;
  for (const std::string_view line : LinesOf(text)) {
    const std::size_t own = Indentation(line);
    const bool goes_on = !first && !above.empty() && own < line.size() && !IsCommand(line) &&
                         !IsCommand(above) && !above.ends_with(':') &&
                         own == HangingIndentation(above) && (own > 0 || Indentation(above) == 0) &&
                         HangingIndentation(line) == own;
    if (goes_on) {
      above += ' ';
      above += line.substr(own);
      continue;
    }
    if (!first) end();
    above = line;
    first = false;
  }
  end();
  if (!text.ends_with('\n')) joined.pop_back();
  return Wrapped(joined, width);
}

}  // namespace stepcast::report
