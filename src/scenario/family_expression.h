#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"

// The expressions of a family's file (docs/formats/model.md), which map values of a config.json to
// values of a model file.
//
//  a if c else b   or, and, not   == != < <= > >= in   + -   * / // %   -a   list[i]   (a)
//  numbers, 'text', [lists], true, false, null, names of the file's keys, and
//  len(list), min(a, b), max(a, b), whole(a), starts(text, part), ends(text, part), and
//  letters(text): a text's characters as a list
//
// `a or b` is b if a is null, false, 0 or empty. // divides and rounds down; / divides without
// rounding.
namespace stepcast::scenario {

struct FamilyValue {
  enum class Kind : std::uint8_t { kNull, kBoolean, kInteger, kNumber, kText, kList };

  Kind kind = Kind::kNull;
  bool boolean = false;
  std::int64_t integer = 0;  // kInteger
  double number = 0;         // kInteger and kNumber
  std::string text{};        // kText
  std::vector<FamilyValue> list{};
  // The position of the first config.json key that the value was computed from, if any.
  std::optional<Location> location{};

  static FamilyValue Of(bool value);
  static FamilyValue Of(std::int64_t value);
  static FamilyValue Of(double value);
  static FamilyValue Of(std::string value);

  bool IsNull() const { return kind == Kind::kNull; }
  // Returns the truth value: false for null, false, 0, an empty text and an empty list, otherwise
  // true.
  bool IsTrue() const;
  // Returns the value as a scalar of a YAML file. Spaces separate the values of a list.
  std::string Text() const;
};

// A mistake in an expression. `what` describes the mistake in a sentence without a period.
struct FamilyMistake {
  std::string what;
};

// A function that returns the value of a name. The function throws a FamilyMistake if the name is
// unknown.
using FamilyNames = std::function<FamilyValue(std::string_view name)>;

// Evaluates an expression. Throws a FamilyMistake if the expression is invalid.
FamilyValue Evaluate(std::string_view expression, const FamilyNames& names);

}  // namespace stepcast::scenario
