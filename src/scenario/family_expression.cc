#include "src/scenario/family_expression.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

#include "fmt/format.h"

namespace stepcast::scenario {
namespace {

using Kind = FamilyValue::Kind;

[[noreturn]] void Fail(std::string what) { throw FamilyMistake{std::move(what)}; }

bool IsNumber(const FamilyValue& value) {
  return value.kind == Kind::kInteger || value.kind == Kind::kNumber;
}

bool Equal(const FamilyValue& a, const FamilyValue& b) {
  if (IsNumber(a) && IsNumber(b)) return a.number == b.number;
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::kNull:
      return true;
    case Kind::kBoolean:
      return a.boolean == b.boolean;
    case Kind::kText:
      return a.text == b.text;
    case Kind::kList:
      return std::equal(a.list.begin(), a.list.end(), b.list.begin(), b.list.end(), Equal);
    default:
      return false;
  }
}

FamilyValue With(FamilyValue value, const FamilyValue& a, const FamilyValue& b) {
  value.location = a.location ? a.location : b.location;
  return value;
}

class Parser {
 public:
  Parser(std::string_view text, const FamilyNames& names) : text_(text), names_(names) {}

  FamilyValue Whole() {
    FamilyValue value = Choice();
    Blanks();
    if (at_ < text_.size()) Fail(fmt::format("unexpected '{}'", text_.substr(at_)));
    return value;
  }

 private:
  // The branch that is not chosen is parsed without evaluation: its names need no values.
  FamilyValue Choice() {
    const std::size_t begin = at_;
    const bool evaluates = evaluates_;
    // The condition stands after the first branch, which is parsed again once the condition is
    // known.
    evaluates_ = false;
    Either();
    evaluates_ = evaluates;
    if (!Word("if")) {
      at_ = begin;
      return Either();
    }
    const FamilyValue condition = Either();
    if (!Word("else")) Fail("'if' without 'else'");
    const std::size_t behind = at_;
    const bool takes_first = !evaluates || condition.IsTrue();
    FamilyValue value;
    if (takes_first) {
      at_ = begin;
      value = Either();
      at_ = behind;
      evaluates_ = false;
      Choice();
      evaluates_ = evaluates;
    } else {
      value = Choice();
    }
    return value;
  }

  FamilyValue Either() {
    FamilyValue value = Both();
    while (Word("or")) {
      const bool evaluates = evaluates_;
      if (value.IsTrue()) evaluates_ = false;
      FamilyValue other = Both();
      evaluates_ = evaluates;
      if (!value.IsTrue()) value = std::move(other);
    }
    return value;
  }

  FamilyValue Both() {
    FamilyValue value = Negation();
    while (Word("and")) {
      const bool evaluates = evaluates_;
      if (!value.IsTrue()) evaluates_ = false;
      FamilyValue other = Negation();
      evaluates_ = evaluates;
      if (value.IsTrue()) value = std::move(other);
    }
    return value;
  }

  FamilyValue Negation() {
    if (Word("not")) return FamilyValue::Of(!Negation().IsTrue());
    return Comparison();
  }

  FamilyValue Comparison() {
    FamilyValue a = Sum();
    for (const std::string_view sign : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (!Sign(sign)) continue;
      const FamilyValue b = Sum();
      if (!evaluates_) return {};
      if (sign == "==") return With(FamilyValue::Of(Equal(a, b)), a, b);
      if (sign == "!=") return With(FamilyValue::Of(!Equal(a, b)), a, b);
      NeedNumbers(a, b, sign);
      const bool holds = sign == "<="   ? a.number <= b.number
                         : sign == ">=" ? a.number >= b.number
                         : sign == "<"  ? a.number < b.number
                                        : a.number > b.number;
      return With(FamilyValue::Of(holds), a, b);
    }
    if (Word("in")) {
      const FamilyValue b = Sum();
      if (!evaluates_) return {};
      if (b.kind == Kind::kText && a.kind == Kind::kText) {
        return With(FamilyValue::Of(b.text.find(a.text) != std::string::npos), a, b);
      }
      const bool found = std::any_of(b.list.begin(), b.list.end(),
                                     [&](const FamilyValue& item) { return Equal(a, item); });
      return With(FamilyValue::Of(found), a, b);
    }
    return a;
  }

  FamilyValue Sum() {
    FamilyValue a = Product();
    for (;;) {
      const bool plus = Sign("+");
      if (!plus && !Sign("-")) return a;
      const FamilyValue b = Product();
      if (!evaluates_) continue;
      if (plus && a.kind == Kind::kText && b.kind == Kind::kText) {
        a.text += b.text;
        continue;
      }
      NeedNumbers(a, b, plus ? "+" : "-");
      a = plus ? Arithmetic(a, b, a.integer + b.integer, a.number + b.number)
               : Arithmetic(a, b, a.integer - b.integer, a.number - b.number);
    }
  }

  FamilyValue Product() {
    FamilyValue a = Factor();
    for (;;) {
      std::string_view sign;
      for (const std::string_view candidate : {"//", "*", "/", "%"}) {
        if (Sign(candidate)) {
          sign = candidate;
          break;
        }
      }
      if (sign.empty()) return a;
      const FamilyValue b = Factor();
      if (!evaluates_) continue;
      NeedNumbers(a, b, sign);
      if (sign != "*" && b.number == 0) Fail(fmt::format("'{}' by 0", sign));
      if (sign == "*") {
        std::int64_t product = 0;
        if (__builtin_mul_overflow(a.integer, b.integer, &product))
          Fail("the result of a multiplication is too large");
        a = Arithmetic(a, b, product, a.number * b.number);
      } else if (sign == "/") {
        a = With(FamilyValue::Of(a.number / b.number), a, b);
      } else if (a.kind != Kind::kInteger || b.kind != Kind::kInteger) {
        Fail(fmt::format("'{}' needs two integers", sign));
      } else {
        const std::int64_t rest = (a.integer % b.integer + b.integer) % b.integer;
        // The divisor is more often wrong (heads that do not divide a width).
        a = With(FamilyValue::Of(sign == "%" ? rest : (a.integer - rest) / b.integer), b, a);
      }
    }
  }

  FamilyValue Factor() {
    if (Sign("-")) {
      FamilyValue value = Factor();
      if (evaluates_ && !IsNumber(value)) Fail("'-' needs a number");
      value.integer = -value.integer;
      value.number = -value.number;
      return value;
    }
    FamilyValue value = Primary();
    while (Sign("[")) {
      const FamilyValue index = Choice();
      if (!Sign("]")) Fail("']' is missing");
      if (!evaluates_) continue;
      const auto location = value.location;
      if (value.kind != Kind::kList || index.kind != Kind::kInteger) {
        Fail("a list must precede '[', and an integer must be between the brackets");
      }
      const auto size = static_cast<std::int64_t>(value.list.size());
      const std::int64_t place = index.integer < 0 ? size + index.integer : index.integer;
      if (place < 0 || place >= size) {
        Fail(
            fmt::format("the list has {} values, so index {} does not "
                        "exist",
                        size, index.integer));
      }
      FamilyValue item = value.list[static_cast<std::size_t>(place)];
      value = std::move(item);
      value.location = location;
    }
    return value;
  }

  FamilyValue Primary() {
    Blanks();
    if (at_ >= text_.size()) Fail("a value is missing");
    const char c = text_[at_];
    if (c == '(') {
      ++at_;
      FamilyValue value = Choice();
      if (!Sign(")")) Fail("')' is missing");
      return value;
    }
    if (c == '[') {
      ++at_;
      return {.kind = Kind::kList, .list = ValuesUpTo(']')};
    }
    if (c == '\'') {
      const std::size_t end = text_.find('\'', at_ + 1);
      if (end == std::string_view::npos) Fail("a string has no closing quote");
      FamilyValue text = FamilyValue::Of(std::string(text_.substr(at_ + 1, end - at_ - 1)));
      at_ = end + 1;
      return text;
    }
    if (std::isdigit(static_cast<unsigned char>(c))) return Number();
    return Name();
  }

  // Values with commas between them, and the closing bracket.
  std::vector<FamilyValue> ValuesUpTo(char bracket) {
    std::vector<FamilyValue> values;
    while (!Sign({&bracket, 1})) {
      values.push_back(Choice());
      if (!Sign(",") && (Blanks(), at_ >= text_.size() || text_[at_] != bracket)) {
        Fail(fmt::format("'{}' is missing", bracket));
      }
    }
    return values;
  }

  FamilyValue Number() {
    std::size_t end = at_;
    const auto more = [&] {
      const char c = text_[end];
      return std::isdigit(static_cast<unsigned char>(c)) || c == '.' || c == 'e';
    };
    while (end < text_.size() && more()) ++end;
    const std::string_view digits = text_.substr(at_, end - at_);
    at_ = end;
    std::int64_t integer = 0;
    const auto [rest, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), integer);
    if (error == std::errc() && rest == digits.data() + digits.size()) {
      return FamilyValue::Of(integer);
    }
    return FamilyValue::Of(std::strtod(std::string(digits).c_str(), nullptr));
  }

  FamilyValue Name() {
    const std::string_view name = NextName();
    if (name.empty()) Fail(fmt::format("unexpected '{}'", text_.substr(at_)));
    at_ += name.size();
    if (name == "true" || name == "false") return FamilyValue::Of(name == "true");
    if (name == "null") return {};
    if (Sign("(")) return Function(name);
    return evaluates_ ? names_(name) : FamilyValue();
  }

  FamilyValue Function(std::string_view name) {
    const std::vector<FamilyValue> arguments = ValuesUpTo(')');
    if (!evaluates_) return {};
    if (name == "len" && arguments.size() == 1) {
      const FamilyValue& of = arguments[0];
      const std::size_t size = of.kind == Kind::kText ? of.text.size() : of.list.size();
      return With(FamilyValue::Of(static_cast<std::int64_t>(size)), of, of);
    }
    if (name == "letters" && arguments.size() == 1) {
      FamilyValue letters{.kind = Kind::kList, .location = arguments[0].location};
      for (const char c : arguments[0].text) {
        letters.list.push_back(FamilyValue::Of(std::string(1, c)));
      }
      return letters;
    }
    if ((name == "starts" || name == "ends") && arguments.size() == 2) {
      const FamilyValue &text = arguments[0], &part = arguments[1];
      const bool holds =
          name == "starts" ? text.text.starts_with(part.text) : text.text.ends_with(part.text);
      return With(FamilyValue::Of(holds), text, part);
    }
    if (name == "whole" && arguments.size() == 1) {
      const FamilyValue& of = arguments[0];
      return With(FamilyValue::Of(of.number == std::floor(of.number)), of, of);
    }
    if ((name == "min" || name == "max") && arguments.size() == 2) {
      NeedNumbers(arguments[0], arguments[1], name);
      const bool first = (arguments[0].number <= arguments[1].number) == (name == "min");
      return With(arguments[first ? 0 : 1], arguments[0], arguments[1]);
    }
    Fail(fmt::format("there is no function '{}' with {} arguments", name, arguments.size()));
  }

  static FamilyValue Arithmetic(const FamilyValue& a, const FamilyValue& b, std::int64_t integer,
                                double number) {
    const bool whole = a.kind == Kind::kInteger && b.kind == Kind::kInteger;
    return With(whole ? FamilyValue::Of(integer) : FamilyValue::Of(number), a, b);
  }

  static void NeedNumbers(const FamilyValue& a, const FamilyValue& b, std::string_view sign) {
    if (!IsNumber(a) || !IsNumber(b)) {
      Fail(fmt::format("'{}' needs two numbers, not '{}' and '{}'", sign, a.Text(), b.Text()));
    }
  }

  void Blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  std::string_view NextName() {
    Blanks();
    std::size_t end = at_;
    const auto more = [&] {
      const auto c = static_cast<unsigned char>(text_[end]);
      return std::isalnum(c) || c == '_' || c == '.';
    };
    while (end < text_.size() && more()) ++end;
    return text_.substr(at_, end - at_);
  }
  bool Word(std::string_view word) {
    if (NextName() != word) return false;
    at_ += word.size();
    return true;
  }
  bool Sign(std::string_view sign) {
    Blanks();
    if (!text_.substr(at_).starts_with(sign)) return false;
    // '/' is a prefix of '//', which is tried first.
    at_ += sign.size();
    return true;
  }

  std::string_view text_;
  const FamilyNames& names_;
  std::size_t at_ = 0;
  bool evaluates_ = true;
};

}  // namespace

FamilyValue FamilyValue::Of(bool value) { return {.kind = Kind::kBoolean, .boolean = value}; }
FamilyValue FamilyValue::Of(std::int64_t value) {
  return {.kind = Kind::kInteger, .integer = value, .number = static_cast<double>(value)};
}
FamilyValue FamilyValue::Of(double value) { return {.kind = Kind::kNumber, .number = value}; }
FamilyValue FamilyValue::Of(std::string value) {
  return {.kind = Kind::kText, .text = std::move(value)};
}

bool FamilyValue::IsTrue() const {
  switch (kind) {
    case Kind::kNull:
      return false;
    case Kind::kBoolean:
      return boolean;
    case Kind::kInteger:
    case Kind::kNumber:
      return number != 0;
    case Kind::kText:
      return !text.empty();
    case Kind::kList:
      return !list.empty();
  }
  return false;
}

std::string FamilyValue::Text() const {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBoolean:
      return boolean ? "true" : "false";
    case Kind::kInteger:
      return fmt::format("{}", integer);
    case Kind::kNumber:
      return fmt::format("{}", number);
    case Kind::kText:
      return text;
    case Kind::kList: {
      std::string all;
      for (const FamilyValue& item : list) {
        if (!all.empty()) all += ' ';
        all += item.Text();
      }
      return all;
    }
  }
  return "";
}

FamilyValue Evaluate(std::string_view expression, const FamilyNames& names) {
  return Parser(expression, names).Whole();
}

}  // namespace stepcast::scenario
