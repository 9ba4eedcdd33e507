#include <algorithm>
#include <string>
#include <string_view>

#include "src/foreign/readers.h"

namespace stepcast::foreign {
namespace {

using Pattern = std::vector<bool>;

constexpr std::size_t kMostLayers = 10'000;
constexpr int kMostNesting = 20;

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  std::optional<Pattern> Run() {
    auto pattern = Sum(0);
    if (at_ != text_.size() || (pattern && pattern->empty())) return std::nullopt;
    return pattern;
  }

 private:
  bool Take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::optional<Pattern> Sum(int depth) {
    auto sum = Product(depth);
    while (sum && Take('+')) {
      const auto more = Product(depth);
      if (!more || sum->size() + more->size() > kMostLayers) return std::nullopt;
      sum->insert(sum->end(), more->begin(), more->end());
    }
    return sum;
  }

  std::optional<Pattern> Product(int depth) {
    auto one = Take('[') ? List() : Nested(depth);
    while (one && Take('*')) {
      const auto times = Count();
      if (!times || one->size() * *times > kMostLayers) return std::nullopt;
      Pattern all;
      for (std::size_t i = 0; i < *times; ++i) all.insert(all.end(), one->begin(), one->end());
      one = std::move(all);
    }
    return one;
  }

  std::optional<Pattern> Nested(int depth) {
    if (depth == kMostNesting || !Take('(')) return std::nullopt;
    auto inner = Sum(depth + 1);
    return Take(')') ? inner : std::nullopt;
  }

  std::optional<Pattern> List() {
    Pattern list;
    while (list.size() < kMostLayers) {
      if (Take('1')) {
        list.push_back(true);
      } else if (Take('0')) {
        list.push_back(false);
      } else {
        return std::nullopt;
      }
      if (Take(']')) return list;
      if (!Take(',')) return std::nullopt;
    }
    return std::nullopt;
  }

  std::optional<std::size_t> Count() {
    const std::size_t begin = at_;
    std::size_t count = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && count <= kMostLayers) {
      count = count * 10 + static_cast<std::size_t>(text_[at_++] - '0');
    }
    return at_ == begin ? std::nullopt : std::optional(count);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::vector<bool>> ParseLayerPattern(const Value& value) {
  std::string text;
  if (value.kind == Value::Kind::kList) {
    for (const std::string& item : value.items) text += (text.empty() ? "[" : ",") + item;
    text += "]";
  } else {
    text = value.text;
  }
  std::erase_if(text, [](char c) { return c == ' ' || c == '\'' || c == '"'; });
  return PatternParser(text).Run();
}

namespace {

// Reads which blocks have experts: every N-th, or a Python list of zeros and ones.
void ReadLayersOfExperts(Reading& reading) {
  const std::string_view option = "moe-layer-freq";
  const Setting* stated = reading.Stated(option);
  if (stated == nullptr) return;
  const std::int64_t layers = reading.Integer("num-layers").value_or(0);
  if (const auto every = reading.Integer(option); every && stated->value.Integer()) {
    if (*every > 1) {
      reading.Set("model.decoder_sparse_step", *every, option,
                  "blocks are counted from the first block of the model");
    }
    return;
  }
  const auto pattern = ParseLayerPattern(stated->value);
  if (!pattern || static_cast<std::int64_t>(pattern->size()) != layers ||
      !std::is_sorted(pattern->begin(), pattern->end())) {
    reading.Omit(option, "every block has experts");
    return;
  }
  const auto dense = std::count(pattern->begin(), pattern->end(), false);
  if (dense > 0) reading.Set("model.first_k_dense_replace", dense, option);
}

}  // namespace

void ReadExpertsOfModel(Reading& reading) {
  reading.Apply("experts_of_model");
  ReadLayersOfExperts(reading);
  reading.Apply("router_of_model");
}

}  // namespace stepcast::foreign
