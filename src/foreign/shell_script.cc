
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "src/foreign/setting.h"
#include "src/foreign/shell.h"

namespace stepcast::foreign {
namespace {

using Names = std::vector<std::string>;

bool IsPositional(std::string_view name) {
  return !name.empty() && name != "0" && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

struct Variable {
  std::vector<ShellText> elements;
  bool array = false;
};

void Add(Names& names, const Names& more) {
  for (const std::string& name : more) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
}

ShellText UnknownText(const std::string& name, int line) {
  return {{{.text = "", .line = line, .column = 0, .unknown = name, .given = ""}}};
}

// Variables by name, and the expansion of words with them.
class Scope {
 public:
  explicit Scope(const std::map<std::string, std::string>& given) : given_(given) {
    for (const auto& [name, text] : given) {
      variables_[name] = {{ShellText{{{.text = text, .given = name}}}}};
    }
  }

  const Variable* Find(const std::string& name) const {
    const auto found = variables_.find(name);
    return found == variables_.end() ? nullptr : &found->second;
  }
  void Set(const std::string& name, Variable variable) {
    if (given_.count(name) == 0) variables_[name] = std::move(variable);
  }
  bool IsGiven(const std::string& name) const { return given_.count(name) > 0; }
  void Append(const std::string& name, const Variable& more) {
    if (given_.count(name) > 0) return;
    Variable& variable = variables_[name];
    if (more.array || variable.array) {
      variable.array = true;
      variable.elements.insert(variable.elements.end(), more.elements.begin(), more.elements.end());
      return;
    }
    if (variable.elements.empty()) variable.elements.emplace_back();
    for (const ShellText& text : more.elements) {
      auto& pieces = variable.elements.front().pieces;
      pieces.insert(pieces.end(), text.pieces.begin(), text.pieces.end());
    }
  }

  std::optional<std::int64_t> Number(const std::string& name) const {
    const Variable* variable = Find(name);
    if (variable == nullptr || variable->elements.size() != 1) return std::nullopt;
    const ShellText& text = variable->elements.front();
    if (!text.Unknown().empty()) return std::nullopt;
    return Value::Text(text.Text()).Integer();
  }

  // Whether so much more text may be substituted. The limit stops scripts whose variables double
  // one another.
  bool Spend(std::size_t size) {
    constexpr std::size_t kMost = 16'000'000;
    spent_ += size;
    return spent_ <= kMost;
  }

 private:
  const std::map<std::string, std::string>& given_;
  std::map<std::string, Variable> variables_;
  std::size_t spent_ = 0;
};

// Expands one word to fields.
class Expander {
 public:
  Expander(Scope& scope, const ShellWord& word, bool splits)
      : scope_(scope), raw_(word.raw), line_(word.line), column_(word.column), splits_(splits) {}

  std::vector<ShellText> Fields() {
    Expand(false);
    EndField();
    return std::move(fields_);
  }
  ShellText Joined() {
    Expand(false);
    EndField();
    ShellText joined;
    for (ShellText& field : fields_) {
      auto& pieces = joined.pieces;
      if (!pieces.empty()) pieces.push_back({.text = " ", .line = line_});
      std::move(field.pieces.begin(), field.pieces.end(), std::back_inserter(pieces));
    }
    return joined;
  }

 private:
  char Peek(std::size_t ahead = 0) const {
    return at_ + ahead < raw_.size() ? raw_[at_ + ahead] : '\0';
  }

  void Literal(char c) {
    started_ = true;
    auto& pieces = field_.pieces;
    const bool joins = !pieces.empty() && literal_ && pieces.back().line == line_;
    if (!joins) pieces.push_back({.text = "", .line = line_, .column = column_});
    pieces.back().text += c;
    literal_ = true;
  }
  void Next() {
    if (Peek() == '\n') {
      ++line_;
      column_ = 1;
    } else {
      ++column_;
    }
    ++at_;
  }
  void EndField() {
    if (started_) fields_.push_back(std::exchange(field_, {}));
    started_ = false;
    literal_ = false;
  }
  void AddPiece(ShellPiece piece) {
    started_ = true;
    literal_ = false;
    field_.pieces.push_back(std::move(piece));
  }

  // Adds the text of a variable, split into fields if it is not quoted.
  void AddText(const ShellText& text, bool quoted) {
    if (quoted) started_ = true;
    for (const ShellPiece& piece : text.pieces) {
      if (!scope_.Spend(sizeof(piece) + piece.text.size())) return AddUnknown("$()");
      if (quoted || !splits_ || !piece.unknown.empty()) {
        AddPiece(piece);
        continue;
      }
      ShellPiece part = piece;
      part.text.clear();
      for (const char c : piece.text) {
        if (std::isspace(static_cast<unsigned char>(c)) == 0) {
          part.text += c;
          continue;
        }
        if (!part.text.empty()) AddPiece(part);
        part.text.clear();
        EndField();
      }
      if (!part.text.empty()) AddPiece(part);
    }
  }

  void AddVariable(const Variable& variable, bool all, bool quoted) {
    if (!all) {
      if (!variable.elements.empty()) AddText(variable.elements.front(), quoted);
      return;
    }
    for (std::size_t i = 0; i < variable.elements.size(); ++i) {
      if (!scope_.Spend(sizeof(ShellText))) return AddUnknown("$()");
      if (i > 0) {
        if (splits_) {
          EndField();
        } else {
          AddPiece({.text = " ", .line = line_});
        }
      }
      AddText(variable.elements[i], quoted);
    }
  }

  void AddUnknown(const std::string& name) {
    AddPiece({.text = "", .line = line_, .column = column_, .unknown = name});
  }

  // Expands what follows a dollar sign.
  void Dollar(bool quoted) {
    if (Peek() == '(' && Peek(1) == '(') return Arithmetic();
    if (Peek() == '(') {
      const std::size_t end = Closing('(', ')');
      SkipTo(end);
      AddUnknown("$()");
      return;
    }
    if (Peek() == '{') return Braces(quoted);
    std::string name;
    if (std::isdigit(static_cast<unsigned char>(Peek())) != 0 || Peek() == '@' || Peek() == '*' ||
        Peek() == '#' || Peek() == '?' || Peek() == '$') {
      name = Peek();
      Next();
    } else {
      while (IsNameCharacter(Peek())) {
        name += Peek();
        Next();
      }
    }
    if (name.empty()) return Literal('$');
    Named(name, false, quoted);
  }

  void Named(const std::string& name, bool all, bool quoted) {
    if (const Variable* variable = scope_.Find(name)) {
      AddVariable(*variable, all, quoted);
    } else {
      AddUnknown(name);
    }
  }

  void Arithmetic() {
    const std::size_t end = Closing('(', ')');
    const std::string_view inner = std::string_view(raw_).substr(at_ + 2, end - at_ - 4);
    Names unknown;
    const auto value = ShellArithmetic(inner, [&](const std::string& name) {
      const auto number = scope_.Number(name);
      if (!number) {
        const Variable* variable = scope_.Find(name);
        Names names;
        if (variable != nullptr && !variable->elements.empty()) {
          names = variable->elements.front().Unknown();
        }
        Add(unknown, names.empty() ? Names{name} : names);
      }
      return number;
    });
    SkipTo(end);
    if (value) {
      AddPiece({.text = fmt::format("{}", *value), .line = line_, .column = column_});
    } else {
      AddUnknown(unknown.empty() ? "$(())" : unknown.front());
    }
  }

  // The position after the closing bracket.
  std::size_t Closing(char open, char close) const {
    int depth = 0;
    for (std::size_t at = at_; at < raw_.size(); ++at) {
      if (raw_[at] == open) ++depth;
      if (raw_[at] == close && --depth == 0) return at + 1;
    }
    return raw_.size();
  }
  void SkipTo(std::size_t end) {
    while (at_ < end) Next();
  }

  // Expands ${A}, ${A[@]}, ${A:-b}, ${A:=b} and ${A:+b}; other forms are unknown.
  void Braces(bool quoted) {
    const std::size_t end = Closing('{', '}');
    const std::string inner = raw_.substr(at_ + 1, std::max(end, at_ + 2) - at_ - 2);
    const int line = line_, column = column_;
    SkipTo(end);
    std::size_t length = 0;
    while (length < inner.size() && IsNameCharacter(inner[length])) ++length;
    const std::string name = inner.substr(0, length);
    std::string rest = inner.substr(length);
    const bool all = rest.starts_with("[@]") || rest.starts_with("[*]");
    if (all) rest.erase(0, 3);
    if (rest.empty() && !name.empty()) return Named(name, all, quoted);
    const bool colon = rest.starts_with(':');
    const std::size_t sign = colon ? 1 : 0;
    const char operation = sign < rest.size() ? rest[sign] : '\0';
    const bool choice = operation == '-' || operation == '=' || operation == '+';
    if (name.empty() || !choice || depth_ > kDeepest)
      return AddUnknown(name.empty() ? inner : name);
    const Variable* variable = scope_.Find(name);
    const bool set = variable != nullptr && !(colon && IsEmpty(*variable));
    if (operation == '+' ? !set : set) {
      if (operation != '+') AddVariable(*variable, all, quoted);
      return;
    }
    Expander other(scope_, {rest.substr(sign + 1), line, column}, false);
    other.depth_ = depth_ + 1;
    const ShellText text = other.Joined();
    if (operation == '=') scope_.Set(name, {{text}});
    AddText(text, quoted);
  }

  static bool IsEmpty(const Variable& variable) {
    return variable.elements.empty() ||
           (variable.elements.size() == 1 && variable.elements.front().Unknown().empty() &&
            variable.elements.front().Text().empty());
  }

  void Expand(bool quoted) {
    while (at_ < raw_.size()) {
      const char c = Peek();
      if (quoted && c == '"') return;
      if (c == '\\') {
        Next();
        if (Peek() == '\n') {
          Next();
        } else if (at_ < raw_.size()) {
          if (quoted && Peek() != '"' && Peek() != '$' && Peek() != '\\' && Peek() != '`') {
            Literal('\\');
          }
          Literal(Peek());
          Next();
        }
      } else if (c == '\'' && !quoted) {
        started_ = true;
        Next();
        while (at_ < raw_.size() && Peek() != '\'') {
          Literal(Peek());
          Next();
        }
        Next();
      } else if (c == '"') {
        started_ = true;
        Next();
        Expand(true);
        Next();
      } else if (c == '`') {
        Next();
        while (at_ < raw_.size() && Peek() != '`') Next();
        Next();
        AddUnknown("$()");
      } else if (c == '$') {
        Next();
        Dollar(quoted);
      } else {
        Literal(c);
        Next();
      }
    }
  }

  static constexpr int kDeepest = 16;

  Scope& scope_;
  const std::string raw_;
  int line_, column_;
  bool splits_;
  int depth_ = 0;
  std::size_t at_ = 0;
  ShellText field_;
  bool started_ = false;
  bool literal_ = false;
  std::vector<ShellText> fields_;
};

// The result of a test: true, false, or unknown, with the unknown variables that it depends on.
struct Verdict {
  std::optional<bool> holds;
  Names depends_on{};
};

Verdict And(const Verdict& a, const Verdict& b) {
  if (a.holds == false || b.holds == false) return {false};
  if (a.holds && b.holds) return {true};
  Verdict both{std::nullopt, a.depends_on};
  Add(both.depends_on, b.depends_on);
  return both;
}
Verdict Not(Verdict verdict) {
  if (verdict.holds) verdict.holds = !*verdict.holds;
  return verdict;
}

class Follower {
 public:
  explicit Follower(const std::map<std::string, std::string>& given) : scope_(given) {}

  ShellOutcome Run(const ShellScript& script) {
    SetBatch(script.batch_options);
    for (const ShellCommand& command : script.commands) Take(command);
    return std::move(outcome_);
  }

 private:
  enum class Mode : std::uint8_t { kRuns, kSkipped, kUncertain };
  enum class Kind : std::uint8_t { kIf, kLoop, kBraces, kCase };
  struct Block {
    Kind kind;
    Mode mode = Mode::kRuns;
    Names depends_on{};
    std::string what{};   // that is not followed: "a loop"
    ShellText subject{};  // kCase: the word that is matched
    // kIf: a condition is being read; an earlier branch was taken, or may have been.
    bool in_condition = false;
    bool taken = false, maybe_taken = false;
    Verdict condition{true};
    ShellJoint joint = ShellJoint::kEnd;
    bool has_condition = false;
  };

  // Sets the variables that Slurm sets from the options at the top of the script.
  void SetBatch(const std::vector<ShellWord>& words) {
    constexpr std::pair<const char*, const char*> kVariables[] = {
        {"--nodes", "SLURM_NNODES"},
        {"--nodes", "SLURM_JOB_NUM_NODES"},
        {"--gpus-per-node", "SLURM_GPUS_PER_NODE"},
        {"--gpus-per-node", "SLURM_GPUS_ON_NODE"},
        {"--ntasks-per-node", "SLURM_NTASKS_PER_NODE"}};
    for (std::size_t i = 0; i < words.size(); ++i) {
      std::string name = words[i].raw, value;
      const std::size_t sign = name.find('=');
      if (sign != std::string::npos) {
        value = name.substr(sign + 1);
        name.resize(sign);
      } else if (i + 1 < words.size() && !words[i + 1].raw.starts_with('-')) {
        value = words[i + 1].raw;
      }
      if (name == "-N") name = "--nodes";
      for (const auto& [option, variable] : kVariables) {
        if (name != option) continue;
        scope_.Set(variable, {{ShellText{{{.text = value, .line = words[i].line}}}}});
      }
    }
  }

  Mode ModeOf() const {
    Mode mode = Mode::kRuns;
    for (const Block& block : blocks_) {
      if (block.mode == Mode::kSkipped) return Mode::kSkipped;
      if (block.mode == Mode::kUncertain) mode = Mode::kUncertain;
    }
    return mode;
  }
  Names DependsOn() const {
    Names names;
    for (const Block& block : blocks_) {
      if (block.mode == Mode::kUncertain) Add(names, block.depends_on);
    }
    return names;
  }

  // Starts a `for` loop; the first word is its variable.
  void TakeFor(const std::vector<ShellWord>& words) {
    Block loop{.kind = Kind::kLoop, .mode = Mode::kUncertain, .what = "a loop"};
    if (words.size() > 2 && words[1].raw == "in") {
      const std::string& name = words[0].raw;
      std::vector<ShellText> values;
      for (std::size_t i = 2; i < words.size(); ++i) {
        auto fields = Expander(scope_, words[i], true).Fields();
        std::move(fields.begin(), fields.end(), std::back_inserter(values));
      }
      const bool known = std::all_of(values.begin(), values.end(), [](const ShellText& value) {
        return value.Unknown().empty();
      });
      // With a single value, or with the user's value, the loop's body runs once.
      if (scope_.IsGiven(name) || (known && values.size() == 1)) loop.mode = Mode::kRuns;
      if (known && values.size() == 1) {
        scope_.Set(name, {values});
      } else {
        scope_.Set(name, {{UnknownText(name, words[0].line)}});
        outcome_.unfollowed[name] = loop.what;
        for (const ShellText& value : values) {
          if (known) outcome_.compared[name].insert(value.Text());
        }
      }
      loop.depends_on = {name};
    }
    blocks_.push_back(std::move(loop));
  }

  // Reads `PATTERN)` of a case, which may have alternatives separated by bars. The remaining words
  // belong to its branch.
  void TakePattern(std::vector<ShellWord>& words) {
    Block& block = blocks_.back();
    alternatives_.push_back(One(words[0]).Text());
    const Names unknown = block.subject.Unknown();
    const std::string subject = block.subject.Text();
    const bool matches = std::any_of(
        alternatives_.begin(), alternatives_.end(),
        [&](const std::string& pattern) { return pattern == "*" || pattern == subject; });
    const bool open =
        std::any_of(alternatives_.begin(), alternatives_.end(), [](const std::string& pattern) {
          return pattern != "*" && pattern.find_first_of("*?[") != std::string::npos;
        });
    for (const std::string& name : unknown) {
      for (const std::string& pattern : alternatives_) {
        if (pattern.find_first_of("*?[") == std::string::npos) {
          outcome_.compared[name].insert(pattern);
        }
      }
    }
    if (block.taken) {
      block.mode = Mode::kSkipped;
    } else if (!unknown.empty() || (open && !matches)) {
      block.mode = Mode::kUncertain;
      Add(block.depends_on, unknown);
    } else {
      block.mode = matches ? Mode::kRuns : Mode::kSkipped;
      block.taken = matches;
    }
    alternatives_.clear();
    words.erase(words.begin(), words.begin() + 2);
  }

  void Take(ShellCommand command) {
    auto& words = command.words;
    if (!blocks_.empty() && blocks_.back().kind == Kind::kCase) {
      if (!words.empty() && words[0].raw == "(") words.erase(words.begin());
      if (words.size() == 1 && command.joint == ShellJoint::kPipe) {
        alternatives_.push_back(One(words[0]).Text());
        return;
      }
      if (words.size() >= 2 && words[1].raw == ")" && !words[0].raw.ends_with('(')) {
        TakePattern(words);
        if (words.empty()) return;
      }
    }
    std::size_t taken = 0;
    for (; taken < words.size(); ++taken) {
      const std::string& first = words[taken].raw;
      if (first == "if") {
        blocks_.push_back({.kind = Kind::kIf, .mode = Mode::kRuns, .in_condition = true});
      } else if (first == "elif" && InIf()) {
        blocks_.back().in_condition = true;
        blocks_.back().mode = Mode::kRuns;
        blocks_.back().condition = {true};
        blocks_.back().has_condition = false;
      } else if (first == "then" && InIf()) {
        EnterBranch(blocks_.back());
      } else if (first == "else" && InIf()) {
        blocks_.back().condition = {true};
        EnterBranch(blocks_.back());
      } else if (first == "for") {
        TakeFor({words.begin() + static_cast<std::ptrdiff_t>(taken) + 1, words.end()});
        return;
      } else if (first == "while" || first == "until") {
        blocks_.push_back({.kind = Kind::kLoop, .mode = Mode::kUncertain, .what = "a loop"});
        return;
      } else if (first == "case") {
        Block block{.kind = Kind::kCase, .mode = Mode::kSkipped, .what = "a case"};
        if (taken + 1 < words.size()) block.subject = One(words[taken + 1]);
        blocks_.push_back(std::move(block));
        return;
      } else if (first == "{") {
        blocks_.push_back({.kind = Kind::kBraces, .mode = Mode::kRuns});
      } else if (first == "fi" || first == "done" || first == "esac" || first == "}") {
        if (!blocks_.empty()) blocks_.pop_back();
      } else if (first != "do" && first != "then") {
        break;
      }
    }
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(taken));
    if (words.empty()) return;
    if (words.size() >= 2 && words[0].raw.ends_with('(') && words[1].raw == ")") {
      // A function: its body may run where it is called.
      blocks_.push_back({.kind = Kind::kBraces, .mode = Mode::kUncertain, .what = "a function"});
      const bool opens = words.size() > 2 && words[2].raw == "{";
      words.erase(words.begin(), words.begin() + (opens ? 3 : 2));
      if (words.empty()) return;
    }
    if (InIf() && blocks_.back().in_condition) return TakeCondition(command);
    TakeChained(command);
  }

  // Runs a command, or a test that decides whether the command after && or || runs.
  void TakeChained(const ShellCommand& command) {
    const std::optional<Verdict> before = std::exchange(chained_, std::nullopt);
    const std::string& first = command.words.front().raw;
    if (first == "[" || first == "[[" || first == "test") {
      Verdict verdict = Test(command.words);
      if (before) verdict = And(*before, verdict);
      if (command.joint == ShellJoint::kAnd) chained_ = verdict;
      if (command.joint == ShellJoint::kOr) chained_ = Not(verdict);
      return;
    }
    if (before) {
      const Mode mode = !before->holds   ? Mode::kUncertain
                        : *before->holds ? Mode::kRuns
                                         : Mode::kSkipped;
      blocks_.push_back({.kind = Kind::kBraces, .mode = mode, .depends_on = before->depends_on});
    }
    if (ModeOf() != Mode::kSkipped) TakeSimple(command);
    if (before) blocks_.pop_back();
  }

  bool InIf() const { return !blocks_.empty() && blocks_.back().kind == Kind::kIf; }

  void TakeCondition(const ShellCommand& command) {
    Block& block = blocks_.back();
    const Verdict verdict = Test(command.words);
    if (!block.has_condition) {
      block.condition = verdict;
    } else if (block.joint == ShellJoint::kOr) {
      block.condition = Not(And(Not(block.condition), Not(verdict)));
    } else {
      block.condition = And(block.condition, verdict);
    }
    block.has_condition = true;
    block.joint = command.joint;
  }

  static void EnterBranch(Block& block) {
    block.in_condition = false;
    if (block.taken || block.condition.holds == false) {
      block.mode = Mode::kSkipped;
    } else if (block.condition.holds && !block.maybe_taken) {
      block.mode = Mode::kRuns;
      block.taken = true;
    } else {
      block.mode = Mode::kUncertain;
      block.maybe_taken = true;
      if (block.condition.holds) block.taken = true;
      Add(block.depends_on, block.condition.depends_on);
    }
  }

  Verdict Test(std::vector<ShellWord> words) {
    bool negated = false;
    while (!words.empty() && words.front().raw == "!") {
      negated = !negated;
      words.erase(words.begin());
    }
    if (words.empty()) return {std::nullopt};
    const std::string& first = words.front().raw;
    const bool is_test = first == "[" || first == "[[" || first == "test";
    if (is_test) words.erase(words.begin());
    std::erase_if(words, [](const ShellWord& word) { return word.raw == "]" || word.raw == "]]"; });
    const Verdict verdict = Compare(words);
    return negated ? Not(verdict) : verdict;
  }

  ShellText One(const ShellWord& word) { return Expander(scope_, word, false).Joined(); }

  // An unset variable is empty; the script tests for that itself.
  Verdict IsEmpty(const ShellWord& word) {
    ShellText text = One(word);
    std::erase_if(text.pieces, [this](const ShellPiece& piece) {
      return !piece.unknown.empty() && scope_.Find(piece.unknown) == nullptr &&
             !IsPositional(piece.unknown) && piece.unknown.front() != '$';
    });
    if (const Names unknown = text.Unknown(); !unknown.empty()) return {std::nullopt, unknown};
    return {text.Text().empty()};
  }

  Verdict Compare(const std::vector<ShellWord>& words) {
    if (words.size() == 1 && (words[0].raw == "-z" || words[0].raw == "-n")) {
      return {words[0].raw == "-z"};
    }
    if (words.size() == 1 && (words[0].raw == "true" || words[0].raw == "false")) {
      return {words[0].raw == "true"};
    }
    if (words.size() == 2 && words[0].raw == "-z") return IsEmpty(words[1]);
    if (words.size() == 2 && words[0].raw == "-n") return Not(IsEmpty(words[1]));
    if (words.size() != 3) return {std::nullopt};
    const ShellText left = One(words[0]), right = One(words[2]);
    const std::string& sign = words[1].raw;
    Names unknown = left.Unknown();
    Add(unknown, right.Unknown());
    if (!unknown.empty()) {
      for (const std::string& name : left.Unknown()) {
        if (right.Unknown().empty()) outcome_.compared[name].insert(right.Text());
      }
      return {std::nullopt, unknown};
    }
    const std::string a = left.Text(), b = right.Text();
    if (sign == "=" || sign == "==" || sign == "!=") {
      if (b.find('*') != std::string::npos) return {std::nullopt};
      return {(a == b) == (sign != "!=")};
    }
    const auto x = Value::Text(a).Integer(), y = Value::Text(b).Integer();
    if (!x || !y) return {std::nullopt};
    if (sign == "-eq") return {*x == *y};
    if (sign == "-ne") return {*x != *y};
    if (sign == "-gt") return {*x > *y};
    if (sign == "-ge") return {*x >= *y};
    if (sign == "-lt") return {*x < *y};
    if (sign == "-le") return {*x <= *y};
    return {std::nullopt};
  }

  // Handles assignments, or a command with its words.
  void TakeSimple(const ShellCommand& command) {
    std::size_t first = 0;
    bool exports = false;
    const auto& words = command.words;
    for (; first < words.size(); ++first) {
      const std::string& raw = words[first].raw;
      if (raw == "export" || raw == "declare" || raw == "local" || raw == "readonly" ||
          raw == "typeset") {
        exports = exports || raw == "export";
        while (first + 1 < words.size() && words[first + 1].raw.starts_with('-')) ++first;
        continue;
      }
      if (!Assign(words[first], exports || first + 1 < words.size())) break;
    }
    if (first == words.size() && command.documents.empty()) return;
    ShellInvocation invocation;
    invocation.certain = ModeOf() == Mode::kRuns;
    for (; first < words.size(); ++first) {
      auto fields = Expander(scope_, words[first], true).Fields();
      std::move(fields.begin(), fields.end(), std::back_inserter(invocation.words));
    }
    for (HereDocument document : command.documents) {
      if (document.expands) document.text = Replaced(document.text);
      invocation.documents.push_back(std::move(document));
    }
    outcome_.invocations.push_back(std::move(invocation));
  }

  // The text with known variables replaced; unknown ones stay.
  std::string Replaced(const std::string& text) {
    std::string replaced;
    for (std::size_t at = 0; at < text.size();) {
      if (text[at] != '$') {
        replaced += text[at++];
        continue;
      }
      std::size_t end = at + 1;
      if (end < text.size() && text[end] == '{') {
        end = std::min(text.find('}', end), text.size() - 1) + 1;
      } else {
        while (end < text.size() && IsNameCharacter(text[end])) ++end;
      }
      const std::string raw = text.substr(at, end - at);
      const ShellText value = One({raw, 0, 0});
      replaced += value.Unknown().empty() ? value.Text() : raw;
      at = end;
    }
    return replaced;
  }

  // Parses NAME=value, NAME+=value and NAME=(words).
  bool Assign(const ShellWord& word, bool exports) {
    std::size_t length = 0;
    while (length < word.raw.size() && IsNameCharacter(word.raw[length])) ++length;
    const bool appends = word.raw.substr(length, 2) == "+=";
    if (length == 0 || (!appends && word.raw.substr(length, 1) != "=")) return false;
    const std::string name = word.raw.substr(0, length);
    const std::size_t begin = length + (appends ? 2 : 1);
    Variable variable =
        ValueOf({word.raw.substr(begin), word.line, word.column + static_cast<int>(begin)});
    for (ShellText& text : variable.elements) {
      for (ShellPiece& piece : text.pieces) {
        // For command substitution, the assigned variable's name is asked for.
        if (piece.unknown.starts_with('$')) piece.unknown = name;
      }
    }
    if (ModeOf() == Mode::kUncertain) {
      const Names names = DependsOn();
      for (const Block& block : blocks_) {
        if (block.mode == Mode::kUncertain && !block.what.empty() && names.empty()) {
          outcome_.unfollowed[name] = block.what;
        }
      }
      variable = {{UnknownText(names.empty() ? name : names.front(), word.line)}};
    }
    if (exports && !variable.elements.empty()) outcome_.exported[name] = variable.elements.front();
    if (appends && ModeOf() != Mode::kUncertain) {
      scope_.Append(name, variable);
    } else {
      scope_.Set(name, std::move(variable));
    }
    return true;
  }

  Variable ValueOf(const ShellWord& word) {
    if (!word.raw.starts_with('(')) return {{One(word)}};
    Variable array{.elements = {}, .array = true};
    const std::size_t size = word.raw.size() - (word.raw.ends_with(')') ? 2 : 1);
    for (const ShellCommand& line : ReadShell(word.raw.substr(1, size)).commands) {
      for (ShellWord item : line.words) {
        item.column += item.line == 1 ? word.column : 0;
        item.line += word.line - 1;
        auto fields = Expander(scope_, item, true).Fields();
        std::move(fields.begin(), fields.end(), std::back_inserter(array.elements));
      }
    }
    return array;
  }

  Scope scope_;
  std::vector<std::string> alternatives_;  // of a case: patterns before the present one
  std::vector<Block> blocks_;
  std::optional<Verdict> chained_;  // whether the next command runs
  ShellOutcome outcome_;
};

}  // namespace

std::string ShellText::Text() const {
  std::string text;
  for (const ShellPiece& piece : pieces) text += piece.text;
  return text;
}

std::vector<std::string> ShellText::Unknown() const {
  Names names;
  for (const ShellPiece& piece : pieces) {
    if (!piece.unknown.empty()) Add(names, {piece.unknown});
  }
  return names;
}

ShellOutcome FollowShell(const ShellScript& script,
                         const std::map<std::string, std::string>& given) {
  return Follower(given).Run(script);
}

}  // namespace stepcast::foreign
