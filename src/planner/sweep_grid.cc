#include "src/planner/sweep_grid.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "fmt/format.h"
#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/diagnostic.h"
#include "src/base/quantity.h"
#include "src/base/rates.h"
#include "src/base/time.h"

namespace stepcast::planner {
namespace {

constexpr std::string_view kDigits = "0123456789";

enum class Kind : std::uint8_t { kPlain, kBytes, kTime, kBandwidth };

// A number in the smallest unit of its kind; plain numbers count units of 10^-decimals.
struct Amount {
  Kind kind = Kind::kPlain;
  std::int64_t count = 0;
  int decimals = 0;
};

// Whether the text is a number with an optional unit, "2.5 us". The unit may be unknown.
bool LooksLikeAQuantity(std::string_view text) {
  const std::size_t unit = std::min(text.find_first_not_of("0123456789."), text.size());
  if (unit == 0 || kDigits.find(text[0]) == std::string_view::npos) return false;
  const std::string_view rest = Trimmed(text.substr(unit));
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const std::size_t slash = std::min(rest.find_first_not_of(kLetters), rest.size());
  return slash == rest.size() || (slash > 0 && rest.substr(slash) == "/s");
}

std::optional<Amount> ReadPlain(std::string_view text) {
  constexpr std::size_t kMostDigits = 15;  // of both sides of the point: 10^18 is not reached
  constexpr int kMostDecimals = 6;
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, point);
  const std::string_view part = point == text.size() ? "" : text.substr(point + 1);
  if (whole.empty() || whole.find_first_not_of(kDigits) != std::string_view::npos ||
      part.find_first_not_of(kDigits) != std::string_view::npos ||
      (whole.size() > 1 && whole[0] == '0') || (point != text.size() && part.empty()) ||
      part.size() > kMostDecimals || whole.size() + part.size() > kMostDigits) {
    return std::nullopt;
  }
  Amount amount{.kind = Kind::kPlain, .count = 0, .decimals = static_cast<int>(part.size())};
  for (const std::string_view digits : {whole, part}) {
    for (const char digit : digits) amount.count = 10 * amount.count + (digit - '0');
  }
  return amount;
}

std::optional<Amount> ReadAmount(std::string_view text) {
  if (const auto plain = ReadPlain(text)) return plain;
  if (const auto bytes = ParseBytes(text)) return Amount{Kind::kBytes, bytes->count(), 0};
  if (const auto time = ParseTime(text)) return Amount{Kind::kTime, time->picoseconds(), 0};
  if (const auto rate = ParseBandwidth(text)) {
    return Amount{Kind::kBandwidth, rate->bytes_per_second(), 0};
  }
  return std::nullopt;
}

// Gives all amounts the same number of decimals; false if impossible.
bool Align(const std::vector<Amount*>& amounts) {
  int most = 0;
  for (const Amount* amount : amounts) most = std::max(most, amount->decimals);
  for (Amount* amount : amounts) {
    for (; amount->decimals < most; ++amount->decimals) {
      if (__builtin_mul_overflow(amount->count, std::int64_t{10}, &amount->count)) return false;
    }
  }
  return true;
}

std::string Text(const Amount& amount) {
  switch (amount.kind) {
    case Kind::kBytes:
      return ExactBytes(Bytes(amount.count));
    case Kind::kTime:
      return ExactTime(Picoseconds(amount.count));
    case Kind::kBandwidth:
      return ExactBandwidth(Bandwidth::BytesPerSecond(amount.count));
    case Kind::kPlain:
      break;
  }
  std::int64_t one = 1;
  for (int i = 0; i < amount.decimals; ++i) one *= 10;
  std::string text = fmt::format("{}", amount.count / one);
  if (amount.count % one == 0) return text;
  std::string part = fmt::format("{:0{}}", amount.count % one, amount.decimals);
  part.erase(part.find_last_not_of('0') + 1);
  return text + "." + part;
}

// A range with these ends, for a hint; the smaller end comes first.
std::string StepHint(std::string_view first, std::string_view last) {
  const auto from = ReadAmount(first), to = ReadAmount(last);
  if (from && to && from->kind == to->kind) {
    Amount a = *from, b = *to;
    if (Align({&a, &b}) && b.count < a.count) std::swap(first, last);
  }
  const bool plain = from && from->kind == Kind::kPlain;
  // No factor leads from zero to another number.
  if (plain && from->count == 0) {
    return fmt::format("write '{}..{} +1' to add 1 to each value", first, last);
  }
  return fmt::format(
      "write '{0}..{1} x2' to double each value, or '{0}..{1} +{2}' to add {2} to each value",
      first, last, plain ? std::string_view("1") : first);
}

// An end of a range with this start, for a hint: three doublings on.
std::string EndHint(std::string_view first, const char* otherwise) {
  auto last = ReadAmount(first);
  constexpr std::int64_t kTimes = 8;
  if (!last || last->count == 0 || __builtin_mul_overflow(last->count, kTimes, &last->count)) {
    return otherwise;
  }
  return fmt::format("write the end and the step, for example '{}..{} x2'", first, Text(*last));
}

constexpr const char* kForms = "write for example 1..64 x2, 1..9 +2 or '5 MiB..100 MiB x2'";

// A range, "first..last x step" or "first..last + step". Each check requires the previous ones.
class Range {
 public:
  // `rest`: the text after the dots.
  Range(std::string_view text, std::string_view first, std::string_view rest)
      : text_(text), first_(first), rest_(rest), operation_(rest.find_first_of("x+")) {
    last_ = Trimmed(rest.substr(0, operation_));
    if (operation_ != std::string_view::npos) {
      step_ = Trimmed(rest.substr(operation_ + 1));
      multiplies_ = rest[operation_] == 'x';
    }
  }

  tl::expected<std::vector<std::string>, RangeFault> Values() {
    for (const auto check :
         {&Range::CheckWords, &Range::ReadAmounts, &Range::CheckKinds, &Range::CheckExtent}) {
      if (std::optional<RangeFault> fault = (this->*check)()) {
        return tl::unexpected(std::move(*fault));
      }
    }
    std::vector<std::string> values;
    for (Amount value = from_;;) {
      values.push_back(Text(value));
      const bool beyond = multiplies_
                              ? __builtin_mul_overflow(value.count, by_.count, &value.count)
                              : __builtin_add_overflow(value.count, by_.count, &value.count);
      if (beyond || value.count > to_.count) break;
    }
    return values;
  }

 private:
  RangeFault Fault(const char* code, const std::string& message, std::string hint) const {
    return {code, fmt::format("{}: {}", message, Quoted(text_)), std::move(hint)};
  }
  RangeFault Bad(const std::string& message, std::string hint) const {
    return Fault("sweep.bad-range", message, std::move(hint));
  }

  std::optional<RangeFault> CheckWords() {
    if (last_.empty()) return Bad("a range must have a start and an end", EndHint(first_, kForms));
    if (step_.empty() && ReadAmount(last_)) {
      return Bad("the range has no step", StepHint(first_, last_));
    }
    if (operation_ == std::string_view::npos) {
      return Bad(fmt::format("the end of a range is not a number: {}", Quoted(last_)), kForms);
    }
    return std::nullopt;
  }

  std::optional<RangeFault> ReadAmounts() {
    const auto from = ReadAmount(first_), to = ReadAmount(last_), by = ReadAmount(step_);
    if (!from || !to || !by) {
      return Bad(fmt::format("this part of the range is neither a number nor a size, time or "
                             "bandwidth with a unit: {}",
                             Quoted(!from ? first_
                                    : !to ? last_
                                          : step_)),
                 kForms);
    }
    from_ = *from;
    to_ = *to;
    by_ = *by;
    return std::nullopt;
  }

  std::optional<RangeFault> CheckKinds() {
    if (from_.kind != to_.kind || (!multiplies_ && from_.kind != by_.kind)) {
      return Bad(multiplies_ ? "the start and the end of a range have different units"
                             : "the step and the ends of a range have different units",
                 "write the start, the end and the step with the same kind of unit, or all without "
                 "a unit");
    }
    if (multiplies_ && (by_.kind != Kind::kPlain || by_.decimals > 0 || by_.count < 2)) {
      return Bad("the factor of a range must be an integer, at least 2", StepHint(first_, last_));
    }
    if (!multiplies_ && by_.count == 0) return Bad("the step of a range must not be zero", kForms);
    if (!(multiplies_ ? Align({&from_, &to_}) : Align({&from_, &to_, &by_}))) {
      return Bad("a number in the range has too many digits", kForms);
    }
    return std::nullopt;
  }

  std::optional<RangeFault> CheckExtent() {
    if (from_.count > to_.count) {
      return Fault("sweep.empty-range",
                   "the range is empty, because the start is larger than the end",
                   fmt::format("write the smaller end first: '{}..{} {}'", last_, first_,
                               rest_.substr(operation_)));
    }
    if (multiplies_ && from_.count == 0) {
      return Bad(
          "a range with a factor cannot start at zero",
          fmt::format("start above zero, and write zero as a separate value: '{0},1..{1} {2}'; or "
                      "add the same number to each value: '{0}..{1} +1'",
                      first_, last_, rest_.substr(operation_)));
    }
    if (!multiplies_ && (to_.count - from_.count) / by_.count >= SweepGrid::kMostRows) {
      return Fault(
          "sweep.too-many",
          fmt::format("the range has {} values, but a sweep can have at most {} combinations",
                      (to_.count - from_.count) / by_.count + 1, SweepGrid::kMostRows),
          "use a larger step, or a factor such as x2");
    }
    return std::nullopt;
  }

  std::string_view text_, first_, rest_;
  std::size_t operation_;  // in `rest_`: x or +
  std::string_view last_, step_;
  bool multiplies_ = false;
  Amount from_, to_, by_;
};

}  // namespace

std::string_view Trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::optional<tl::expected<std::vector<std::string>, RangeFault>> ReadRange(std::string_view text) {
  text = Trimmed(text);
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view first = Trimmed(text.substr(0, dots));
  const std::string_view rest = text.substr(dots + 2);
  if (first.empty() && !rest.empty() && kDigits.find(rest[0]) != std::string_view::npos) {
    return tl::unexpected(RangeFault{
        "sweep.bad-range", fmt::format("a range must have a start and an end: {}", Quoted(text)),
        fmt::format("write the start of the range, for example '1{}'", text)});
  }
  if (!LooksLikeAQuantity(first)) return std::nullopt;
  return Range(text, first, rest).Values();
}

namespace {

constexpr std::string_view kAll = "all";

// Plans that differ only in this key share a program's instructions.
constexpr std::string_view kNodesKey = "cluster.nodes";

std::vector<std::string_view> SplitAtCommas(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  char quote = '\0';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth <= 0) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  parts.push_back(text.substr(begin));
  return parts;
}

tl::unexpected<Diagnostics> Fault(std::string code, std::string_view option, std::string message,
                                  std::string hint) {
  return tl::unexpected(Diagnostics{{std::move(code),
                                     {fmt::format("--vary {}", option), 0, 0},
                                     std::move(message),
                                     std::move(hint)}});
}

tl::unexpected<Diagnostics> Fault(std::string_view option, std::string message, std::string hint) {
  return Fault("sweep.vary", option, std::move(message), std::move(hint));
}

// The number of combinations as text, because it may be astronomical.
std::string Combinations(const std::vector<SweepAxis>& axes) {
  constexpr std::int64_t kMostCounted = 1'000'000'000'000'000;
  std::int64_t rows = 1;
  for (const SweepAxis& axis : axes) {
    const auto values = static_cast<std::int64_t>(axis.values.size());
    if (values > kMostCounted / rows) return fmt::format("more than {}", kMostCounted);
    rows *= values;
  }
  return fmt::format("{}", rows);
}

}  // namespace

Result<SweepAxis> ParseSweepAxis(std::string_view text) {
  const char* const kForm =
      "write --vary KEY=V1,V2,..., for example "
      "--vary 'data_parallel.bucket_size=1 MiB,25 MiB'";
  const std::size_t equals = text.find('=');
  const std::string_view key = Trimmed(text.substr(0, equals));
  if (equals == std::string_view::npos || key.empty()) {
    return Fault(
        text,
        fmt::format("the value of --vary must consist of a key and its values: {}", Quoted(text)),
        kForm);
  }
  const std::string_view list = Trimmed(text.substr(equals + 1));
  if (list.empty()) {
    return Fault(text, fmt::format("--vary has no values for '{}'", key), kForm);
  }
  if (list.starts_with("range(")) {
    return Fault(text,
                 fmt::format("a range must have two dots between the start and the "
                             "end, not {}",
                             Quoted(list)),
                 fmt::format("write --vary '{0}=1..8 +1', or --vary {0}=1,2,4", key));
  }
  SweepAxis axis{std::string(key), {}};
  if (list == kAll) {
    axis.all = true;
    return axis;
  }
  for (std::string_view part : SplitAtCommas(list)) {
    const std::string_view value = Trimmed(part);
    if (value.empty()) {
      return Fault(text, fmt::format("a value of '{}' is empty: {}", key, Quoted(list)), kForm);
    }
    if (value == kAll) {
      return Fault(text,
                   fmt::format("'all' selects every value of '{}', so it cannot be combined "
                               "with other values: {}",
                               key, Quoted(list)),
                   "remove the other values; if 'all' is a value of the key, write it in quotes");
    }
    auto range = ReadRange(value);
    if (!range) {
      axis.values.emplace_back(value);
      continue;
    }
    if (!*range) {
      return Fault(std::move(range->error().code), text, std::move(range->error().message),
                   std::move(range->error().hint));
    }
    for (std::string& member : **range) axis.values.push_back(std::move(member));
  }
  std::unordered_set<std::string_view> seen;
  for (const std::string& value : axis.values) {
    if (!seen.insert(value).second) {
      return Fault(text, fmt::format("'{}' has the same value twice: {}", key, Quoted(value)),
                   "remove one of the two values");
    }
  }
  return axis;
}

Result<SweepGrid> SweepGrid::Of(std::vector<SweepAxis> axes) {
  STEPCAST_CHECK(std::none_of(axes.begin(), axes.end(),
                              [](const SweepAxis& axis) { return axis.values.empty(); }),
                 "each axis must have at least one value");
  if (axes.empty()) {
    return tl::unexpected(Diagnostics{{"sweep.vary",
                                       {"--vary", 0, 0},
                                       "the command needs at least one --vary",
                                       "add at least one --vary KEY=V1,V2,..."}});
  }
  SweepGrid grid;
  for (const SweepAxis& axis : axes) {
    const auto same = std::count_if(axes.begin(), axes.end(),
                                    [&](const SweepAxis& other) { return other.key == axis.key; });
    if (same > 1) {
      return Fault(axis.key, fmt::format("two --vary options have the same key: '{}'", axis.key),
                   "write all values of the key in one --vary");
    }
    const auto values = static_cast<std::int64_t>(axis.values.size());
    if (values > kMostRows / grid.rows_) {
      std::string product;
      for (const SweepAxis& factor : axes) {
        product += fmt::format("{}{}", product.empty() ? "" : " x ", factor.values.size());
      }
      const SweepAxis& longest = *std::max_element(
          axes.begin(), axes.end(),
          [](const SweepAxis& a, const SweepAxis& b) { return a.values.size() < b.values.size(); });
      return Fault(
          "sweep.too-many", axis.key,
          fmt::format("the sweep has {} combinations, but one sweep can have at most {} "
                      "combinations ({})",
                      Combinations(axes), kMostRows, product),
          fmt::format("use fewer values of '{}', which has {} values (for example x2 instead of "
                      "+1), or vary fewer keys",
                      longest.key, longest.values.size()));
    }
    grid.rows_ *= values;
  }
  grid.axes_ = std::move(axes);
  grid.strides_.resize(grid.axes_.size());
  std::int64_t stride = 1;
  for (std::size_t i = grid.axes_.size(); i-- > 0;) {
    grid.strides_[i] = stride;
    stride *= static_cast<std::int64_t>(grid.axes_[i].values.size());
  }
  grid.places_.resize(grid.axes_.size());
  std::iota(grid.places_.begin(), grid.places_.end(), std::size_t{0});
  std::stable_partition(grid.places_.begin(), grid.places_.end(),
                        [&](std::size_t axis) { return grid.axes_[axis].key != kNodesKey; });
  return grid;
}

const std::string& SweepGrid::Value(std::int64_t row, std::size_t axis) const {
  STEPCAST_CHECK(row >= 0 && row < rows_, "the row must be in the grid");
  const std::vector<std::string>& values = axes_[axis].values;
  return values[static_cast<std::size_t>(row / strides_[axis]) % values.size()];
}

std::int64_t SweepGrid::RowAt(std::int64_t place) const {
  STEPCAST_CHECK(place >= 0 && place < rows_,
                 "the position of a row must be below the number of "
                 "rows");
  std::int64_t row = 0;
  for (auto axis = places_.rbegin(); axis != places_.rend(); ++axis) {
    const auto values = static_cast<std::int64_t>(axes_[*axis].values.size());
    row += place % values * strides_[*axis];
    place /= values;
  }
  return row;
}

std::vector<std::pair<std::string, std::string>> SweepGrid::Row(std::int64_t row) const {
  std::vector<std::pair<std::string, std::string>> settings;
  settings.reserve(axes_.size());
  for (std::size_t i = 0; i < axes_.size(); ++i) settings.emplace_back(axes_[i].key, Value(row, i));
  return settings;
}

}  // namespace stepcast::planner
