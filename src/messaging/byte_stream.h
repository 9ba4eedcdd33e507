#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

// Encodes values as bytes for messages between ranks. Integers are encoded as LEB128, in which
// small numbers are short. (For signed integers, the lowest bit is the sign.)
namespace stepcast::messaging {

class ByteWriter {
 public:
  void Number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  void Signed(std::int64_t value) {
    const auto bits = static_cast<std::uint64_t>(value);
    Number((bits << 1) ^ (value < 0 ? ~std::uint64_t{0} : 0));
  }
  void Text(std::string_view text) {
    Number(text.size());
    bytes_.append(text);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads the bytes of a ByteWriter. A read past the end returns zeros and sets `bad`, which is never
// reset, so one check of `bad` at the end is sufficient.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : left_(bytes) {}

  std::uint64_t Number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (left_.empty()) break;
      const auto byte = static_cast<unsigned char>(left_.front());
      left_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    bad_ = true;
    return 0;
  }
  std::int64_t Signed() {
    const std::uint64_t bits = Number();
    return static_cast<std::int64_t>((bits >> 1) ^ ((bits & 1) != 0 ? ~std::uint64_t{0} : 0));
  }
  std::string Text() {
    const std::uint64_t size = Number();
    if (size > left_.size()) {
      bad_ = true;
      return "";
    }
    std::string text(left_.substr(0, size));
    left_.remove_prefix(size);
    return text;
  }
  // Reads the number of elements of a list. Each element has at least one byte. Sets `bad` if the
  // number exceeds the remaining bytes.
  std::size_t Count() {
    const std::uint64_t count = Number();
    if (count > left_.size()) {
      bad_ = true;
      return 0;
    }
    return count;
  }

  bool bad() const { return bad_; }
  bool at_end() const { return left_.empty(); }

 private:
  std::string_view left_;
  bool bad_ = false;
};

}  // namespace stepcast::messaging
