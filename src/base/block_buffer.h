#pragma once

#include <cstddef>
#include <functional>
#include <streambuf>
#include <string_view>
#include <utility>

namespace stepcast {

// The blocks of a text, one at a call, which hold until the next; an empty one is its end.
using TextBlocks = std::function<std::string_view()>;

// A text for parsers that read streams and call back for each value that they find. What they keep
// between two calls is bounded: it is why a small file could otherwise fill the memory, by one
// value without end, or by brackets of which no parser knows yet what they are.
class BlockBuffer final : public std::streambuf {
 public:
  // Thrown through the parser.
  struct TooFarAhead {};

  // `farthest`: how many bytes, rounded up to a block, may be read without a call of Used().
  BlockBuffer(TextBlocks blocks, std::size_t farthest)
      : blocks_(std::move(blocks)), farthest_(farthest) {}

  // For what the parser calls: it has made something of what it had read.
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
