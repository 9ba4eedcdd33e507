#include "src/scenario/yaml_tree.h"

#include <algorithm>
#include <istream>
#include <optional>
#include <unordered_map>
#include <utility>

#include "fmt/format.h"
#include "src/base/block_buffer.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/printable.h"
#include "src/base/text_lines.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/exceptions.h"
#include "yaml-cpp/mark.h"
#include "yaml-cpp/parser.h"

namespace stepcast::scenario {
namespace {

// yaml-cpp's parser recurses once per level; no real input is nearly as deep.
constexpr std::size_t kDeepest = 64;

// Limit on a document's values, far above any real file, so that 16 MiB of small values do not fill
// the memory.
constexpr std::size_t kMostValues = 1'000'000;

// How much of a text yaml-cpp may read before it emits events. Until an opened bracket is closed,
// it keeps some 250 times the text, because everything in it might still be a key.
constexpr std::size_t kFarthestAhead = std::size_t{1} << 20;

// Thrown through yaml-cpp's parser to stop it, after the Diagnostic is written.
struct Stop {};

// Builds the tree from the parser's events. yaml-cpp's own Node would lose duplicate keys, quotes
// and the positions of keys.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(std::shared_ptr<const std::string> file, bool with_positions, BlockBuffer& text,
              Diagnostics& diagnostics)
      : file_(std::move(file)),
        with_positions_(with_positions),
        text_(text),
        diagnostics_(diagnostics) {}

  YamlTree root() const { return root_; }
  // The position of the value found last.
  const YAML::Mark& last() const { return last_; }

  Position At(const YAML::Mark& mark) const {
    if (!with_positions_ || mark.line < 0) return {file_, 0, 0};
    return {file_, mark.line + 1, mark.column + 1};
  }

  [[noreturn]] void Fail(const YAML::Mark& mark, const char* code, std::string message,
                         std::string hint) {
    diagnostics_.push_back({code, At(mark).location(), std::move(message), std::move(hint)});
    throw Stop();
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (root_ != nullptr) {
      Fail(mark, "yaml.several-documents", "a second YAML document starts here",
           "split the file, or remove '---': a file can contain only one document");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Refuse(mark, "", anchor);
    Add(MakeNode(NodeKind::kNull, mark));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    Fail(mark, "yaml.reference", "aliases are not supported",
         "write the value instead of the alias");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    // "?" marks a plain scalar, "!" one in quotes or a block.
    Refuse(mark, tag == "?" || tag == "!" ? std::string_view() : std::string_view(tag), anchor);
    RefuseControls(mark, value);
    std::shared_ptr<YamlNode> node = MakeNode(NodeKind::kScalar, mark);
    node->scalar = value;
    node->quoted = tag != "?";
    Add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    Open(NodeKind::kSequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    Open(NodeKind::kMapping, mark, tag, anchor);
  }
  void OnMapEnd() override { Close(); }

 private:
  struct Level {
    std::shared_ptr<YamlNode> node;
    bool key_is_next = true;                    // kMapping
    bool skip_value = false;                    // kMapping: the key was refused
    YamlNode::Entry entry;                      // kMapping: the key that waits for its value
    std::unordered_map<std::string, int> seen;  // kMapping: key to line of its first use
  };

  std::shared_ptr<YamlNode> MakeNode(NodeKind kind, const YAML::Mark& mark) {
    text_.Used();
    last_ = mark;
    if (++values_ > kMostValues) {
      Fail(mark, "yaml.too-large", fmt::format("the file has more than {} values", kMostValues),
           "check that this is the right file");
    }
    auto node = std::make_shared<YamlNode>();
    node->kind = kind;
    node->position = At(mark);
    return node;
  }

  void Refuse(const YAML::Mark& mark, std::string_view tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) {
      Fail(mark, "yaml.reference", "anchors are not supported",
           "remove '&' and the name after it: stepcast does not support aliases");
    }
    if (!tag.empty() && tag != "?") {
      Fail(mark, "yaml.reference", fmt::format("tags are not supported: {}", Quoted(tag)),
           "remove the '!', or put the text in quotes if the text starts with '!'");
    }
  }

  // Escapes in quotes can write characters that a file may not contain directly: "\e[31m". Names
  // reach terminals.
  void RefuseControls(const YAML::Mark& mark, const std::string& value) {
    std::string text = value;
    std::erase_if(text, [](char c) { return c == '\n' || c == '\r' || c == '\t'; });
    const std::string shown = Quoted(text, "", std::string::npos);
    if (shown == text) return;
    Fail(mark, "file.not-text",
         fmt::format("the text contains an invisible character that changes how other characters "
                     "are displayed: {}",
                     Quoted(value)),
         "remove the character");
  }

  void Open(NodeKind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    Refuse(mark, tag, anchor);
    if (levels_.size() >= kDeepest) {
      Fail(mark, "yaml.too-deep",
           fmt::format("the file is nested more than {} levels "
                       "deep",
                       kDeepest),
           "check the brackets and the indentation");
    }
    levels_.push_back(Level{MakeNode(kind, mark), true, false, {}, {}});
  }

  void Close() {
    YamlTree node = std::move(levels_.back().node);
    levels_.pop_back();
    Add(std::move(node));
  }

  void Add(YamlTree node) {
    if (levels_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = levels_.back();
    if (level.node->kind == NodeKind::kSequence) {
      level.node->items.push_back(std::move(node));
    } else if (level.key_is_next) {
      TakeKey(level, *node);
    } else {
      level.entry.value = std::move(node);
      if (!level.skip_value) level.node->entries.push_back(std::move(level.entry));
      level.key_is_next = true;
    }
  }

  // The parser stops at the last mistake that would be shown.
  void Report(Diagnostic mistake) {
    diagnostics_.push_back(std::move(mistake));
    if (diagnostics_.size() >= kMostShownFaults) throw Stop();
  }

  void TakeKey(Level& level, const YamlNode& key) {
    level.key_is_next = false;
    level.skip_value = true;
    const Location location = key.position.location();
    if (key.kind != NodeKind::kScalar) {
      Report({"input.bad-key", location, "a key must be a word",
              "write 'key: value'; put a key such as null in quotes"});
      return;
    }
    const auto [first, inserted] = level.seen.emplace(key.scalar, location.line);
    if (!inserted) {
      Report({"input.duplicate-key", location, fmt::format("duplicate key: {}", Quoted(key.scalar)),
              first->second > 0
                  ? fmt::format("remove one of the two lines: this key first occurs on line {}",
                                first->second)
                  : "keep only one of the two lines"});
      return;
    }
    level.skip_value = false;
    level.entry = {key.scalar, key.position, nullptr};
  }

  const std::shared_ptr<const std::string> file_;
  const bool with_positions_;
  BlockBuffer& text_;
  Diagnostics& diagnostics_;
  std::size_t values_ = 0;
  YAML::Mark last_;
  std::vector<Level> levels_;
  YamlTree root_;
};

// The text in blocks, with an end-of-document mark after the last. yaml-cpp accepts the end of the
// text as the end of an open single quote, but reports the mark inside quotes. It puts back up to
// three of the first bytes, which must be in one block.
TextBlocks Blocks(std::string_view text) {
  constexpr std::size_t kBlock = std::size_t{1} << 16;
  const std::size_t before = text.size() / kBlock * kBlock;
  return [rest = text.substr(0, before), last = std::string(text.substr(before)) + "\n...\n",
          ended = false]() mutable {
    if (rest.empty())
      return std::exchange(ended, true) ? std::string_view() : std::string_view(last);
    const std::string_view block = rest.substr(0, kBlock);
    rest.remove_prefix(block.size());
    return block;
  };
}

// The position after the last character, ignoring line ends at the end.
Location EndOf(std::string_view text, const std::string& file) {
  const std::size_t last = text.find_last_not_of("\r\n");
  if (last == std::string_view::npos) return {file, 1, 1};
  text = text.substr(0, last + 1);
  const std::size_t line_end = text.rfind('\n');
  const std::size_t line_begin = line_end == std::string_view::npos ? 0 : line_end + 1;
  return {file, static_cast<int>(std::count(text.begin(), text.end(), '\n')) + 1,
          static_cast<int>(text.size() - line_begin) + 1};
}

// The position of a tab used as indentation, down to the given line. YAML does not allow it, and
// reports it only in the next line or not at all.
std::optional<Location> TabAbove(std::string_view text, const Location& end) {
  std::size_t begin = 0;
  for (int line = 1; line <= end.line && begin < text.size(); ++line) {
    const std::size_t first = text.find_first_not_of(' ', begin);
    if (first != std::string_view::npos && text[first] == '\t') {
      return Location{end.file, line, static_cast<int>(first - begin) + 1};
    }
    begin = text.find('\n', begin);
    if (begin != std::string_view::npos) ++begin;
  }
  return std::nullopt;
}

// The number of a line, from 1, and its text.
std::string_view LineOf(std::string_view text, int line) {
  for (; line > 1 && !text.empty(); --line) {
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  }
  return text.substr(0, text.find_first_of("\r\n"));
}

// The position of a comment of JavaScript in a text that begins like JSON, down to the given line.
std::optional<Location> CommentOfJson(std::string_view text, const Location& end) {
  const std::size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  if (!text.substr(first).starts_with('{') && !text.substr(first).starts_with("//")) {
    return std::nullopt;
  }
  int line = 1;
  std::size_t begin = 0;  // of the line
  bool quoted = false;
  for (std::size_t i = 0; i + 1 < text.size() && line <= end.line; ++i) {
    if (text[i] == '\n') {
      ++line;
      begin = i + 1;
      quoted = false;
    } else if (text[i] == '"' && (i == begin || text[i - 1] != '\\')) {
      quoted = !quoted;
    } else if (!quoted && text[i] == '/' && (text[i + 1] == '/' || text[i + 1] == '*')) {
      return Location{end.file, line, static_cast<int>(i - begin) + 1};
    }
  }
  return std::nullopt;
}

// The line above `place` if it is a key and a value without a colon between them, which the parser
// reports only in the next line: "model gpt2" above "cluster: {}". Otherwise empty.
std::string_view LineWithoutColon(std::string_view text, const Location& place) {
  constexpr std::string_view kKey = "abcdefghijklmnopqrstuvwxyz_";
  if (place.line < 2) return {};
  const std::string_view above = LineOf(text, place.line - 1), line = LineOf(text, place.line);
  const std::size_t indent = above.find_first_not_of(' ');
  const std::size_t key = above.find_first_not_of(kKey, std::min(indent, above.size()));
  if (key == std::string_view::npos || key == indent || above[key] != ' ' ||
      above.find(':') != std::string_view::npos || line.find_first_not_of(' ') != indent) {
    return {};
  }
  return above;
}

// Whether the first line that is not a comment is a TOML table, [model], or a key and value, a = 1.
bool IsToml(std::string_view text) {
  constexpr std::string_view kKey =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    if (line.empty()) continue;
    const bool table = line.starts_with('[');
    while (line.starts_with('[')) line.remove_prefix(1);
    const std::size_t key = std::min(line.find_first_not_of(kKey), line.size());
    if (key == 0) return false;
    line.remove_prefix(key);
    if (table) return line == "]" || line == "]]";
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    return line.starts_with('=');
  }
  return false;
}

// The language of a text that is not YAML; null if it may be YAML.
const char* OtherLanguage(std::string_view text) {
  const std::string_view first = text.substr(0, text.find('\n'));
  if (first.starts_with("#!")) return "a script";
  if (text.starts_with("import ") || text.starts_with("from ")) return "Python";
  return IsToml(text) ? "TOML" : nullptr;
}

// A scalar that was not quoted: as it is, or, where a flow would take it for something else, in
// single quotes, so that it is no other's text.
std::string PlainText(std::string_view scalar) {
  if (IsPlainYaml(scalar)) return std::string(scalar);
  if (scalar.find('\n') != std::string_view::npos) return YamlQuoted(scalar);
  std::string quoted = "'";
  for (const char c : scalar) {
    if (c == '\'') quoted += c;
    quoted += c;
  }
  return quoted + "'";
}

void AppendCanonical(const YamlNode& node, std::string& out) {
  switch (node.kind) {
    case NodeKind::kNull:
      out += "null";
      return;
    case NodeKind::kScalar:
      out += node.quoted ? YamlQuoted(node.scalar) : PlainText(node.scalar);
      return;
    case NodeKind::kSequence:
      out += '[';
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        if (i > 0) out += ", ";
        AppendCanonical(*node.items[i], out);
      }
      out += ']';
      return;
    case NodeKind::kMapping:
      out += '{';
      for (std::size_t i = 0; i < node.entries.size(); ++i) {
        if (i > 0) out += ", ";
        out += YamlQuoted(node.entries[i].key);
        out += ": ";
        AppendCanonical(*node.entries[i].value, out);
      }
      out += '}';
      return;
  }
}

}  // namespace

std::optional<YamlTree> ParseYaml(std::string_view text, const std::string& file,
                                  Diagnostics& diagnostics, bool with_positions) {
  if (!CheckText(text, file, diagnostics)) return std::nullopt;
  if (const char* other = with_positions ? OtherLanguage(text) : nullptr) {
    diagnostics.push_back({"file.not-yaml",
                           {file, 1, 1},
                           fmt::format("this is {}, not YAML", other),
                           fmt::format("if the file configures another training program, convert "
                                       "the file to a scenario: stepcast init {} -o scenario.yaml",
                                       file)});
    return std::nullopt;
  }
  const std::size_t before = diagnostics.size();
  BlockBuffer blocks(Blocks(text), kFarthestAhead);
  TreeBuilder builder(std::make_shared<const std::string>(file), with_positions, blocks,
                      diagnostics);
  const auto syntax = [&](const YAML::Mark& mark, std::string message) {
    Location location = builder.At(mark).location();
    const Location end = EndOf(text, file);
    if (location.line > end.line) {
      // A missing closing sign is reported at the end of the text.
      location = end;
      if (message.find("document indicator") != std::string::npos) {
        message = "a quote is not closed";
      }
    }
    if (const auto tab = TabAbove(text, location)) {
      diagnostics.push_back({"yaml.syntax", *tab, "not well-formed YAML: a tab indents this line",
                             "indent the line with spaces"});
      return std::nullopt;
    }
    if (const auto comment = CommentOfJson(text, location)) {
      diagnostics.resize(before);
      diagnostics.push_back({"yaml.syntax", *comment, "neither JSON nor YAML has comments like //",
                             "remove the comment, or begin it with # in place of //"});
      return std::nullopt;
    }
    if (const std::string_view above = LineWithoutColon(text, location); !above.empty()) {
      const std::size_t indent = above.find_first_not_of(' ');
      const std::size_t blank = above.find(' ', indent);
      const std::size_t value = above.find_first_not_of(' ', blank);
      diagnostics.push_back(
          {"yaml.syntax",
           {file, location.line - 1, static_cast<int>(blank) + 1},
           fmt::format("this line has no colon: {}", Quoted(above.substr(indent))),
           value == std::string_view::npos
               ? "write a colon after the key"
               : fmt::format("write '{}: {}'", above.substr(indent, blank - indent),
                             above.substr(value))});
      return std::nullopt;
    }
    diagnostics.push_back(
        {"yaml.syntax", location, fmt::format("not well-formed YAML: {}", message),
         "check indentation, quotes, brackets and colons on this line and above"});
    return std::nullopt;
  };
  try {
    std::istream stream(&blocks);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Stop&) {
    return std::nullopt;
  } catch (const BlockBuffer::TooFarAhead&) {
    diagnostics.push_back({"yaml.too-large", builder.At(builder.last()).location(),
                           fmt::format("the value that begins on this line does not end within {} "
                                       "MiB",
                                       kFarthestAhead >> 20),
                           "close all brackets and quotes; write each item of a long list on its "
                           "own line, '- ITEM'"});
    return std::nullopt;
  } catch (const YAML::Exception& exception) {
    return syntax(exception.mark, exception.msg);
  } catch (const std::exception& exception) {
    return syntax(YAML::Mark::null_mark(), exception.what());
  }
  if (builder.root() == nullptr) {
    auto empty = std::make_shared<YamlNode>();
    empty->position = builder.At(YAML::Mark());
    return empty;
  }
  return builder.root();
}

const YamlNode::Entry* YamlNode::Find(std::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

const YamlNode* Child(const YamlNode& node, std::string_view key) {
  const YamlNode::Entry* entry = node.Find(key);
  return entry == nullptr ? nullptr : entry->value.get();
}

const YamlNode* Below(const YamlNode& root, std::string_view key) {
  const std::size_t dot = std::min(key.find('.'), key.size());
  const YamlNode* child = Child(root, key.substr(0, dot));
  return child == nullptr || dot == key.size() ? child : Below(*child, key.substr(dot + 1));
}

YamlTree UnderKey(std::string_view key, YamlTree value) {
  const std::size_t dot = key.find('.');
  if (dot != std::string_view::npos) value = UnderKey(key.substr(dot + 1), std::move(value));
  auto mapping = std::make_shared<YamlNode>();
  mapping->kind = NodeKind::kMapping;
  mapping->position = value->position;
  mapping->entries.push_back({std::string(key.substr(0, dot)), value->position, std::move(value)});
  return mapping;
}

YamlTree ScalarOf(std::string text, const Position& position, bool quoted) {
  auto node = std::make_shared<YamlNode>();
  node->kind = NodeKind::kScalar;
  node->position = position;
  node->scalar = std::move(text);
  node->quoted = quoted;
  return node;
}

Location LocationOf(const YamlTree& root, std::string_view key) {
  const std::size_t dot = std::min(key.find('.'), key.size());
  const YamlNode::Entry* entry = root->Find(key.substr(0, dot));
  if (entry == nullptr || key.empty()) return root->position.location();
  return LocationOf(entry->value, key.substr(std::min(dot + 1, key.size())));
}

std::string CanonicalText(const YamlNode& node) {
  std::string text;
  AppendCanonical(node, text);
  return text;
}

}  // namespace stepcast::scenario
