#pragma once

#include <cstddef>
#include <functional>
#include <streambuf>
#include <string_view>
#include <utility>

namespace stepcast {

// A function that returns the next block of a text. A block stays valid until the next call. An
// empty block marks the end of the text.
using TextBlocks = std::function<std::string_view()>;

// A stream buffer for parsers that read streams and call back for each value. It limits how far a
// parser may read between two callbacks. Without the limit, a small compressed file could fill the
// memory with one endless value or endless nesting.
class BlockBuffer final : public std::streambuf {
 public:
  // The exception that is thrown through the parser if the parser reads too far.
  struct TooFarAhead {};

  // Creates a buffer for the text in `blocks`. At most `farthest` bytes, rounded up to a block, may
  // be read between calls of Used().
  BlockBuffer(TextBlocks blocks, std::size_t farthest)
      : blocks_(std::move(blocks)), farthest_(farthest) {}

  // Restarts the limit, because the text read so far was used. The parser's callbacks call this
  // function.
  void Used() { ahead_ = 0; }

 protected:
  int_type underflow() override {
    const std::string_view block = blocks_();
    if (block.empty()) return traits_type::eof();
    ahead_ += block.size();
    if (ahead_ > farthest_) throw TooFarAhead();
    char* begin = const_cast<char*>(block.data());  // streambuf's signature; it is only read
    setg(begin, begin, begin + block.size());
    return traits_type::to_int_type(*begin);
  }

 private:
  const TextBlocks blocks_;
  const std::size_t farthest_;
  std::size_t ahead_ = 0;
};

}  // namespace stepcast
