#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"

namespace stepcast::formats {

// No trace is larger when it is unpacked.
inline constexpr std::size_t kLargestTrace = std::size_t{2} << 30;
// A packed trace is a tenth to a twentieth of its text. What unpacks to more than this many times
// its size, beyond the first kFreelyUnpacked bytes, was made to cost time.
inline constexpr std::size_t kMostUnpacking = 32;
inline constexpr std::size_t kFreelyUnpacked = std::size_t{16} << 20;

// The text of a trace, block by block, unpacked if the file is gzip: no more than a block of it is
// in memory.
class TraceText {
 public:
  // Appends why not and returns nothing: it cannot be read (as input_file.h says it) or is empty.
  // `diagnostics` must outlive it.
  static std::optional<TraceText> Open(const std::string& path, Diagnostics& diagnostics,
                                       std::size_t largest = kLargestTrace);
  TraceText(TraceText&&) noexcept;
  TraceText& operator=(TraceText&&) = delete;
  TraceText(const TraceText&) = delete;
  TraceText& operator=(const TraceText&) = delete;
  ~TraceText();

  // The next block, which holds until the next call. Empty at the end, and after a mistake that was
  // appended: the file cannot be read on, its packing is damaged, it is too large.
  std::string_view Next();

 private:
  class Source;
  explicit TraceText(std::unique_ptr<Source> source);
  std::unique_ptr<Source> source_;
};

}  // namespace stepcast::formats
