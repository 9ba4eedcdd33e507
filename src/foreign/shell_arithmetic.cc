#include <cctype>
#include <charconv>
#include <cstddef>

#include "src/foreign/shell.h"

namespace stepcast::foreign {
namespace {

using Number = std::optional<std::int64_t>;

class ArithmeticParser {
 public:
  ArithmeticParser(std::string_view text, const std::function<Number(const std::string&)>& value_of)
      : text_(text), value_of_(value_of) {}

  Number Read() {
    const Number value = Choice(0);
    Skip();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  static constexpr int kDeepest = 64;

  void Skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool Take(std::string_view sign) {
    Skip();
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }

  Number Choice(int depth) {
    if (depth > kDeepest) return std::nullopt;
    const Number condition = Comparison(depth);
    if (!Take("?")) return condition;
    const Number yes = Choice(depth + 1);
    if (!Take(":")) return std::nullopt;
    const Number no = Choice(depth + 1);
    if (!condition) return std::nullopt;
    return *condition != 0 ? yes : no;
  }

  Number Comparison(int depth) {
    const Number left = Sum(depth);
    for (const std::string_view sign : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (!Take(sign)) continue;
      const Number right = Sum(depth);
      if (!left || !right) return std::nullopt;
      const bool holds = sign == "=="   ? *left == *right
                         : sign == "!=" ? *left != *right
                         : sign == "<=" ? *left <= *right
                         : sign == ">=" ? *left >= *right
                         : sign == "<"  ? *left < *right
                                        : *left > *right;
      return holds ? 1 : 0;
    }
    return left;
  }

  Number Sum(int depth) {
    Number value = Product(depth);
    while (true) {
      const bool plus = Take("+");
      if (!plus && !Take("-")) return value;
      const Number right = Product(depth);
      std::int64_t sum = 0;
      if (!value || !right ||
          (plus ? __builtin_add_overflow(*value, *right, &sum)
                : __builtin_sub_overflow(*value, *right, &sum))) {
        value.reset();
      } else {
        value = sum;
      }
    }
  }

  Number Product(int depth) {
    Number value = Factor(depth);
    while (true) {
      Skip();
      const char sign = at_ < text_.size() ? text_[at_] : '\0';
      if (sign != '*' && sign != '/' && sign != '%') return value;
      ++at_;
      const Number right = Factor(depth);
      std::int64_t product = 0;
      if (!value || !right || (sign != '*' && (*right == 0 || *right == -1))) {
        value.reset();
      } else if (sign == '*') {
        if (__builtin_mul_overflow(*value, *right, &product)) {
          value.reset();
        } else {
          value = product;
        }
      } else {
        value = sign == '/' ? *value / *right : *value % *right;
      }
    }
  }

  Number Factor(int depth) {
    if (depth > kDeepest) return std::nullopt;
    if (Take("-")) {
      const Number value = Factor(depth + 1);
      std::int64_t negative = 0;
      if (!value || __builtin_sub_overflow(std::int64_t{0}, *value, &negative)) return std::nullopt;
      return negative;
    }
    if (Take("(")) {
      const Number value = Choice(depth + 1);
      return Take(")") ? value : std::nullopt;
    }
    Skip();
    const bool braces = text_.substr(at_).starts_with("${");
    if (braces || text_.substr(at_).starts_with("$")) at_ += braces ? 2 : 1;
    std::size_t end = at_;
    while (end < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[end])) != 0 || text_[end] == '_')) {
      ++end;
    }
    const std::string word(text_.substr(at_, end - at_));
    if (word.empty()) return std::nullopt;
    const bool dollar = at_ > 0 && (text_[at_ - 1] == '$' || text_[at_ - 1] == '{');
    at_ = end;
    if (braces && !Take("}")) return std::nullopt;
    if (!dollar && std::isdigit(static_cast<unsigned char>(word.front())) != 0) {
      std::int64_t number = 0;
      const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
      if (read.ec != std::errc() || read.ptr != word.data() + word.size()) return std::nullopt;
      return number;
    }
    return value_of_(word);
  }

  std::string_view text_;
  const std::function<Number(const std::string&)>& value_of_;
  std::size_t at_ = 0;
};

}  // namespace

Number ShellArithmetic(std::string_view text,
                       const std::function<Number(const std::string&)>& value_of) {
  return ArithmeticParser(text, value_of).Read();
}

}  // namespace stepcast::foreign
