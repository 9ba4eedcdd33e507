#include <charconv>
#include <cstddef>
#include <utility>

#include "fmt/format.h"
#include "src/scenario/plan_sections.h"

namespace stepcast::scenario {
namespace {

constexpr std::size_t kMostSymbols = 100'000;

// Expands repetitions.
class Expansion {
 public:
  explicit Expansion(std::string_view layout) : layout_(layout) {}

  tl::expected<std::string, std::string> Run() {
    std::string text = Sequence();
    if (fault_.empty() && at_ < layout_.size()) fault_ = "a ')' has no matching '('";
    if (!fault_.empty()) return tl::unexpected(fault_);
    return text;
  }

 private:
  // Parses up to the end, or to a ) that belongs to the caller.
  std::string Sequence() {
    std::string text;
    while (fault_.empty() && at_ < layout_.size() && layout_[at_] != ')') {
      std::string item;
      const char symbol = layout_[at_++];
      if (symbol == ',' || symbol == ' ') continue;
      if (symbol == '(') {
        item = Sequence();
        if (!fault_.empty()) return text;
        if (at_ == layout_.size()) {
          fault_ = "a '(' has no matching ')'";
          return text;
        }
        ++at_;
      } else if (std::string_view("EtmL|").find(symbol) != std::string_view::npos) {
        item = symbol;
      } else {
        fault_ = fmt::format("only E, t, m, L and | are allowed, not '{}'", symbol);
        return text;
      }
      Append(item, Times(), text);
    }
    return text;
  }

  // The repetition after an item, such as "*12"; 1 if there is none.
  std::size_t Times() {
    if (at_ == layout_.size() || layout_[at_] != '*') return 1;
    ++at_;
    std::size_t times = 0;
    const char* const begin = layout_.data() + at_;
    const auto [end, error] = std::from_chars(begin, layout_.data() + layout_.size(), times);
    if (error != std::errc() || times == 0) {
      fault_ = "a number of 1 or more must follow each *";
      return 0;
    }
    at_ += static_cast<std::size_t>(end - begin);
    return times;
  }

  void Append(const std::string& item, std::size_t times, std::string& text) {
    for (std::size_t i = 0; i < times && fault_.empty(); ++i) {
      text += item;
      if (text.size() > kMostSymbols)
        fault_ = fmt::format("the layout has more than {} layers", kMostSymbols);
    }
  }

  std::string_view layout_;
  std::size_t at_ = 0;
  std::string fault_;
};

}  // namespace

tl::expected<std::vector<std::int64_t>, std::string> ParseStageLayout(std::string_view layout) {
  const auto text = Expansion(layout).Run();
  if (!text) return tl::unexpected(text.error());
  if (text->size() < 2 || text->front() != 'E' || text->back() != 'L') {
    return tl::unexpected(std::string("the layout must begin with E and end with L"));
  }
  std::string_view stages = std::string_view(*text).substr(1, text->size() - 2);
  if (stages.ends_with('m')) stages.remove_suffix(1);
  std::vector<std::int64_t> blocks{0};
  for (const char symbol : stages) {
    if (symbol == '|') {
      blocks.push_back(0);
    } else if (symbol == 't') {
      ++blocks.back();
    } else if (symbol == 'm') {
      return tl::unexpected(std::string("'m' can occur only once, directly before 'L'"));
    } else {
      return tl::unexpected(
          std::string("E must be the first letter, L must be the last letter, and both can occur "
                      "only once"));
    }
  }
  return blocks;
}

}  // namespace stepcast::scenario
