#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "src/base/files.h"
#include "src/base/printable.h"
#include "src/base/text_lines.h"
#include "src/formats/json_tree.h"

namespace stepcast::formats {
namespace {

using Json = nlohmann::json;

// Iterates over the characters of a text and counts those read, which gives the parser's position.
class CountingIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* read) : at_(at), read_(read) {}

  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*read_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
    return a.at_ == b.at_;
  }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) { return !(a == b); }

 private:
  const char* at_;
  std::size_t* read_;
};

// The start of the string whose closing quote is the last character before `end`.
std::size_t StringStart(std::string_view text, std::size_t end) {
  if (end < 2) return 0;
  for (std::size_t i = end - 2;; --i) {
    if (text[i] == '"') {
      std::size_t backslashes = 0;
      while (backslashes < i && text[i - 1 - backslashes] == '\\') ++backslashes;
      if (backslashes % 2 == 0) return i;
    }
    if (i == 0) return 0;
  }
}

// The library's message without its own position and prefix.
std::string SyntaxError(const Json::exception& error) {
  std::string message = error.what();
  for (const std::string_view prefix : {"syntax error", "]"}) {
    if (const std::size_t at = message.find(prefix); at != std::string::npos) {
      message.erase(0, prefix == "]" ? at + 2 : at);
      break;
    }
  }
  return Quoted(message, "");
}

// Number words that Python's json writes and JSON does not define.
struct NoNumber {
  std::string_view word, stand_in;  // of equal length; the latter is a JSON number
  double value;
};
constexpr NoNumber kNoNumbers[] = {
    {"NaN", "100", std::numeric_limits<double>::quiet_NaN()},
    {"Infinity", "10000000", std::numeric_limits<double>::infinity()}};

// Replaces these words by placeholders, except in strings.
std::string WithStandIns(std::string_view text) {
  std::string spelled(text);
  const auto ends_number = [&text](std::size_t at) {
    return at >= text.size() || std::string_view(" \t\r\n,:[]{}").find(text[at]) != text.npos;
  };
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (quoted && text[i] == '\\') ++i;
    if (quoted) continue;
    for (const NoNumber& number : kNoNumbers) {
      if (!text.substr(i).starts_with(number.word)) continue;
      if (!ends_number(i + number.word.size()) ||
          (i > 0 && text[i - 1] != '-' && !ends_number(i - 1))) {
        continue;
      }
      spelled.replace(i, number.word.size(), number.stand_in);
      i += number.word.size() - 1;
      break;
    }
  }
  return spelled;
}

// Receives the parser's events.
class Collector {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  Collector(std::string_view text, const TextLines& lines, const std::size_t* read)
      : text_(text), lines_(lines), read_(read) {}

  bool null() { return Add({}); }
  bool boolean(bool value) { return Add({.kind = JsonValue::Kind::kBoolean, .boolean = value}); }
  bool number_integer(number_integer_t value) {
    if (const NoNumber* stood_in_for = NoNumberHere()) {
      return number_float(value < 0 ? -stood_in_for->value : stood_in_for->value, "");
    }
    return Add({.kind = JsonValue::Kind::kInteger,
                .integer = value,
                .number = static_cast<double>(value)});
  }
  bool number_unsigned(number_unsigned_t value) {
    if (value <= static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) {
      return number_integer(static_cast<std::int64_t>(value));
    }
    return number_float(static_cast<double>(value), "");
  }
  bool number_float(number_float_t value, const string_t&) {
    return Add({.kind = JsonValue::Kind::kNumber, .number = value});
  }
  bool string(string_t& value) {
    return Add({.kind = JsonValue::Kind::kText, .text = std::move(value)});
  }
  bool binary(binary_t&) { return true; }  // not in text
  bool start_object(std::size_t) { return Open(JsonValue::Kind::kObject); }
  bool start_array(std::size_t) { return Open(JsonValue::Kind::kArray); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool key(string_t& name) {
    Frame& frame = frames_.back();
    frame.key = std::move(name);
    frame.key_at = StringStart(text_, *read_);
    if (++keys_ > kMostKeys) {
      FailTooLarge(lines_.At(frame.key_at), kMostKeys, "keys");
      return false;
    }
    if (!frame.keys.insert(frame.key).second) {
      mistakes.push_back({"input.duplicate-key", lines_.At(frame.key_at),
                          fmt::format("the object has the same key twice: {}", Quoted(frame.key)),
                          "remove one of the two keys"});
    }
    return Goes();
  }
  bool parse_error(std::size_t position, const std::string&, const Json::exception& error) {
    mistakes.push_back({"file.not-json", lines_.At(position == 0 ? 0 : position - 1),
                        "the text is not valid JSON: " + SyntaxError(error), ""});
    return false;
  }

  std::map<std::string, JsonValue> values;
  bool is_object = false;
  Diagnostics mistakes;

 private:
  // Limits on the values in memory, many times those of any model's configuration.
  static constexpr std::size_t kMostKeys = 200'000;
  static constexpr std::size_t kMostValues = kMostKeys;  // of those that have paths
  static constexpr std::size_t kMostBrackets = 64;

  // The word that the number just read is a placeholder for; null if it is none. The parser has
  // also read the next character, unless the text ends there.
  const NoNumber* NoNumberHere() const {
    const std::string_view read = text_.substr(0, *read_);
    for (const NoNumber& number : kNoNumbers) {
      if (read.ends_with(number.word) || read.substr(0, read.size() - 1).ends_with(number.word)) {
        return &number;
      }
    }
    return nullptr;
  }

  // An open object or array.
  struct Frame {
    bool object = false;
    bool kept = false;       // its values have paths; in an array, only scalars do
    std::string path{};      // its own; empty for the document
    std::string key{};       // of an object: the last one
    std::size_t key_at = 0;  // position of that key; in an array, of the array's own key
    std::set<std::string> keys{};
    std::int64_t elements = 0;   // so far
    JsonValue* value = nullptr;  // its own value, if it has a path; null for the document
  };

  // Whether the parser is to continue.
  bool Goes() const { return !too_large_ && mistakes.size() < kMostShownFaults; }
  void FailTooLarge(Location location, std::size_t most, std::string_view what) {
    too_large_ = true;
    mistakes.push_back({"json.too-large", std::move(location),
                        fmt::format("the file has more than {} {}", most, what),
                        "check that the path is correct"});
  }

  bool Open(JsonValue::Kind kind) {
    if (frames_.size() == kMostBrackets) {
      mistakes.push_back(
          {"json.too-deep", lines_.At(*read_ - 1),
           fmt::format("brackets are nested more than {} levels deep", kMostBrackets),
           "check that the path is correct"});
      return false;
    }
    Frame frame{.object = kind == JsonValue::Kind::kObject};
    if (frames_.empty()) {
      is_object = frame.kept = frame.object;
    } else {
      const Frame& outer = frames_.back();
      // The paths of values repeat keys, so keys are limited to keep memory bounded.
      constexpr std::size_t kLongestKey = 256;
      frame.kept = outer.kept && outer.object && outer.key.size() <= kLongestKey &&
                   (!frame.object || frames_.size() < JsonObject::kDeepest);
      frame.key_at = outer.key_at;
      if (frame.kept) frame.path = PathOfNext();
      frame.value = Keep({.kind = kind});
    }
    frames_.push_back(std::move(frame));
    return Goes();
  }
  bool Close() {
    const Frame& frame = frames_.back();
    if (frame.value != nullptr) frame.value->elements = frame.elements;
    frames_.pop_back();
    return true;
  }
  // The path of the next value in the innermost frame.
  std::string PathOfNext() const {
    const Frame& frame = frames_.back();
    std::string own = frame.object ? frame.key : fmt::format("{}", frame.elements);
    return frames_.size() == 1 ? own : frame.path + "." + own;
  }
  bool Add(JsonValue value) {
    Keep(std::move(value));
    return Goes();
  }
  // Stores the value and returns it; null if it is not kept.
  JsonValue* Keep(JsonValue value) {
    if (frames_.empty()) return nullptr;
    Frame& frame = frames_.back();
    JsonValue* kept = nullptr;
    const bool single = value.kind != JsonValue::Kind::kNull &&
                        value.kind != JsonValue::Kind::kArray &&
                        value.kind != JsonValue::Kind::kObject;
    if (frame.kept && (frame.object || single)) {
      value.location = lines_.At(frame.key_at);
      if (Quoted(value.text, "", std::string::npos) != value.text) {
        mistakes.push_back({"file.not-text", value.location,
                            fmt::format("the text contains an invisible character that changes how "
                                        "other characters are displayed: {}",
                                        Quoted(value.text)),
                            "remove the character"});
      }
      kept = &values.emplace(PathOfNext(), std::move(value)).first->second;
      if (values.size() > kMostValues) FailTooLarge(kept->location, kMostValues, "values");
    }
    ++frame.elements;
    return kept;
  }

  std::string_view text_;
  const TextLines& lines_;
  const std::size_t* read_;
  std::vector<Frame> frames_;
  std::size_t keys_ = 0;
  bool too_large_ = false;
};

}  // namespace

std::string JsonValue::Described() const {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBoolean:
      return boolean ? "true" : "false";
    case Kind::kInteger:
      return fmt::format("{}", integer);
    case Kind::kNumber:
      return fmt::format("{}", number);
    case Kind::kText:
      return Quoted(text);
    case Kind::kArray:
      return "an array";
    case Kind::kObject:
      return "an object";
  }
  return "";
}

Result<JsonObject> JsonObject::Parse(std::string_view text, const std::string& file) {
  Diagnostics mistakes;
  if (!CheckText(text, file, mistakes)) return tl::make_unexpected(std::move(mistakes));
  std::size_t read = 0;
  const TextLines lines(text, file);
  Collector collector(text, lines, &read);
  const std::string spelled = WithStandIns(text);
  Json::sax_parse(CountingIterator(spelled.data(), &read),
                  CountingIterator(spelled.data() + spelled.size(), &read), &collector);
  if (!collector.mistakes.empty()) return tl::make_unexpected(std::move(collector.mistakes));
  if (!collector.is_object) {
    return tl::make_unexpected(
        Diagnostics{{"input.wrong-kind",
                     {file, 1, 1},
                     "the JSON text is not an object, because it does not begin with '{'",
                     ""}});
  }
  JsonObject object;
  object.values_ = std::move(collector.values);
  object.location_ = lines.At(text.find('{'));
  return object;
}

const JsonValue* JsonObject::Find(const std::string& path) const {
  const auto found = values_.find(path);
  return found == values_.end() ? nullptr : &found->second;
}

}  // namespace stepcast::formats
