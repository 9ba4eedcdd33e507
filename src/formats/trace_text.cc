#include "src/formats/trace_text.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/files.h"

namespace stepcast::formats {

class TraceText::Source {
 public:
  Source(InputFile file, Diagnostics& diagnostics, std::size_t largest)
      : file_(std::move(file)), diagnostics_(diagnostics), largest_(largest) {}
  ~Source() {
    if (packed_) ::inflateEnd(&stream_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // Reads the first block of the file. Returns false after appending an error.
  bool Begin() {
    if (!Fill()) return false;
    if (here_.empty()) return Fail("file.empty", "the file is empty", "");
    packed_ = here_.starts_with(kMagic);
    if (packed_) {
      constexpr int kGzip = 16 + MAX_WBITS;
      STEPCAST_CHECK(::inflateInit2(&stream_, kGzip) == Z_OK, "zlib has memory");
    }
    return true;
  }

  std::string_view Next() {
    if (done_) return {};
    const std::string_view block = packed_ ? Unpack() : Plain();
    given_ += block.size();
    const bool too_large = given_ > largest_;
    const bool bomb = packed_ && given_ > kFreelyUnpacked && given_ / kMostUnpacking > read_;
    if (too_large) {
      Fail("file.too-large",
           fmt::format("the unpacked trace is larger than the maximum of {} MiB", largest_ >> 20),
           "trace fewer steps");
    } else if (bomb) {
      Fail("file.too-large",
           fmt::format("the unpacked file is more than {} times as large as the compressed file, "
                       "so the file is not a trace",
                       kMostUnpacking),
           "if the file is a trace, unpack the trace first: gunzip FILE");
    }
    done_ = done_ || block.empty();
    return too_large || bomb ? std::string_view() : block;
  }

 private:
  static constexpr std::string_view kMagic = "\x1f\x8b";

  bool Fail(const char* code, std::string message, std::string hint) {
    diagnostics_.push_back({code, {file_.path(), 0, 0}, std::move(message), std::move(hint)});
    done_ = true;
    return false;
  }

  // Reads the next part of the file into `here_`, which is empty at its end.
  bool Fill() {
    const auto count = file_.Read(packed_bytes_, diagnostics_);
    if (!count) {
      done_ = true;
      return false;
    }
    here_ = {packed_bytes_.data(), *count};
    read_ += *count;
    return true;
  }

  std::string_view Plain() {
    if (here_.empty() && !Fill()) return {};
    return std::exchange(here_, {});
  }

  std::string_view Unpack() {
    stream_.next_out = reinterpret_cast<Bytef*>(unpacked_.data());
    stream_.avail_out = static_cast<uInt>(unpacked_.size());
    while (stream_.avail_out > 0) {
      if (here_.empty() && !Fill()) return {};
      if (ended_) {
        // A file may contain several gzip members; other trailing data is ignored.
        if (!here_.starts_with(kMagic.front())) break;
        ::inflateReset(&stream_);
        ended_ = false;
      }
      if (here_.empty()) {
        Fail("file.bad-compression", "the compressed file is incomplete", "copy the file again");
        return {};
      }
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(here_.data()));
      stream_.avail_in = static_cast<uInt>(here_.size());
      const int result = ::inflate(&stream_, Z_NO_FLUSH);
      here_.remove_prefix(here_.size() - stream_.avail_in);
      ended_ = result == Z_STREAM_END;
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
        Fail("file.bad-compression",
             fmt::format("the compressed file is damaged or incomplete: {}",
                         stream_.msg == nullptr ? "the file is not in gzip format" : stream_.msg),
             "copy the file again");
        return {};
      }
    }
    return {unpacked_.data(), unpacked_.size() - stream_.avail_out};
  }

  InputFile file_;
  Diagnostics& diagnostics_;
  const std::size_t largest_;
  bool packed_ = false, ended_ = false, done_ = false;
  std::size_t read_ = 0, given_ = 0;  // bytes read from the file, and bytes of text returned
  std::string_view here_;             // part of the file that was read and not yet used
  z_stream stream_{};
  std::array<char, 1 << 16> packed_bytes_;
  std::array<char, 1 << 18> unpacked_;
};

TraceText::TraceText(std::unique_ptr<Source> source) : source_(std::move(source)) {}
TraceText::TraceText(TraceText&&) noexcept = default;
TraceText::~TraceText() = default;

std::optional<TraceText> TraceText::Open(const std::string& path, Diagnostics& diagnostics,
                                         std::size_t largest) {
  std::optional<InputFile> file = InputFile::Open(path, diagnostics);
  if (!file) return std::nullopt;
  auto source = std::make_unique<Source>(*std::move(file), diagnostics, largest);
  if (!source->Begin()) return std::nullopt;
  return TraceText(std::move(source));
}

std::string_view TraceText::Next() { return source_->Next(); }

}  // namespace stepcast::formats
