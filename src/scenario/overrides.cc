#include "src/scenario/overrides.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace stepcast::scenario {
namespace {

class Overriding {
 public:
  Overriding(std::string_view option, Diagnostics& diagnostics)
      : label_(fmt::format("--set {}", option)),
        position_{std::make_shared<const std::string>(label_), 0, 0},
        diagnostics_(diagnostics) {}

  std::optional<YamlTree> Apply(const YamlTree& root, std::string_view option) {
    const std::size_t equals = option.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return Fail("override.syntax",
                  fmt::format("a setting must have the form KEY=VALUE: {}", Quoted(option)),
                  "write for example --set training.micro_batch_size=2");
    }
    if (!SplitKey(option.substr(0, equals))) return std::nullopt;
    const std::string_view text = option.substr(equals + 1);
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
      return Fail("override.syntax", fmt::format("the setting has no value: {}", Quoted(option)),
                  "write a value after '=', or KEY=null for the default");
    }
    std::optional<YamlTree> value = ParseYaml(text, label_, diagnostics_, false);
    if (!value.has_value()) return std::nullopt;
    value_ = *std::move(value);
    std::optional<YamlTree> changed = Replaced(root, 0);
    return nothing_to_remove_ ? root : changed;
  }

 private:
  std::nullopt_t Fail(const char* code, std::string message, std::string hint) {
    diagnostics_.push_back({code, {label_, 0, 0}, std::move(message), std::move(hint)});
    return std::nullopt;
  }

  bool SplitKey(std::string_view key) {
    // Deeper than any file, so that a long key cannot build a deep tree.
    constexpr std::size_t kDeepest = 16;
    for (std::size_t begin = 0; begin <= key.size();) {
      const std::size_t end = std::min(key.find('.', begin), key.size());
      if (end == begin || segments_.size() == kDeepest) {
        Fail("override.syntax",
             fmt::format("a key must be words separated by dots: {}", Quoted(key)),
             "write for example training.precision");
        return false;
      }
      segments_.emplace_back(key.substr(begin, end - begin));
      begin = end + 1;
    }
    return true;
  }

  // The path of the first `depth` segments, such as "training.precision".
  std::string PathTo(std::size_t depth) const {
    std::string path;
    for (std::size_t i = 0; i < depth; ++i) path += (i > 0 ? "." : "") + segments_[i];
    return path;
  }

  // A copy of `node` with the value set below it; `node` stands at the first `depth` segments and
  // is null where there is none yet.
  std::optional<YamlTree> Replaced(const YamlTree& node, std::size_t depth) {
    if (depth == segments_.size()) return value_;
    if (node == nullptr || node->kind == NodeKind::kNull) {
      auto made = std::make_shared<YamlNode>();
      made->kind = NodeKind::kMapping;
      made->position = position_;
      return WithEntry(std::move(made), depth);
    }
    switch (node->kind) {
      case NodeKind::kMapping:
        return WithEntry(std::make_shared<YamlNode>(*node), depth);
      case NodeKind::kSequence:
        return WithItem(std::make_shared<YamlNode>(*node), depth);
      case NodeKind::kScalar:
      case NodeKind::kNull:
        break;
    }
    return Fail("override.no-mapping",
                fmt::format("{} is a single value ({}), not a mapping with keys",
                            Quoted(PathTo(depth)), Quoted(node->scalar)),
                fmt::format("set the value of {} instead", Quoted(PathTo(depth))));
  }

  std::optional<YamlTree> WithEntry(std::shared_ptr<YamlNode> copy, std::size_t depth) {
    const std::string& key = segments_[depth];
    YamlNode::Entry* const found = copy->Find(key);
    const bool removes = depth + 1 == segments_.size() && value_->kind == NodeKind::kNull;
    if (removes) {
      nothing_to_remove_ = found == nullptr;
      std::erase_if(copy->entries, [&](const auto& entry) { return entry.key == key; });
      return copy;
    }
    std::optional<YamlTree> child = Replaced(found == nullptr ? nullptr : found->value, depth + 1);
    if (!child.has_value()) return std::nullopt;
    if (found == nullptr) {
      copy->entries.push_back({key, position_, *std::move(child)});
    } else {
      found->value = *std::move(child);
    }
    return copy;
  }

  std::optional<YamlTree> WithItem(std::shared_ptr<YamlNode> copy, std::size_t depth) {
    const std::string& segment = segments_[depth];
    std::size_t index = 0;
    const auto [end, error] =
        std::from_chars(segment.data(), segment.data() + segment.size(), index);
    if (error != std::errc() || end != segment.data() + segment.size() ||
        index >= copy->items.size()) {
      return Fail("override.no-item",
                  fmt::format("{} has {} items, numbered from 0, so item {} does not exist",
                              Quoted(PathTo(depth)), copy->items.size(), Quoted(segment)),
                  "write the number of an existing item, or set the complete sequence");
    }
    std::optional<YamlTree> child = Replaced(copy->items[index], depth + 1);
    if (!child.has_value()) return std::nullopt;
    copy->items[index] = *std::move(child);
    return copy;
  }

  const std::string label_;
  const Position position_;
  Diagnostics& diagnostics_;
  std::vector<std::string> segments_;
  YamlTree value_;
  bool nothing_to_remove_ = false;
};

}  // namespace

std::optional<YamlTree> WithOverride(const YamlTree& root, std::string_view option,
                                     Diagnostics& diagnostics) {
  return Overriding(option, diagnostics).Apply(root, option);
}

}  // namespace stepcast::scenario
