#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"

// The combinations of a sweep: the cross product of its axes.
namespace stepcast::planner {

// The value that takes a key out of the scenario, so that its default holds.
inline constexpr const char* kDefaultValue = "null";

// One key of the scenario (dotted path) and the values it takes, as the user wrote them.
struct SweepAxis {
  std::string key;
  std::vector<std::string> values;
  bool all = false;  // every value that the key can have, to be filled in; `values` is empty
};

// "KEY=V1,V2,...", where a V may be a range (sweep_range.h), or "KEY=all". Blanks around values do
// not count; a comma inside brackets, braces or quotes does not part values ("[1, 2]" is one).
// Errors: no "=", no key, no values, an empty value, a value twice, `all` beside others, a range
// that is empty or none.
Result<SweepAxis> ParseSweepAxis(std::string_view text);

// Rows are numbered so that the first axis varies slowest.
class SweepGrid {
 public:
  static constexpr std::int64_t kMostRows = 1'000'000;

  // Errors: no axis, the same key twice, more than kMostRows combinations.
  static Result<SweepGrid> Of(std::vector<SweepAxis> axes);

  const std::vector<SweepAxis>& axes() const { return axes_; }
  std::int64_t rows() const { return rows_; }
  // The value of an axis in a row.
  const std::string& Value(std::int64_t row, std::size_t axis) const;
  // All rows, each at one place, in an order in which those stand together that have most in
  // common: sizes of a micro-batch and numbers of nodes, which leave a program's instructions as
  // they are, vary fastest, whatever the order of the axes is.
  std::int64_t RowAt(std::int64_t place) const;
  // Key and value of every axis in a row.
  std::vector<std::pair<std::string, std::string>> Row(std::int64_t row) const;

 private:
  SweepGrid() = default;

  std::vector<SweepAxis> axes_;
  std::vector<std::int64_t> strides_;  // rows between two values of an axis
  std::vector<std::size_t> places_;    // axes, as RowAt varies them, slowest first
  std::int64_t rows_ = 1;
};

}  // namespace stepcast::planner
