#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/foreign/shell.h"

namespace stepcast::foreign {
namespace {

class Lexer {
 public:
  Lexer(std::string_view text, bool of_comment) : text_(text), of_comment_(of_comment) {}

  ShellScript Read() {
    while (at_ < text_.size()) Step();
    EndCommand(ShellJoint::kEnd);
    return std::move(script_);
  }

 private:
  char Peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void Advance() {
    if (text_[at_] == '\n') {
      ++line_;
      line_begin_ = at_ + 1;
    }
    ++at_;
  }
  void Take() {
    raw_ += text_[at_];
    Advance();
  }
  void Begin() {
    if (in_word_) return;
    in_word_ = true;
    word_line_ = line_;
    word_column_ = static_cast<int>(at_ - line_begin_) + 1;
  }
  void EndWord() {
    if (!in_word_) return;
    in_word_ = false;
    command_.words.push_back({std::exchange(raw_, ""), word_line_, word_column_});
  }
  void EndCommand(ShellJoint joint) {
    EndWord();
    if (command_.words.empty() && command_.documents.empty()) return;
    command_.joint = joint;
    script_.commands.push_back(std::exchange(command_, {}));
  }

  void Step() {
    const char c = Peek();
    if (c == '\\' && Peek(1) == '\n') {
      Advance();
      Advance();
      // A line continuation within a word does not end the word, as in a shell.
      return;
    }
    if (c == '\n' || c == ';') {
      EndCommand(ShellJoint::kEnd);
      Advance();
      if (c == '\n') ReadHereDocuments();
      return;
    }
    if (c == ' ' || c == '\t' || c == '\r') {
      EndWord();
      Advance();
      return;
    }
    if (c == '#' && !in_word_) return SkipComment();
    if (c == '&' || c == '|') return ReadJoint();
    if (c == '<' && Peek(1) == '<' && Peek(2) != '<' && !in_word_) return BeginHereDocument();
    Begin();
    ReadPartOfWord();
  }

  void SkipComment() {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    constexpr std::string_view kBatch = "#SBATCH";
    if (!of_comment_ && text_.substr(at_, end - at_).starts_with(kBatch)) {
      const std::string_view options = text_.substr(at_ + kBatch.size(), end - at_ - kBatch.size());
      for (const ShellCommand& command : Lexer(options, true).Read().commands) {
        for (ShellWord word : command.words) {
          word.line = line_;
          script_.batch_options.push_back(std::move(word));
        }
      }
    }
    while (at_ < end) Advance();
  }

  void ReadJoint() {
    // `2>&1` and `&>` are redirections.
    const bool redirects = Peek() == '&' && (Peek(1) == '>' || (in_word_ && raw_.ends_with('>')));
    if (redirects) {
      Begin();
      Take();
      return;
    }
    const bool twice = Peek(1) == Peek();
    const ShellJoint joint = Peek() == '|' ? (twice ? ShellJoint::kOr : ShellJoint::kPipe)
                             : twice       ? ShellJoint::kAnd
                                           : ShellJoint::kEnd;
    EndCommand(joint);
    Advance();
    if (twice) Advance();
  }

  // Reads one character, or a quoted or bracketed part.
  void ReadPartOfWord() {
    switch (Peek()) {
      case '\\':
        Take();
        if (at_ < text_.size()) Take();
        return;
      case '\'':
        return TakeUntil('\'', false);
      case '"':
        return TakeUntil('"', true);
      case '`':
        return TakeUntil('`', true);
      case '$':
        Take();
        if (Peek() == '(' || Peek() == '{') TakeBrackets();
        return;
      case '(':
        // An array; otherwise a bracket is a word.
        if (raw_.ends_with('=')) return TakeBrackets();
        Take();
        EndWord();
        return;
      case ')':
        if (!raw_.empty()) EndWord();
        Begin();
        Take();
        EndWord();
        return;
      default:
        Take();
    }
  }

  void TakeUntil(char quote, bool escapes) {
    Take();
    if (depth_ > kDeepest) return;
    ++depth_;
    while (at_ < text_.size() && Peek() != quote) {
      if (escapes && Peek() == '\\' && at_ + 1 < text_.size()) {
        Take();
        Take();
      } else if (escapes && Peek() == '$' && (Peek(1) == '(' || Peek(1) == '{')) {
        Take();
        TakeBrackets();
      } else {
        Take();
      }
    }
    if (at_ < text_.size()) Take();
    --depth_;
  }

  // Reads from a bracket to its closing bracket.
  void TakeBrackets() {
    const char open = Peek();
    const char close = open == '(' ? ')' : '}';
    if (depth_ > kDeepest) return Take();
    ++depth_;
    int depth = 0;
    do {
      const char c = Peek();
      if (c == '\'' && open == '(') {
        TakeUntil('\'', false);
        continue;
      }
      if (c == '"') {
        TakeUntil('"', true);
        continue;
      }
      if (c == '#' && open == '(' &&
          (raw_.ends_with(' ') || raw_.ends_with('\n') || raw_.ends_with('\t') ||
           raw_.ends_with('('))) {
        while (at_ < text_.size() && Peek() != '\n') Advance();
        continue;
      }
      if (c == '\\') {
        Take();
        if (at_ < text_.size()) Take();
        continue;
      }
      depth += c == open ? 1 : c == close ? -1 : 0;
      Take();
    } while (at_ < text_.size() && depth > 0);
    --depth_;
  }

  struct Awaited {
    std::string delimiter;
    bool expands;
    bool strips_tabs;
    std::size_t command;  // index of its command
  };

  void BeginHereDocument() {
    at_ += 2;
    Awaited awaited{"", true, Peek() == '-', script_.commands.size()};
    if (awaited.strips_tabs) ++at_;
    while (Peek() == ' ' || Peek() == '\t') ++at_;
    while (at_ < text_.size()) {
      const char c = Peek();
      if (c == ' ' || c == '\t' || c == '\n' || c == '>' || c == ';' || c == '|') break;
      if (c == '\'' || c == '"' || c == '\\') {
        awaited.expands = false;
      } else {
        awaited.delimiter += c;
      }
      ++at_;
    }
    if (!awaited.delimiter.empty()) awaited_.push_back(std::move(awaited));
  }

  void ReadHereDocuments() {
    for (Awaited& awaited : std::exchange(awaited_, {})) {
      HereDocument document{"", line_, awaited.expands};
      while (at_ < text_.size()) {
        const std::size_t end = std::min(text_.find('\n', at_), text_.size());
        std::string_view line = text_.substr(at_, end - at_);
        while (at_ < end) Advance();
        if (at_ < text_.size()) Advance();
        if (awaited.strips_tabs) {
          line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
        }
        if (line == awaited.delimiter) break;
        document.text += std::string(line) + "\n";
      }
      if (awaited.command < script_.commands.size()) {
        script_.commands[awaited.command].documents.push_back(std::move(document));
      }
    }
  }

  static constexpr int kDeepest = 64;  // nested quotes and brackets

  std::string_view text_;
  bool of_comment_;
  int depth_ = 0;
  std::size_t at_ = 0;
  int line_ = 1;
  std::size_t line_begin_ = 0;
  bool in_word_ = false;
  std::string raw_;
  int word_line_ = 0, word_column_ = 0;
  ShellCommand command_;
  std::vector<Awaited> awaited_;
  ShellScript script_;
};

}  // namespace

ShellScript ReadShell(std::string_view text) { return Lexer(text, false).Read(); }

}  // namespace stepcast::foreign
