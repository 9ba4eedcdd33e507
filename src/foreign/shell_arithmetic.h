#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace stepcast::foreign {

// The value of a shell's arithmetic, `A * (b + 1) / 2`, with whole numbers, + - * / %, comparisons
// and `?:`. `value_of` says what a variable is; it is asked with the name alone. Nothing where a
// variable is not known, the text is no such expression, or the value leaves 64 bits.
std::optional<std::int64_t> ShellArithmetic(
    std::string_view text,
    const std::function<std::optional<std::int64_t>(const std::string&)>& value_of);

}  // namespace stepcast::foreign
