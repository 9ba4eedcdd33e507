#pragma once

#include <string>
#include <string_view>

#include "src/base/bytes.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "tl/expected.hpp"

// Quantities as text. The parser is strict: a decimal number, an optional space and a unit ("25
// MiB", "2.5us"). A sign, an exponent or a missing unit is an error. Units are case-sensitive.
//   bytes:      B KB MB GB TB KiB MiB GiB TiB
//   bandwidth:  B/s KB/s MB/s GB/s TB/s (10^3), MiB/s GiB/s; bit rates Kbps Mbps Gbps Tbps (/8)
//   time:       ps ns us ms s min h
//   flop rate:  GFLOPS TFLOPS PFLOPS
// Values are rounded to the smallest unit (byte, picosecond, byte/s, flop/s). An error is a
// sentence that ends with the offending text; the caller adds the position.
namespace stepcast {

struct QuantityError {
  std::string message;  // "bytes need a unit: '25'"
  std::string hint;     // "write for example '25 MiB'"
};

template <typename T>
using QuantityResult = tl::expected<T, QuantityError>;

QuantityResult<Bytes> ParseBytes(std::string_view text);
QuantityResult<Bandwidth> ParseBandwidth(std::string_view text);
QuantityResult<Time> ParseTime(std::string_view text);
QuantityResult<FlopRate> ParseFlopRate(std::string_view text);

// Formats values for display, with three or four significant digits and a suitable unit: "1.25 ms",
// "14.9 GiB", "450 GB/s".
std::string FormatTime(Time time);
std::string FormatBytes(Bytes bytes);
std::string FormatBandwidth(Bandwidth bandwidth);

// Formats values for files, so that Parse* reads exactly the same value: "25 MiB" for 26214400 B,
// "1500 ns" for 1.5 us.
std::string ExactTime(Time time);
std::string ExactBytes(Bytes bytes);
std::string ExactBandwidth(Bandwidth bandwidth);

}  // namespace stepcast
