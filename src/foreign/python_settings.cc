#include "src/foreign/python_settings.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/foreign/recipes.h"

namespace stepcast::foreign {
namespace {

bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsNameCharacter(char c) {
  return IsNameStart(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}
bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// A statement, which continues over lines while a bracket is open.
struct Statement {
  std::string_view text;
  int line = 0;
  int indent = 0;
};

// A node of an expression.
struct Node {
  enum class Kind : std::uint8_t { kNothing, kText, kList, kCall, kExpression };
  Kind kind = Kind::kExpression;
  std::string text{};  // kText: the value; kCall: the function; kExpression: the source
  int line = 0;
  int column = 0;
  std::vector<std::pair<std::string, Node>> arguments{};  // kCall; kList: without names
};

// The position after a quoted text that begins at `at`.
std::size_t SkipQuoted(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string three(3, quote);
  if (text.substr(at, 3) == three) {
    const std::size_t end = text.find(three, at + 3);
    return end == std::string_view::npos ? text.size() + 1 : end + 3;
  }
  for (++at; at < text.size() && text[at] != '\n'; ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == quote) {
      return at + 1;
    }
  }
  return text.size() + 1;  // not closed
}

class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}

  // Nothing if a bracket or quote is not closed; `line_` is then its line.
  std::optional<std::vector<Statement>> Read() {
    std::vector<Statement> statements;
    while (at_ < text_.size()) {
      const int line = line_;
      int indent = 0;
      while (at_ < text_.size() && IsSpace(text_[at_])) {
        indent += text_[at_] == '\t' ? 8 : 1;
        ++at_;
      }
      const std::size_t begin = at_;
      if (!SkipStatement()) {
        line_ = line;
        return std::nullopt;
      }
      std::string_view words = text_.substr(begin, end_ - begin);
      if (!words.empty()) statements.push_back({words, line, indent});
    }
    return statements;
  }
  int line() const { return line_; }

 private:
  bool SkipStatement() {
    int depth = 0;
    end_ = at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
        continue;
      }
      if (c == '"' || c == '\'') {
        const std::size_t end = SkipQuoted(text_, at_);
        if (end > text_.size()) return false;
        line_ +=
            static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                        text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
        at_ = end_ = end;
        continue;
      }
      if (c == '\n') ++line_;
      ++at_;
      if (c == '\n' && depth == 0) return true;
      if (c == '\\' && at_ < text_.size() && text_[at_] == '\n') {
        ++line_;
        ++at_;
        continue;
      }
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
      if (!IsSpace(c) && c != '\n') end_ = at_;
    }
    return depth <= 0;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  int line_ = 1;
};

// Parses the expressions of one statement.
class Expressions {
 public:
  Expressions(std::string_view text, int line) : text_(text), line_(line) {}

  // Reads the rest of the statement as one expression.
  Node Read() {
    Node node = Sum(0);
    Skip();
    if (at_ < text_.size()) node = Written(0);
    return node;
  }

 private:
  static constexpr int kDeepest = 64;

  void Skip() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (text_[at_] == '\n') {
        ++line_;
        ++at_;
      } else if (IsSpace(text_[at_]) || text_[at_] == '\\') {
        ++at_;
      } else {
        return;
      }
    }
  }
  bool Take(char c) {
    Skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  char Peek() {
    Skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  Node Written(std::size_t begin) const { return Written(begin, at_); }
  Node Written(std::size_t begin, std::size_t end) const {
    Node node;
    node.text = std::string(text_.substr(begin, end - begin));
    if (begin == 0) node.text = std::string(text_);
    node.line = line_;
    return node;
  }

  static std::optional<std::int64_t> NumberOf(const Node& node) {
    return node.kind == Node::Kind::kText ? Value::Text(node.text).Integer() : std::nullopt;
  }

  // Skips the rest of an argument after an operator that is not followed.
  void SkipArgument() {
    int depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        const std::size_t end = std::min(SkipQuoted(text_, at_), text_.size());
        line_ +=
            static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                        text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
        at_ = end;
        continue;
      }
      const bool closes = c == ')' || c == ']' || c == '}';
      if (depth == 0 && (closes || c == ',')) return;
      depth += c == '(' || c == '[' || c == '{' ? 1 : closes ? -1 : 0;
      if (c == '\n') ++line_;
      ++at_;
    }
  }

  Node Sum(int depth) {
    Skip();
    const std::size_t begin = at_;
    // An expression that cannot be computed is copied once, for any number of operators.
    bool known = true;
    Node value = Product(depth, known);
    std::size_t end = at_;
    while (Peek() == '+' || Peek() == '-') {
      const bool plus = text_[at_++] == '+';
      value = Combined(value, Product(depth, known), plus ? '+' : '-', known);
      end = at_;
      value.line = line_;
    }
    const char next = Peek();
    if (next != '\0' && next != ',' && next != ')' && next != ']' && next != '}' && next != '=' &&
        next != ':') {
      SkipArgument();
      return Written(begin);
    }
    if (known) return value;
    Node written = Written(begin, end);
    written.line = value.line;
    return written;
  }

  Node Product(int depth, bool& known) {
    Node value = Primary(depth);
    while (Peek() == '*' || Peek() == '/') {
      const char sign = text_[at_++];
      const bool twice = at_ < text_.size() && text_[at_] == sign;
      if (twice) ++at_;
      value = Combined(value, Primary(depth), twice ? (sign == '*' ? '^' : '%') : sign, known);
    }
    return value;
  }

  // Combines two numbers. `known` becomes false if the result is no number.
  Node Combined(const Node& left, const Node& right, char sign, bool& known) {
    const auto a = NumberOf(left), b = NumberOf(right);
    std::int64_t number = 0;
    known = known && a && b;
    if (known) {
      switch (sign) {
        case '+':
          known = !__builtin_add_overflow(*a, *b, &number);
          break;
        case '-':
          known = !__builtin_sub_overflow(*a, *b, &number);
          break;
        case '*':
          known = !__builtin_mul_overflow(*a, *b, &number);
          break;
        case '%':  // a whole quotient
          known = *b > 0 && *a >= 0;
          if (known) number = *a / *b;
          break;
        case '^':
          number = 1;
          known = *b >= 0 && *b < 64;
          for (std::int64_t i = 0; known && i < *b; ++i) {
            known = !__builtin_mul_overflow(number, *a, &number);
          }
          break;
        default:
          known = false;
      }
    }
    Node node;
    node.line = line_;
    if (!known) return node;
    node = left;
    node.text = fmt::format("{}", number);
    return node;
  }

  Node Primary(int depth) {
    Skip();
    const std::size_t begin = at_;
    Node node;
    node.line = line_;
    if (depth > kDeepest || at_ >= text_.size()) {
      SkipArgument();
      return node;
    }
    const char c = text_[at_];
    if (c == '"' || c == '\'') {
      node.kind = Node::Kind::kText;
      node.text = Quoted();
      return node;
    }
    if (c == '-' || std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.')
      return Number(node);
    if (c == '(' || c == '[') return Sequence(depth, node, c == '(' ? ')' : ']');
    if (!IsNameStart(c)) {
      SkipArgument();
      return Written(begin);
    }
    return Named(depth, node, begin);
  }

  std::string Quoted() {
    const std::size_t end = std::min(SkipQuoted(text_, at_), text_.size());
    const std::size_t quotes =
        text_.substr(at_, 3) == std::string(3, text_[at_]) && end - at_ >= 6 ? 3 : 1;
    std::string inner(text_.substr(at_ + quotes, end - at_ - 2 * quotes));
    line_ += static_cast<int>(std::count(inner.begin(), inner.end(), '\n'));
    at_ = end;
    return inner;
  }

  Node Number(Node node) {
    const std::size_t begin = at_;
    if (text_[at_] == '-') ++at_;
    while (at_ < text_.size() && (IsNameCharacter(text_[at_]) || text_[at_] == '.' ||
                                  ((text_[at_] == '-' || text_[at_] == '+') &&
                                   (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E')))) {
      ++at_;
    }
    node.kind = Node::Kind::kText;
    node.text = std::string(text_.substr(begin, at_ - begin));
    if (!Value::Text(node.text).Number()) node.kind = Node::Kind::kExpression;
    return node;
  }

  // (a, b), [a, b]; a single value in parentheses is that value.
  Node Sequence(int depth, Node node, char close) {
    ++at_;
    node.kind = Node::Kind::kList;
    bool comma = false;
    while (at_ < text_.size() && Peek() != close) {
      const std::size_t before = at_;
      node.arguments.emplace_back("", Sum(depth + 1));
      if (!Take(',')) {
        if (Peek() != close) SkipArgument();
      } else {
        comma = true;
      }
      if (at_ == before) ++at_;
    }
    Take(close);
    if (close == ')' && !comma && node.arguments.size() == 1) return node.arguments.front().second;
    return node;
  }

  // A dotted name, with the arguments if it is called.
  Node Named(int depth, Node node, std::size_t begin) {
    while (at_ < text_.size() && (IsNameCharacter(text_[at_]) || text_[at_] == '.')) ++at_;
    node.text = std::string(text_.substr(begin, at_ - begin));
    if (node.text == "True" || node.text == "False") {
      node.kind = Node::Kind::kText;
      return node;
    }
    if (node.text == "None") {
      node.kind = Node::Kind::kNothing;
      return node;
    }
    const char next = Peek();
    if (next == '"' || next == '\'' || next == '[' || IsNameStart(next)) {
      SkipArgument();
      return Written(begin);
    }
    if (next != '(') return node;  // a name, which may be a variable
    ++at_;
    node.kind = Node::Kind::kCall;
    int position = 0;
    while (at_ < text_.size() && Peek() != ')') {
      const std::size_t before = at_;
      std::string keyword = Keyword();
      if (keyword.empty()) keyword = fmt::format("{}", position++);
      Node value = Sum(depth + 1);
      node.arguments.emplace_back(std::move(keyword), std::move(value));
      if (!Take(',') && Peek() != ')') SkipArgument();
      if (at_ == before) ++at_;
    }
    Take(')');
    // A model of the Hub in Megatron-Bridge: `AutoBridge.from_hf_pretrained("...").to_...()`.
    if (Peek() == '.' && node.text == "AutoBridge.from_hf_pretrained") {
      SkipArgument();
      return node;
    }
    // Further calls on the result of a call, or on its members, are not followed.
    if (Peek() == '.' || Peek() == '[' || Peek() == '(') {
      SkipArgument();
      return Written(begin);
    }
    return node;
  }

  std::string Keyword() {
    Skip();
    std::size_t end = at_;
    while (end < text_.size() && IsNameCharacter(text_[end])) ++end;
    std::size_t sign = end;
    while (sign < text_.size() && IsSpace(text_[sign])) ++sign;
    const bool assigns =
        end > at_ && sign + 1 < text_.size() && text_[sign] == '=' && text_[sign + 1] != '=';
    if (!assigns) return "";
    std::string name(text_.substr(at_, end - at_));
    at_ = sign + 1;
    return name;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_;
};

using Function = std::vector<Statement>;
using Variables = std::map<std::string, Node>;

// Limits copying. A name that stands for a list is replaced by the list, so a few lines can stand
// for any number of values: forty of `a1 = [a0, a0]` would exceed memory. Copied and visited values
// are counted, and reading ends at a million, far more than any configuration has.
class Budget {
 public:
  // Whether this number of further values is allowed.
  bool Spend(std::size_t values) {
    left_ -= std::min(values, left_);
    return left_ > 0;
  }
  // Accounts for a copy of the node: its values, and its text by lines.
  bool SpendOn(const Node& node) {
    constexpr std::size_t kLine = 64;
    if (!Spend(1 + node.text.size() / kLine)) return false;
    return std::all_of(node.arguments.begin(), node.arguments.end(), [&](const auto& argument) {
      return Spend(argument.first.size() / kLine) && SpendOn(argument.second);
    });
  }
  bool used_up() const { return left_ == 0; }

 private:
  std::size_t left_ = kMostPythonValues;
};

class Program {
 public:
  explicit Program(std::vector<Statement> statements) {
    Function* open = nullptr;
    for (const Statement& statement : statements) {
      if (statement.indent > 0) {
        if (open != nullptr) open->push_back(statement);
        continue;
      }
      open = nullptr;
      constexpr std::string_view kDef = "def ";
      constexpr std::string_view kMain = "if __name__";
      if (statement.text.starts_with("from ")) {
        Import(statement.text);
      } else if (statement.text.starts_with(kMain)) {
        names_.emplace_back("__main__");
        open = &functions_[names_.back()];
      } else if (statement.text.starts_with(kDef)) {
        const std::size_t end = statement.text.find('(');
        names_.emplace_back(statement.text.substr(kDef.size(), end - kDef.size()));
        open = &functions_[names_.back()];
      } else {
        functions_[kModule].push_back(statement);
      }
    }
    for (const Statement& statement : functions_[kModule]) Assign(statement, globals_, 0);
    names_.emplace_back(kModule);
  }

  // The value that the function returns or, if it returns no call, its changed recipe. Nothing if
  // it has neither.
  std::optional<Node> Returned(const std::string& name, int depth = 0) const {
    constexpr int kDeepest = 8;
    const auto function = functions_.find(name);
    if (function == functions_.end() || depth > kDeepest) return std::nullopt;
    for (const auto& [name_of_global, value] : globals_) {
      if (!budget_.SpendOn(value)) return std::nullopt;
    }
    Variables variables = globals_;
    const int indent = function->second.empty() ? 0 : function->second.front().indent;
    for (const Statement& statement : function->second) {
      if (!budget_.Spend(1)) return std::nullopt;
      if (statement.indent != indent) {  // below an if or a loop
        NoteCondition(statement, variables);
        continue;
      }
      constexpr std::string_view kReturn = "return ";
      if (statement.text.starts_with(kReturn)) {
        Node node =
            Evaluated(statement.text.substr(kReturn.size()), statement.line, variables, depth);
        if (node.kind == Node::Kind::kCall) return node;
        break;
      }
      Assign(statement, variables, depth);
    }
    const auto made = std::find_if(variables.begin(), variables.end(), [this](const auto& entry) {
      return entry.second.kind == Node::Kind::kCall && !RecipeName(entry.second.text).empty();
    });
    if (made == variables.end()) return std::nullopt;
    return made->second;
  }

  // The recipe called by this name; empty if there is none. It is the function's name, or that of
  // the module with a `pretrain_config`. The recipe may be unknown to us.
  std::string RecipeName(const std::string& called) const {
    std::string full = called;
    const std::string first = called.substr(0, called.find('.'));
    if (const auto import = imports_.find(first); import != imports_.end()) {
      full = import->second + called.substr(first.size());
    }
    const std::size_t dot = full.rfind('.');
    const std::string last = full.substr(dot + 1);
    if (RecipeOf(last) != nullptr) return last;
    const bool whole = last == "pretrain_config" || last == "pretrain_recipe";
    if (whole && dot != std::string::npos) {
      return full.substr(0, dot).substr(full.rfind('.', dot - 1) + 1);
    }
    const bool of_bridge = full.find(".recipes.") != std::string::npos;
    return of_bridge && last.ends_with("_config") ? last : "";
  }

  // Names of functions that return a call.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const std::string& name : names_) {
      if (Returned(name)) names.push_back(name);
    }
    return names;
  }

  // Whether the file stands for too many values.
  bool too_large() const { return budget_.used_up(); }

 private:
  Node Evaluated(std::string_view text, int line, const Variables& variables, int depth) const {
    Node node = Expressions(text, line).Read();
    Resolve(node, variables, depth);
    return node;
  }

  // Replaces names of variables, and calls of the file's own functions, by their values.
  void Resolve(Node& node, const Variables& variables, int depth) const {
    for (auto& [name, argument] : node.arguments) Resolve(argument, variables, depth);
    if (node.kind == Node::Kind::kExpression) {
      const auto variable = variables.find(node.text);
      if (variable != variables.end() && budget_.SpendOn(variable->second)) {
        node = variable->second;
      }
    } else if (node.kind == Node::Kind::kCall && functions_.count(node.text) > 0) {
      if (auto returned = Returned(node.text, depth + 1)) {
        node = *std::move(returned);
      } else {
        node.kind = Node::Kind::kExpression;
      }
    }
  }

  // Reads `from MODULE import NAME, NAME as OTHER`.
  void Import(std::string_view text) {
    std::string words;
    for (const char c : text) words += c == '(' || c == ')' || c == '\n' || c == '\\' ? ' ' : c;
    constexpr std::string_view kImport = " import ";
    const std::size_t import = words.find(kImport);
    if (import == std::string::npos) return;
    const auto trimmed = [](std::string part) {
      part.erase(0, std::min(part.find_first_not_of(" \t\r"), part.size()));
      part.erase(part.find_last_not_of(" \t\r") + 1);
      return part;
    };
    const std::string module = trimmed(words.substr(4, import - 4));
    const std::string list = words.substr(import + kImport.size());
    for (std::size_t at = 0; at < list.size();) {
      const std::size_t end = std::min(list.find(',', at), list.size());
      const std::string name = trimmed(list.substr(at, end - at));
      constexpr std::string_view kAs = " as ";
      const std::size_t as = name.find(kAs);
      const std::string here =
          as == std::string::npos ? name : trimmed(name.substr(as + kAs.size()));
      if (!here.empty()) imports_[here] = module + "." + trimmed(name.substr(0, as));
      at = end + 1;
    }
  }

  struct Assignment {
    std::string target;      // empty if the statement is no assignment
    std::string_view value;  // the text after "="
  };

  // Parses NAME = value, NAME: TYPE = value, or NAME.member.member = value.
  static Assignment AssignmentOf(std::string_view text) {
    std::size_t end = 0;
    while (end < text.size() && (IsNameCharacter(text[end]) || text[end] == '.')) ++end;
    std::string target(text.substr(0, end));
    while (end < text.size() && IsSpace(text[end])) ++end;
    if (end < text.size() && text[end] == ':') end = std::min(text.find('=', end), text.size());
    const bool assigns =
        !target.empty() && end + 1 < text.size() && text[end] == '=' && text[end + 1] != '=';
    if (!assigns) return {};
    return {std::move(target), text.substr(end + 1)};
  }

  // A conditional assignment becomes a setting that no program has, so that it is reported.
  static void NoteCondition(const Statement& statement, Variables& variables) {
    const Assignment assignment = AssignmentOf(statement.text);
    const std::size_t dot = assignment.target.find('.');
    if (dot == std::string::npos) return;
    const auto variable = variables.find(assignment.target.substr(0, dot));
    if (variable == variables.end() || variable->second.kind != Node::Kind::kCall) return;
    Node value{.kind = Node::Kind::kText, .line = statement.line};
    value.text = assignment.value.substr(
        std::min(assignment.value.find_first_not_of(" \t"), assignment.value.size()));
    variable->second.arguments.emplace_back(
        assignment.target.substr(dot + 1) + std::string(kUnderCondition), std::move(value));
  }

  void Assign(const Statement& statement, Variables& variables, int depth) const {
    auto [target, text] = AssignmentOf(statement.text);
    if (target.empty()) return;
    Node value = Evaluated(text, statement.line, variables, depth);
    const std::size_t dot = target.find('.');
    if (dot == std::string::npos) {
      variables[target] = std::move(value);
      return;
    }
    const auto variable = variables.find(target.substr(0, dot));
    if (variable == variables.end()) return;
    Node* node = &variable->second;
    // Members are searched linearly, and the depth is the length of the path.
    const auto members = static_cast<std::size_t>(std::count(target.begin(), target.end(), '.'));
    if (!budget_.Spend(members * members)) return;
    for (target.erase(0, dot + 1);;) {
      constexpr std::size_t kLookedAtAtOnce = 16;
      if (!budget_.Spend(node->arguments.size() / kLookedAtAtOnce)) return;
      const std::size_t next = target.find('.');
      const std::string member = target.substr(0, next);
      auto found = std::find_if(node->arguments.begin(), node->arguments.end(),
                                [&](const auto& argument) { return argument.first == member; });
      if (found == node->arguments.end()) {
        node->arguments.emplace_back(member,
                                     Node{.kind = Node::Kind::kCall, .line = statement.line});
        found = node->arguments.end() - 1;
      }
      node = &found->second;
      if (next == std::string::npos) break;
      target.erase(0, next + 1);
    }
    *node = std::move(value);
  }

  // The name for code outside functions.
  static constexpr const char* kModule = "module";

  std::map<std::string, Function> functions_;
  mutable Budget budget_;
  std::vector<std::string> names_;
  Variables globals_;
  std::map<std::string, std::string> imports_;  // by the name in this file: "MODULE.NAME"
};

constexpr std::string_view kTorch = "torch.";

void Flatten(const Node& node, const std::string& name, Document& document) {
  Setting setting{name, {}, {document.file, node.line, 0}};
  if (!document.HasRoomFor(name, setting.location)) return;
  switch (node.kind) {
    case Node::Kind::kNothing:
      break;
    case Node::Kind::kText:
    case Node::Kind::kCall:
      setting.value = Value::Text(node.text);
      break;
    case Node::Kind::kExpression:
      setting.value = Value::Text(node.text);
      if (node.text.starts_with(kTorch)) {  // a type
        setting.value.text.erase(0, kTorch.size());
      } else {
        setting.value.kind = Value::Kind::kExpression;
      }
      break;
    case Node::Kind::kList:
      setting.value.kind = Value::Kind::kList;
      for (const auto& [none, item] : node.arguments) setting.value.items.push_back(item.text);
      break;
  }
  if (!name.empty()) document.settings.push_back(std::move(setting));
  if (node.kind == Node::Kind::kList) {  // the arguments of each element
    int position = 0;
    for (const auto& [none, item] : node.arguments) {
      const std::string place = fmt::format("{}.{}", name, position++);
      if (item.kind != Node::Kind::kCall) continue;
      for (const auto& [keyword, argument] : item.arguments) {
        Flatten(argument, place + "." + keyword, document);
      }
    }
  }
  if (node.kind != Node::Kind::kCall) return;
  for (const auto& [keyword, argument] : node.arguments) {
    Flatten(argument, name.empty() ? keyword : name + "." + keyword, document);
  }
}

}  // namespace

Result<Document> ParsePythonSettings(std::string_view text, const std::string& file,
                                     const std::string& function) {
  Lines lines(text);
  auto statements = lines.Read();
  if (!statements) {
    return tl::make_unexpected(Diagnostics{
        {"foreign.syntax",
         {file, lines.line(), 0},
         "the Python code is not well-formed: a bracket or a quotation mark is not closed",
         "close the bracket or the quotation mark"}});
  }
  const Program program(*std::move(statements));
  const std::vector<std::string> names = program.Names();
  const auto too_large = [&file](int line) {
    return Diagnostics{{"file.too-large",
                        {file, line, 0},
                        fmt::format("the configuration has more than {} values", kMostPythonValues),
                        "check that the path is correct"}};
  };
  if (program.too_large()) return tl::make_unexpected(too_large(0));
  std::string chosen = function;
  if (chosen.empty() && names.size() == 1) chosen = names.front();
  if (std::find(names.begin(), names.end(), chosen) == names.end()) {
    const std::string what = names.empty() ? "no function returns a configuration"
                             : chosen.empty()
                                 ? "several functions return a configuration"
                                 : "no function returns a configuration: " + Quoted(chosen);
    return tl::make_unexpected(Diagnostics{
        {"foreign.missing",
         {file, 0, 0},
         what,
         names.empty() ? "use a file with a function that returns a configuration, for "
                         "example: return ConfigContainer(train=..., model=...)"
                       : fmt::format("choose one function with --function {}; the file has {}",
                                     names.front(), fmt::join(names, ", "))}});
  }
  Document document{.file = file};
  const std::optional<Node> returned = program.Returned(chosen);
  if (!returned) return tl::make_unexpected(too_large(0));
  const Node& root = *returned;
  Flatten(root, "", document);
  if (const std::string recipe = program.RecipeName(root.text); !recipe.empty()) {
    document.settings.push_back({"recipe", Value::Text(recipe), {file, root.line, 0}});
  }
  document.settings.push_back({"function", Value::Text(chosen), {file, 0, 0}});
  return document;
}

}  // namespace stepcast::foreign
