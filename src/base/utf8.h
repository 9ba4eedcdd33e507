#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stepcast::utf8 {

// Returns the length in bytes of the UTF-8 sequence at the start of `text`, which must not be
// empty. Returns 0 if the sequence is invalid (Unicode 15, table 3-7: no overlong forms, no
// surrogates, nothing beyond U+10FFFF).
std::size_t SequenceLength(std::string_view text);

// Returns the code point of `character`, which must be exactly one valid sequence.
std::uint32_t CodePoint(std::string_view character);

}  // namespace stepcast::utf8
