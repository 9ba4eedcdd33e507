#pragma once

#include <cstdint>
#include <string>

#include "src/base/bytes.h"
#include "src/base/time.h"

// Numbers as the text pages print them. Where a column needs one unit for all of its rows,
// FormatTime and FormatBytes (base/quantity.h), which choose a unit for each value, do not fit.
namespace stepcast::report {

// A part of a whole times this is in per cent.
constexpr double kHundred = 100;

// "8,030,261,248"
std::string Grouped(std::int64_t number);

// "1,234.57" with `digits` after the point, rounded to nearest; what rounds to zero has no sign.
std::string Decimal(double number, int digits);

// The same with its sign, "+1.50"; what rounds to zero has none.
std::string Signed(double number, int digits);

// Times in milliseconds with three digits after the point; a time that would print as zero and is
// not gets as many digits as its first significant one needs.
std::string Milliseconds(Time time);

// A difference of times in milliseconds as Milliseconds prints it, with a minus where it is
// negative.
std::string SignedMilliseconds(Time time);

// A binary unit of bytes that a column has in its heading.
struct ByteUnit {
  const char* name;  // "GiB"
  std::int64_t bytes;
};
// The largest of B, KiB, MiB and GiB in which the largest amount of a column is at least 1.
ByteUnit UnitFor(double largest);
inline ByteUnit UnitFor(Bytes largest) { return UnitFor(static_cast<double>(largest.count())); }

// "14.96": in the unit given, two digits after the point, none for whole bytes. "<0.01" for an
// amount that would print as zero and is not.
std::string In(ByteUnit unit, double bytes);
inline std::string In(ByteUnit unit, Bytes bytes) {
  return In(unit, static_cast<double>(bytes.count()));
}

// A part of a whole in per cent with one digit after the point, "12.3" and with its sign "+12.3",
// as the tables of accuracy print it.
std::string PerCent(double part);
std::string SignedPerCent(double part);

// The part of a whole in per cent, one digit after the point; "-" of a whole of zero.
std::string Percent(Time part, Time whole);

}  // namespace stepcast::report
