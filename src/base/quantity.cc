#include "src/base/quantity.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"

namespace stepcast {
namespace {

__extension__ using Wide = __int128;

// A unit, and its size in the smallest unit (byte, byte/s, picosecond, flop/s).
struct Unit {
  std::string_view name;
  std::int64_t size;
};

constexpr Unit kByteUnits[] = {{"B", 1},
                               {"KB", 1'000},
                               {"MB", 1'000'000},
                               {"GB", 1'000'000'000},
                               {"TB", 1'000'000'000'000},
                               {"KiB", std::int64_t{1} << 10},
                               {"MiB", std::int64_t{1} << 20},
                               {"GiB", std::int64_t{1} << 30},
                               {"TiB", std::int64_t{1} << 40}};

constexpr Unit kBandwidthUnits[] = {{"B/s", 1},
                                    {"KB/s", 1'000},
                                    {"MB/s", 1'000'000},
                                    {"GB/s", 1'000'000'000},
                                    {"TB/s", 1'000'000'000'000},
                                    {"MiB/s", std::int64_t{1} << 20},
                                    {"GiB/s", std::int64_t{1} << 30},
                                    {"Kbps", 125},
                                    {"Mbps", 125'000},
                                    {"Gbps", 125'000'000},
                                    {"Tbps", 125'000'000'000}};

constexpr Unit kTimeUnits[] = {{"ps", 1},
                               {"ns", 1'000},
                               {"us", 1'000'000},
                               {"ms", 1'000'000'000},
                               {"s", 1'000'000'000'000},
                               {"min", 60'000'000'000'000},
                               {"h", 3'600'000'000'000'000}};

constexpr Unit kFlopRateUnits[] = {
    {"GFLOPS", 1'000'000'000}, {"TFLOPS", 1'000'000'000'000}, {"PFLOPS", 1'000'000'000'000'000}};

struct Dimension {
  std::string_view noun;  // "bytes"
  std::string_view verb;  // "need" or "needs"
  std::string_view kind;  // "a number of bytes"
  std::string_view example;
  std::span<const Unit> units;
};

constexpr Dimension kBytes = {"bytes", "need", "a number of bytes", "25 MiB", kByteUnits};
constexpr Dimension kBandwidth = {"a bandwidth", "needs", "a bandwidth", "450 GB/s",
                                  kBandwidthUnits};
constexpr Dimension kTime = {"a time", "needs", "a time", "2.5 us", kTimeUnits};
constexpr Dimension kFlopRate = {"a flop rate", "needs", "a flop rate", "989 TFLOPS",
                                 kFlopRateUnits};
constexpr const Dimension* kDimensions[] = {&kBytes, &kBandwidth, &kTime, &kFlopRate};

const Unit* FindUnit(const Dimension& dimension, std::string_view name) {
  for (const Unit& unit : dimension.units) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

tl::unexpected<QuantityError> Error(std::string message, std::string hint) {
  return tl::make_unexpected(QuantityError{std::move(message), std::move(hint)});
}

std::string WriteFor(const Dimension& dimension) {
  return fmt::format("write for example '{}'", dimension.example);
}

tl::unexpected<QuantityError> WrongUnit(const Dimension& dimension, std::string_view unit,
                                        std::string_view text) {
  for (const Dimension* other : kDimensions) {
    if (other == &dimension || FindUnit(*other, unit) == nullptr) continue;
    return Error(
        fmt::format("{} is needed here, not {}: {}", dimension.kind, other->kind, Quoted(text)),
        WriteFor(dimension));
  }
  std::vector<std::string_view> names;
  for (const Unit& known : dimension.units) names.push_back(known.name);
  const std::string_view nearest = NearestWord(unit, names);
  return Error(
      fmt::format("{} is not a unit for {}: {}", Quoted(unit), dimension.noun, Quoted(text)),
      nearest.empty() ? fmt::format("units are {}", fmt::join(names, ", "))
                      : fmt::format("did you mean '{}'?", nearest));
}

// The quantity in the smallest unit of its dimension, rounded to the nearest.
QuantityResult<std::int64_t> Parse(const Dimension& dimension, std::string_view text) {
  std::string_view rest = text;
  const auto not_a_number = [&] {
    return Error(
        fmt::format("{} {} a number and a unit: {}", dimension.noun, dimension.verb, Quoted(text)),
        WriteFor(dimension));
  };
  if (rest.size() > 1 && rest[0] == '-' && IsDigit(rest[1])) {
    return Error(fmt::format("{} cannot be negative: {}", dimension.noun, Quoted(text)),
                 WriteFor(dimension));
  }

  // 19 digits hold every number of 63 bits. Their product with a unit of 3.6 * 10^15 fits into 128
  // bits.
  constexpr std::size_t kMostDigits = 19;
  const auto take_digits = [&rest] {
    std::size_t count = 0;
    while (count < rest.size() && IsDigit(rest[count])) ++count;
    const std::string_view digits = rest.substr(0, count);
    rest.remove_prefix(count);
    return digits;
  };
  const std::string_view whole = take_digits();
  if (whole.empty()) return not_a_number();
  if (whole.size() > 1 && whole[0] == '0') {
    return Error(fmt::format("a number cannot have a leading zero: {}", Quoted(text)),
                 "write a decimal number without leading zeros, such as '10 MiB' or '0.5 ms'");
  }
  std::string_view fraction;
  if (!rest.empty() && rest[0] == '.') {
    rest.remove_prefix(1);
    fraction = take_digits();
    if (fraction.empty()) return not_a_number();
  }
  if (whole.size() > kMostDigits || fraction.size() > kMostDigits) {
    return Error(
        fmt::format("a number can have at most {} digits on each side of the decimal point: {}",
                    kMostDigits, Quoted(text)),
        "use a larger unit");
  }

  while (!rest.empty() && rest[0] == ' ') rest.remove_prefix(1);
  if (rest.empty()) {
    return Error(fmt::format("{} {} a unit: {}", dimension.noun, dimension.verb, Quoted(text)),
                 WriteFor(dimension));
  }
  const Unit* unit = FindUnit(dimension, rest);
  if (unit == nullptr) return WrongUnit(dimension, rest, text);

  Wide amount = 0;
  for (char c : whole) amount = amount * 10 + (c - '0');
  amount *= unit->size;
  Wide part = 0, scale = 1;
  for (char c : fraction) {
    part = part * 10 + (c - '0');
    scale *= 10;
  }
  amount += (part * unit->size + scale / 2) / scale;
  if (amount > std::numeric_limits<std::int64_t>::max()) {
    return Error(fmt::format("the number is too large: {}", Quoted(text)), WriteFor(dimension));
  }
  return static_cast<std::int64_t>(amount);
}

// `value` in `unit` with three significant digits; as a whole number when it is one.
std::string Digits(double value, bool whole) {
  if (whole || value >= 99.95) return fmt::format("{:.0f}", value);
  return value >= 9.995 ? fmt::format("{:.1f}", value) : fmt::format("{:.2f}", value);
}

// For display. `units` ascend; a number that would print as `carry` or more has the next unit.
std::string FormatIn(std::span<const Unit> units, std::int64_t amount, double carry) {
  if (amount < 0) {
    // The negation of the minimum overflows; an error of one is invisible in three digits.
    const std::int64_t positive =
        amount == std::numeric_limits<std::int64_t>::min() ? -(amount + 1) : -amount;
    return "-" + FormatIn(units, positive, carry);
  }
  std::size_t index = 0;
  while (index + 1 < units.size() &&
         static_cast<double>(amount) / static_cast<double>(units[index].size) >= carry - 0.5) {
    ++index;
  }
  const Unit& unit = units[index];
  return fmt::format(
      "{} {}",
      Digits(static_cast<double>(amount) / static_cast<double>(unit.size), amount % unit.size == 0),
      unit.name);
}

// For files: the unit with the smallest whole number; if numbers are equal, the first of `units`.
std::string ExactIn(std::initializer_list<Unit> units, std::int64_t amount) {
  const Unit* best = units.begin();
  for (const Unit& unit : units) {
    if (amount != 0 && amount % unit.size == 0 && unit.size > best->size) best = &unit;
  }
  return fmt::format("{} {}", amount / best->size, best->name);
}

}  // namespace

QuantityResult<Bytes> ParseBytes(std::string_view text) {
  return Parse(kBytes, text).map([](std::int64_t n) { return Bytes(n); });
}

QuantityResult<Bandwidth> ParseBandwidth(std::string_view text) {
  return Parse(kBandwidth, text).map([](std::int64_t n) { return Bandwidth::BytesPerSecond(n); });
}

QuantityResult<Time> ParseTime(std::string_view text) {
  return Parse(kTime, text).map([](std::int64_t n) { return Time::FromPicoseconds(n); });
}

QuantityResult<FlopRate> ParseFlopRate(std::string_view text) {
  return Parse(kFlopRate, text).map([](std::int64_t n) { return FlopRate::FlopsPerSecond(n); });
}

std::string FormatTime(Time time) {
  if (time == Time()) return "0 s";
  return FormatIn(std::span(kTimeUnits).first(5), time.picoseconds(), 1000);
}

std::string FormatBytes(Bytes bytes) {
  constexpr Unit kUnits[] = {{"B", 1},
                             {"KiB", std::int64_t{1} << 10},
                             {"MiB", std::int64_t{1} << 20},
                             {"GiB", std::int64_t{1} << 30},
                             {"TiB", std::int64_t{1} << 40}};
  return FormatIn(kUnits, bytes.count(), 1024);
}

std::string FormatBandwidth(Bandwidth bandwidth) {
  return FormatIn(std::span(kBandwidthUnits).first(5), bandwidth.bytes_per_second(), 1000);
}

std::string ExactTime(Time time) {
  if (time == Time()) return "0 s";
  return ExactIn({kTimeUnits[0], kTimeUnits[1], kTimeUnits[2], kTimeUnits[3], kTimeUnits[4]},
                 time.picoseconds());
}

std::string ExactBytes(Bytes bytes) {
  return ExactIn({kByteUnits[0], kByteUnits[1], kByteUnits[2], kByteUnits[3], kByteUnits[4],
                  kByteUnits[5], kByteUnits[6], kByteUnits[7], kByteUnits[8]},
                 bytes.count());
}

std::string ExactBandwidth(Bandwidth bandwidth) {
  return ExactIn({kBandwidthUnits[0], kBandwidthUnits[1], kBandwidthUnits[2], kBandwidthUnits[3],
                  kBandwidthUnits[4], kBandwidthUnits[5], kBandwidthUnits[6]},
                 bandwidth.bytes_per_second());
}

}  // namespace stepcast
