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

std::string AtLeast(double number, int digits) {
  constexpr int kMostDigits = 9;
  while (number != 0 && digits < kMostDigits && std::abs(number) < 0.5 * std::pow(10.0, -digits)) {
    ++digits;
  }
  return Decimal(number, digits);
}

}  // namespace

std::string Grouped(std::int64_t number) { return WithSeparators(fmt::format("{}", number)); }

std::string Decimal(double number, int digits) {
  return WithSeparators(fmt::format("{:.{}f}", number, digits));
}

std::string Milliseconds(Time time) {
  return AtLeast(static_cast<double>(time.picoseconds()) / 1e9, 3);
}

std::string Mebibytes(double bytes) { return AtLeast(bytes / static_cast<double>(1 << 20), 2); }

std::string Gibibytes(Bytes bytes) {
  return AtLeast(static_cast<double>(bytes.count()) / static_cast<double>(1 << 30), 2);
}

std::string Percent(Time part, Time whole) {
  if (whole == Time()) return "-";
  return Decimal(100.0 * (part / whole), 1);
}

}  // namespace stepcast::report
