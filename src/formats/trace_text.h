#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"

namespace stepcast::formats {

// The largest size of an unpacked trace, in bytes.
inline constexpr std::size_t kLargestTrace = std::size_t{2} << 30;
// The largest ratio of unpacked to packed size. Ratios of real traces are ten to twenty. A larger
// ratio is rejected as an attack if the unpacked size exceeds kFreelyUnpacked bytes.
inline constexpr std::size_t kMostUnpacking = 32;
inline constexpr std::size_t kFreelyUnpacked = std::size_t{16} << 20;

// Reads the text of a trace block by block, and unpacks gzip. Only one block is in memory.
class TraceText {
 public:
  // Opens a trace. If the file cannot be read (see InputFile) or is empty, appends a diagnostic and
  // returns none. `diagnostics` must outlive this object.
  static std::optional<TraceText> Open(const std::string& path, Diagnostics& diagnostics,
                                       std::size_t largest = kLargestTrace);
  TraceText(TraceText&&) noexcept;
  TraceText& operator=(TraceText&&) = delete;
  TraceText(const TraceText&) = delete;
  TraceText& operator=(const TraceText&) = delete;
  ~TraceText();

  // Returns the next block, valid until the next call, or an empty block at the end and after an
  // error. Appends errors: a read error, damaged gzip data, or a text that is too large.
  std::string_view Next();

 private:
  class Source;
  explicit TraceText(std::unique_ptr<Source> source);
  std::unique_ptr<Source> source_;
};

}  // namespace stepcast::formats
