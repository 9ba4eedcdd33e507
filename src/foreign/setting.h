#pragma once

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"

// The settings of another program's configuration, before they are interpreted.
namespace stepcast::foreign {

// A value as written in the file.
struct Value {
  enum class Kind : std::uint8_t {
    kNothing,     // null, or a key without value
    kText,        // text, including numbers and words
    kList,        // list of scalars; lists of mappings have no items
    kExpression,  // computed by the program; `text` is the source code
  };

  Kind kind = Kind::kNothing;
  std::string text{};  // for kText, with quotes and escapes resolved
  std::vector<std::string> items{};
  // The unknown variables on which the value depends. If not empty, the value is unknown.
  std::vector<std::string> unknown{};
  // The values to which the file compares the unknown variables, for hints.
  std::vector<std::string> known_words{};

  static Value Text(std::string text) { return {Kind::kText, std::move(text), {}, {}, {}}; }

  // Returns the value as an integer, or none. Accepts `1e9`, `1_000` and `2.0`, as in Python and
  // JSON files.
  std::optional<std::int64_t> Integer() const;
  std::optional<double> Number() const;
  // Returns the value as a boolean, or none. Accepts the words of YAML 1.1, TOML, JSON and Python,
  // such as yes, on, True and 1.
  std::optional<bool> Boolean() const;
  // Returns the items of a list, or the words of a text such as `moe_act layernorm` or
  // `moe_act,layernorm`.
  std::vector<std::string> Words() const;
  // Returns the value on one line, for messages and comments.
  std::string Shown() const;
};

// An option with its value. `name` is dotted, as in "training.seq_len", without leading hyphens.
struct Setting {
  std::string name;
  Value value;
  Location location{};
  std::string written{};        // name in the file, if it differs from `name`
  std::string written_value{};  // value in the file, if it differs from `value`
};

// The settings of a file, in order.
struct Document {
  // Limits that real configurations never reach. The limits bound the reading time, because the
  // search for a setting is linear.
  static constexpr std::size_t kMostSettings = 10'000, kLongestName = 1'000;

  std::string file;
  std::vector<Setting> settings{};
  // The position at which the file exceeds a limit, or none. Everything after this position is
  // ignored.
  std::optional<Location> too_large{};

  // Returns whether the limits allow another setting with this name; if not, sets `too_large`.
  bool HasRoomFor(std::string_view name, const Location& location);

  // Returns the last setting with this name, which has priority, or null.
  const Setting* Find(std::string_view name) const;
  // Returns whether there is a setting with this name, or with a longer name such as "NAME.key".
  bool Has(std::string_view name) const;
};

// Returns a location as text, such as "train.toml:14".
std::string Origin(const Location& location);

// Returns whether a variable's name in a shell or in OmegaConf may contain `c`: a letter, a digit
// or an underscore.
inline bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

}  // namespace stepcast::foreign
