#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"

namespace stepcast::formats {

// The largest unpacked trace.
inline constexpr std::size_t kLargestTrace = std::size_t{2} << 30;
// Traces compress ten- to twentyfold. A file that unpacks to more than this many times its size,
// beyond the first kFreelyUnpacked bytes, is refused as an attack.
inline constexpr std::size_t kMostUnpacking = 32;
inline constexpr std::size_t kFreelyUnpacked = std::size_t{16} << 20;

// Reads the text of a trace block by block, and unpacks gzip. Only one block is in memory.
class TraceText {
 public:
  // On failure, appends the reason and returns nothing: the file cannot be read (see InputFile), or
  // it is empty. `diagnostics` must outlive the object.
  static std::optional<TraceText> Open(const std::string& path, Diagnostics& diagnostics,
                                       std::size_t largest = kLargestTrace);
  TraceText(TraceText&&) noexcept;
  TraceText& operator=(TraceText&&) = delete;
  TraceText(const TraceText&) = delete;
  TraceText& operator=(const TraceText&) = delete;
  ~TraceText();

  // The next block, valid until the next call. Empty at the end, and after an error, which is
  // appended: a read error, damaged gzip data, or a text that is too large.
  std::string_view Next();

 private:
  class Source;
  explicit TraceText(std::unique_ptr<Source> source);
  std::unique_ptr<Source> source_;
};

}  // namespace stepcast::formats
