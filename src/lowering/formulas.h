#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

// Sizes in a program's tables, and how they follow from the number of ranks that share the model
// states: written down once while a plan is lowered, so that the sizes for another number of ranks
// need no lowering.
namespace stepcast::lowering {

class Formulas;

// A whole number, and where formulas are written down its own. Arithmetic with it is that with
// its value. A number that does not depend on the number of ranks is just that number; every
// std::int64_t is one.
class Amount {
 public:
  constexpr Amount() = default;
  constexpr Amount(std::int64_t value) : value_(value) {}  // NOLINT(google-explicit-constructor)

  constexpr std::int64_t value() const { return value_; }
  // Whether other numbers of ranks may give another value.
  constexpr bool varies() const { return formulas_ != nullptr; }
  // Formulas: which one it is. Amounts with the same formula are the same for any number of ranks.
  constexpr std::uint32_t formula() const { return formula_; }
  // For what is done only then: formulas hold as long as the answer stays the same.
  bool positive() const;

  Amount& operator+=(const Amount& other) { return *this = *this + other; }
  friend Amount operator+(const Amount& a, const Amount& b);
  friend Amount operator-(const Amount& a, const Amount& b);
  friend Amount operator*(const Amount& a, const Amount& b);
  // Rounds towards zero.
  friend Amount operator/(const Amount& a, const Amount& b);
  // ceil(a b / c), exact whatever a b is. c is positive.
  friend Amount Proportion(const Amount& a, std::int64_t b, std::int64_t c);
  // The same value now, and by the same formula.
  friend constexpr bool Same(const Amount& a, const Amount& b) {
    return a.value_ == b.value_ && a.formula_ == b.formula_;
  }

 private:
  friend class Formulas;
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  constexpr Amount(std::int64_t value, Formulas* formulas, std::uint32_t formula)
      : value_(value), formulas_(formulas), formula_(formula) {}

  std::int64_t value_ = 0;
  Formulas* formulas_ = nullptr;
  std::uint32_t formula_ = kNone;
};

Amount Proportion(const Amount& a, std::int64_t b, std::int64_t c);

class Formulas {
 public:
  // The number of ranks, of which there are `value`. All others are made of it by arithmetic.
  Amount Ranks(std::int64_t value);

  // Works all of them out for `ranks` ranks. False if something is positive now that was not, or
  // the other way round (Amount::positive).
  bool Evaluate(std::int64_t ranks);
  // As of the last Evaluate.
  std::int64_t value(std::uint32_t formula) const { return values_[formula]; }

  void Clear();

 private:
  friend class Amount;
  friend Amount operator+(const Amount& a, const Amount& b);
  friend Amount operator-(const Amount& a, const Amount& b);
  friend Amount operator*(const Amount& a, const Amount& b);
  friend Amount operator/(const Amount& a, const Amount& b);
  friend Amount Proportion(const Amount& a, std::int64_t b, std::int64_t c);

  enum class Operation : std::uint8_t {
    kRanks,
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kProportion,  // of a, x and y
  };
  struct Formula {
    Operation operation = Operation::kRanks;
    std::uint32_t a = 0, b = 0;  // formulas; kNone: the constant x instead
    std::int64_t x = 0, y = 0;
    friend bool operator==(const Formula&, const Formula&) = default;
  };
  struct Condition {
    std::uint32_t formula = 0;
    bool positive = false;
    friend bool operator==(const Condition&, const Condition&) = default;
  };

  // `value` is what it comes to.
  static Amount Combine(Operation operation, const Amount& a, const Amount& b, std::int64_t value);
  // The same formula twice is one.
  std::uint32_t Add(const Formula& formula);
  void Grow();

  std::vector<Formula> formulas_;  // each after those that it is made of
  std::vector<Condition> conditions_;
  std::vector<std::uint32_t> table_;  // formulas by hash, open addressing
  std::vector<std::int64_t> values_;
};

}  // namespace stepcast::lowering
