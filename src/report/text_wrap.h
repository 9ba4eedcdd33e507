#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// Text for people in lines that are not wider than the terminal. Widths count characters (code
// points of UTF-8).
namespace stepcast::report {

// How wide the lines of text for people may be: 80, unless a terminal is there whose width is set.
// One for the process; set before commands run.
std::size_t TextWidth();
void SetTextWidth(std::size_t width);

std::size_t WidthOf(std::string_view text);
std::size_t LongestWord(std::string_view text);
// The same of the pieces into which WrapWords breaks words.
std::size_t LongestPiece(std::string_view text);

// Whether a path that is wider than the line is broken. A table's cell breaks it, as it does any
// long word. A sentence gives it a line of its own, which may be too wide, so that the path can be
// copied.
enum class LongPaths { kBroken, kWhole };

// The words of a text in lines of at most `width`, at least one line. A word that is longer than
// that is broken, where it can be behind one of "/_.,=".
std::vector<std::string> WrapWords(std::string_view text, std::size_t width,
                                   LongPaths paths = LongPaths::kBroken);

// The text, with lines that are too wide broken at word boundaries. The rest of such a line begins
// where its words behind a label do ("plan       fsdp2, ..."), else where it does itself. Commands
// to paste, which are lines that begin with blanks and the name of a program, go on behind a
// backslash, before an option.
std::string Wrapped(std::string_view text, std::size_t width = TextWidth());

// The same of pages whose source is broken into lines already: the lines of a paragraph are joined
// before. Those that are indented begin one, unless they are indented as the words behind the
// label above them are.
std::string Reflowed(std::string_view text, std::size_t width = TextWidth());

}  // namespace stepcast::report
