#include "src/planner/sweep_range.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "src/base/bytes.h"
#include "src/base/diagnostic.h"
#include "src/base/quantity.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/planner/sweep_grid.h"

namespace stepcast::planner {
namespace {

constexpr std::string_view kDigits = "0123456789";

std::string_view Trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

enum class Kind : std::uint8_t { kPlain, kBytes, kTime, kBandwidth };

// A number of the smallest unit of its kind; plain numbers count 10^-decimals.
struct Amount {
  Kind kind = Kind::kPlain;
  std::int64_t count = 0;
  int decimals = 0;
};

// Number and unit, "2.5 us"; the unit may be missing. Says nothing of whether there is such a unit.
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

// All with the same number of decimals; false if that cannot be.
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

// What a range with these ends could be; the smaller one first.
std::string StepHint(std::string_view first, std::string_view last) {
  const auto from = ReadAmount(first), to = ReadAmount(last);
  if (from && to && from->kind == to->kind) {
    Amount a = *from, b = *to;
    if (Align({&a, &b}) && b.count < a.count) std::swap(first, last);
  }
  const bool plain = from && from->kind == Kind::kPlain;
  return fmt::format("write '{0}..{1} x2' to double from value to value, or '{0}..{1} +{2}' to add",
                     first, last, plain ? std::string_view("1") : first);
}

// Where a range from there may end, three doublings on.
std::string EndHint(std::string_view first, const char* otherwise) {
  auto last = ReadAmount(first);
  constexpr std::int64_t kTimes = 8;
  if (!last || last->count == 0 || __builtin_mul_overflow(last->count, kTimes, &last->count)) {
    return otherwise;
  }
  return fmt::format("say where it ends and how it gets there, for example '{}..{} x2'", first,
                     Text(*last));
}

}  // namespace

std::optional<tl::expected<std::vector<std::string>, RangeFault>> ReadRange(std::string_view text) {
  using Values = tl::expected<std::vector<std::string>, RangeFault>;
  text = Trimmed(text);
  const auto fault = [&](const char* code, std::string message, std::string hint) -> Values {
    return tl::unexpected(
        RangeFault{code, fmt::format("{}: {}", std::move(message), Quoted(text)), std::move(hint)});
  };
  const char* const kForms = "write for example 1..64 x2, 1..9 +2 or '5 MiB..100 MiB x2'";
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view first = Trimmed(text.substr(0, dots));
  const std::string_view rest = text.substr(dots + 2);
  if (first.empty() && !rest.empty() && kDigits.find(rest[0]) != std::string_view::npos) {
    return fault("sweep.bad-range", "a range has two ends",
                 fmt::format("say where it begins, for example '1{}'", text));
  }
  if (!LooksLikeAQuantity(first)) return std::nullopt;

  const std::size_t operation = rest.find_first_of("x+");
  const std::string_view last = Trimmed(rest.substr(0, operation));
  if (last.empty()) {
    return fault("sweep.bad-range", "a range has two ends", EndHint(first, kForms));
  }
  const bool has_step =
      operation != std::string_view::npos && !Trimmed(rest.substr(operation + 1)).empty();
  if (!has_step && ReadAmount(last)) {
    return fault("sweep.bad-range", "a range needs its step", StepHint(first, last));
  }
  if (operation == std::string_view::npos) {
    return fault("sweep.bad-range",
                 fmt::format("a range ends with a number or a quantity, then x and a factor or + "
                             "and a step, and {} is none",
                             Quoted(last)),
                 kForms);
  }
  const bool multiplies = rest[operation] == 'x';
  auto from = ReadAmount(first);
  auto to = ReadAmount(last);
  auto step = ReadAmount(Trimmed(rest.substr(operation + 1)));
  if (!from || !to || !step) {
    const std::string_view wrong = !from ? first : !to ? last : Trimmed(rest.substr(operation + 1));
    return fault("sweep.bad-range",
                 fmt::format("a range is made of numbers, or of bytes, times or bandwidths with "
                             "their units, and {} is none",
                             Quoted(wrong)),
                 kForms);
  }
  if (from->kind != to->kind || (!multiplies && from->kind != step->kind)) {
    return fault("sweep.bad-range",
                 multiplies ? "the ends of a range are of one kind"
                            : "the ends and the step of a range are of one kind",
                 "give all of them units, or none");
  }
  if (multiplies && (step->kind != Kind::kPlain || step->decimals > 0 || step->count < 2)) {
    return fault("sweep.bad-range", "a factor is a whole number from 2", StepHint(first, last));
  }
  if (!multiplies && step->count == 0) {
    return fault("sweep.bad-range", "a step of nothing leads nowhere", kForms);
  }
  if (!(multiplies ? Align({&*from, &*to}) : Align({&*from, &*to, &*step}))) {
    return fault("sweep.bad-range", "a number has too many digits", kForms);
  }
  if (from->count > to->count) {
    return fault("sweep.empty-range", "the range is empty, for its first end is the larger one",
                 fmt::format("write the smaller end first: '{}..{} {}'", last, first,
                             rest.substr(operation)));
  }
  if (multiplies && from->count == 0) {
    return fault(
        "sweep.bad-range", "zero times anything stays zero",
        fmt::format("begin above zero, and give zero as a value of its own: '{},...'", first));
  }
  if (!multiplies && (to->count - from->count) / step->count >= SweepGrid::kMostRows) {
    return fault("sweep.too-many",
                 fmt::format("the range has {} values, more than the {} combinations that a sweep "
                             "may have",
                             (to->count - from->count) / step->count + 1, SweepGrid::kMostRows),
                 "take a larger step, or multiply: x2");
  }
  std::vector<std::string> values;
  for (Amount value = *from;;) {
    values.push_back(Text(value));
    const bool beyond = multiplies ? __builtin_mul_overflow(value.count, step->count, &value.count)
                                   : __builtin_add_overflow(value.count, step->count, &value.count);
    if (beyond || value.count > to->count) break;
  }
  return values;
}

}  // namespace stepcast::planner
