#include "src/report/number_text.h"

#include <cmath>

#include "fmt/format.h"

namespace stepcast::report {
namespace {

// Inserts the separators of thousands into the digits before the point.
std::string WithSeparators(std::string text) {
  const std::size_t first = text.front() == '-' ? 1 : 0;
  std::size_t end = text.find('.');
  if (end == std::string::npos) end = text.size();
  for (std::size_t at = end; at > first + 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

bool RoundsToZero(double number, int digits) {
  return std::abs(number) < 0.5 * std::pow(10.0, -digits);
}

}  // namespace

std::string Grouped(std::int64_t number) { return WithSeparators(fmt::format("{}", number)); }

std::string Decimal(double number, int digits) {
  if (RoundsToZero(number, digits)) number = 0;  // without a sign
  return WithSeparators(fmt::format("{:.{}f}", number, digits));
}

std::string PerCent(double part) { return fmt::format("{:.1f}", 100 * part); }
std::string SignedPerCent(double part) { return fmt::format("{:+.1f}", 100 * part); }

std::string Signed(double number, int digits) {
  const std::string text = Decimal(number, digits);
  return number > 0 && !RoundsToZero(number, digits) ? "+" + text : text;
}

std::string Milliseconds(Time time) {
  constexpr int kMostDigits = 9;  // a picosecond
  const double number = static_cast<double>(time.picoseconds()) / 1e9;
  int digits = 3;
  while (number != 0 && digits < kMostDigits && std::abs(number) < 0.5 * std::pow(10.0, -digits)) {
    ++digits;
  }
  return Decimal(number, digits);
}

ByteUnit UnitFor(double largest) {
  for (const ByteUnit unit :
       {ByteUnit{"GiB", 1 << 30}, ByteUnit{"MiB", 1 << 20}, ByteUnit{"KiB", 1 << 10}}) {
    if (largest >= static_cast<double>(unit.bytes)) return unit;
  }
  return {"B", 1};
}

std::string In(ByteUnit unit, double bytes) {
  constexpr double kSmallest = 0.005;  // rounds to 0.01
  const double amount = bytes / static_cast<double>(unit.bytes);
  if (unit.bytes == 1) return Decimal(amount, 0);
  if (amount != 0 && std::abs(amount) < kSmallest) return amount > 0 ? "<0.01" : ">-0.01";
  return Decimal(amount, 2);
}

std::string SignedMilliseconds(Time time) {
  return time < Time() ? "-" + Milliseconds(Time() - time) : Milliseconds(time);
}

std::string Percent(Time part, Time whole) {
  if (whole == Time()) return "-";
  return Decimal(100.0 * (part / whole), 1);
}

}  // namespace stepcast::report
