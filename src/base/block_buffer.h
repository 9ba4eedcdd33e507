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

// A stream buffer that limits how many bytes a parser may read between two callbacks. Without the
// limit, a small compressed file that expands to one huge value or to endless nesting could exhaust
// the memory.
class BlockBuffer final : public std::streambuf {
 public:
  // Thrown through the parser when the parser exceeds the limit.
  struct TooFarAhead {};

  // `blocks` returns the text. The parser may read at most `farthest` bytes, rounded up to a block,
  // between calls of Used().
  BlockBuffer(TextBlocks blocks, std::size_t farthest)
      : blocks_(std::move(blocks)), farthest_(farthest) {}

  // Resets the number of bytes read. Call this function in every callback of the parser.
  void Used() { ahead_ = 0; }

 protected:
  int_type underflow() override {
    const std::string_view block = blocks_();
    if (block.empty()) return traits_type::eof();
    ahead_ += block.size();
    if (ahead_ > farthest_) throw TooFarAhead();
    char* begin = const_cast<char*>(block.data());  // streambuf requires non-const
    setg(begin, begin, begin + block.size());
    return traits_type::to_int_type(*begin);
  }

 private:
  const TextBlocks blocks_;
  const std::size_t farthest_;
  std::size_t ahead_ = 0;
};

}  // namespace stepcast
