#pragma once

#include <cstdint>
#include <string>

#include "src/base/bytes.h"
#include "src/base/time.h"

// Numbers as the text pages print them. Where a column needs one unit for all of its rows,
// FormatTime and FormatBytes (base/quantity.h), which choose a unit for each value, do not fit.
namespace stepcast::report {

// "8,030,261,248"
std::string Grouped(std::int64_t number);

// "1,234.57" with `digits` after the point, rounded to nearest.
std::string Decimal(double number, int digits);

// Times in milliseconds with three digits after the point; a time that would print as zero and is
// not gets as many digits as its first significant one needs.
std::string Milliseconds(Time time);

// "14.96": binary units, two digits after the point; small amounts as in Milliseconds().
std::string Mebibytes(double bytes);
std::string Gibibytes(Bytes bytes);

// The part of a whole in per cent, one digit after the point; "-" of a whole of zero.
std::string Percent(Time part, Time whole);

}  // namespace stepcast::report
