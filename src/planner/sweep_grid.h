#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"
#include "tl/expected.hpp"

// The combinations of a sweep: the cross product of its axes.
namespace stepcast::planner {

struct RangeFault {
  std::string code;
  std::string message;
  std::string hint;
};

// Returns the values of a range, or the range's error. No value if the text is not a range.
//   1..64 x2             1, 2, 4, ..., 64: each value is 2 times the previous value
//   1..9 +2              1, 3, 5, 7, 9: each value is the previous value plus 2
//   5 MiB..100 MiB x2    5 MiB, 10 MiB, ..., 80 MiB
// Ends and steps are plain decimals, or bytes, times or bandwidths with units; factors are whole
// numbers. The first end is always included; the second end is included only if a step reaches it.
// A text is a range if its first ".." follows a number, so a path such as "../models/gpt2.yaml" is
// not a range.
std::optional<tl::expected<std::vector<std::string>, RangeFault>> ReadRange(std::string_view text);

// Returns the text without blanks and tabs at its start and end.
std::string_view Trimmed(std::string_view text);

// The text of a value that removes a key from the scenario, so that the key's default applies.
inline constexpr const char* kDefaultValue = "null";

// One key of the scenario as a dotted path, with its values as the user wrote them.
struct SweepAxis {
  std::string key;
  std::vector<std::string> values;
  bool all = false;  // all possible values, which are filled in later; `values` is then empty
};

// Parses "KEY=V1,V2,...", where a V may be a range (ReadRange), or "KEY=all". Blanks around values
// are ignored. Commas inside brackets, braces or quotes do not separate values ("[1, 2]" is one
// value). Errors: no "=", no key, no values, an empty value, a repeated value, `all` together with
// values, an empty or invalid range.
Result<SweepAxis> ParseSweepAxis(std::string_view text);

// The rows of a sweep, one for each combination. In the order of rows, the first axis varies
// slowest.
class SweepGrid {
 public:
  static constexpr std::int64_t kMostRows = 1'000'000;

  // Returns the grid of these axes. Errors: no axis, the same key twice, or more than kMostRows
  // combinations.
  static Result<SweepGrid> Of(std::vector<SweepAxis> axes);

  const std::vector<SweepAxis>& axes() const { return axes_; }
  std::int64_t rows() const { return rows_; }
  // Returns the value of an axis in a row.
  const std::string& Value(std::int64_t row, std::size_t axis) const;
  // Returns the row at position `place` of a list in which similar rows are neighbors. Micro-batch
  // sizes and numbers of nodes vary fastest, because they do not change a program's instructions.
  std::int64_t RowAt(std::int64_t place) const;
  // Returns the key and the value of every axis in a row.
  std::vector<std::pair<std::string, std::string>> Row(std::int64_t row) const;

 private:
  SweepGrid() = default;

  std::vector<SweepAxis> axes_;
  std::vector<std::int64_t> strides_;  // number of rows between successive values of an axis
  std::vector<std::size_t> places_;    // axes in RowAt's order, slowest first
  std::int64_t rows_ = 1;
};

}  // namespace stepcast::planner
