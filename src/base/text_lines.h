#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"

namespace stepcast {

// Lines and columns of places in a text, found by bisection.
class TextLines {
 public:
  // `file` names the text in positions.
  TextLines(std::string_view text, std::string file) : file_(std::move(file)) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') starts_.push_back(i + 1);
    }
  }
  Location At(std::size_t offset) const {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), offset);
    return {file_, static_cast<int>(after - starts_.begin()),
            static_cast<int>(offset - *std::prev(after)) + 1};
  }

 private:
  std::string file_;
  std::vector<std::size_t> starts_{0};
};

}  // namespace stepcast
