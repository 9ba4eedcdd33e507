#include "src/lowering/formulas.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"

namespace stepcast::lowering {
namespace {

__extension__ using Wide = __int128;

std::int64_t ProportionOf(std::int64_t a, std::int64_t b, std::int64_t c) {
  return static_cast<std::int64_t>((static_cast<Wide>(a) * b + c - 1) / c);
}

}  // namespace

bool Amount::positive() const {
  const bool positive = value_ > 0;
  if (formulas_ == nullptr) return positive;
  auto& conditions = formulas_->conditions_;
  const Formulas::Condition condition{.formula = formula_, .positive = positive};
  if (std::find(conditions.begin(), conditions.end(), condition) == conditions.end()) {
    conditions.push_back(condition);
  }
  return positive;
}

Amount operator+(const Amount& a, const Amount& b) {
  return Formulas::Combine(Formulas::Operation::kAdd, a, b, a.value_ + b.value_);
}

Amount operator-(const Amount& a, const Amount& b) {
  return Formulas::Combine(Formulas::Operation::kSubtract, a, b, a.value_ - b.value_);
}

Amount operator*(const Amount& a, const Amount& b) {
  return Formulas::Combine(Formulas::Operation::kMultiply, a, b, a.value_ * b.value_);
}

Amount operator/(const Amount& a, const Amount& b) {
  return Formulas::Combine(Formulas::Operation::kDivide, a, b, a.value_ / b.value_);
}

Amount Proportion(const Amount& a, std::int64_t b, std::int64_t c) {
  const std::int64_t value = ProportionOf(a.value_, b, c);
  if (!a.varies()) return value;
  return {value, a.formulas_,
          a.formulas_->Add({.operation = Formulas::Operation::kProportion,
                            .a = a.formula_,
                            .b = Amount::kNone,
                            .x = b,
                            .y = c})};
}

Amount Formulas::Ranks(std::int64_t value) {
  return {value, this,
          Add({.operation = Operation::kRanks, .a = Amount::kNone, .b = Amount::kNone})};
}

Amount Formulas::Combine(Operation operation, const Amount& a, const Amount& b,
                         std::int64_t value) {
  Formulas* formulas = a.varies() ? a.formulas_ : b.formulas_;
  if (formulas == nullptr) return value;
  STEPCAST_CHECK(!b.varies() || b.formulas_ == formulas, "formulas of one program");
  const std::int64_t constant = !a.varies() ? a.value_ : !b.varies() ? b.value_ : 0;
  return {value, formulas,
          formulas->Add({.operation = operation, .a = a.formula_, .b = b.formula_, .x = constant})};
}

std::uint32_t Formulas::Add(const Formula& formula) {
  if (2 * (formulas_.size() + 1) > table_.size()) Grow();
  std::uint64_t hash = static_cast<std::uint64_t>(formula.operation);
  for (const std::uint64_t word :
       {static_cast<std::uint64_t>(formula.a) << 32 | formula.b,
        static_cast<std::uint64_t>(formula.x), static_cast<std::uint64_t>(formula.y)}) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  const std::size_t mask = table_.size() - 1;
  for (std::size_t slot = hash & mask;; slot = (slot + 1) & mask) {
    std::uint32_t& entry = table_[slot];
    if (entry == Amount::kNone) {
      entry = static_cast<std::uint32_t>(formulas_.size());
      formulas_.push_back(formula);
      return entry;
    }
    if (formulas_[entry] == formula) return entry;
  }
}

void Formulas::Grow() {
  const std::vector<Formula> all = std::move(formulas_);
  formulas_.clear();
  formulas_.reserve(2 * all.size());
  table_.assign(std::max<std::size_t>(128, 2 * table_.size()), Amount::kNone);
  for (const Formula& formula : all) Add(formula);
}

bool Formulas::Evaluate(std::int64_t ranks) {
  values_.resize(formulas_.size());
  std::int64_t* const values = values_.data();
  for (std::size_t i = 0; i < formulas_.size(); ++i) {
    const Formula& formula = formulas_[i];
    const std::int64_t a = formula.a == Amount::kNone ? formula.x : values[formula.a];
    const std::int64_t b = formula.b == Amount::kNone ? formula.x : values[formula.b];
    switch (formula.operation) {
      case Operation::kRanks:
        values[i] = ranks;
        break;
      case Operation::kAdd:
        values[i] = a + b;
        break;
      case Operation::kSubtract:
        values[i] = a - b;
        break;
      case Operation::kMultiply:
        values[i] = a * b;
        break;
      case Operation::kDivide:
        values[i] = a / b;
        break;
      case Operation::kProportion:
        values[i] = ProportionOf(a, formula.x, formula.y);
        break;
    }
  }
  return std::all_of(conditions_.begin(), conditions_.end(), [&](const Condition& condition) {
    return (values[condition.formula] > 0) == condition.positive;
  });
}

void Formulas::Clear() {
  formulas_.clear();
  conditions_.clear();
  table_.assign(table_.size(), Amount::kNone);
  values_.clear();
}

}  // namespace stepcast::lowering
