#pragma once

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"

// The settings of another program's configuration, before their meaning is known.
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
  // The unknown variables on which the value depends. The value is unknown if this list is not
  // empty.
  std::vector<std::string> unknown{};
  // The values with which the file compares the unknown variables, for hints.
  std::vector<std::string> known_words{};

  static Value Text(std::string text) { return {Kind::kText, std::move(text), {}, {}, {}}; }

  // Returns the value as an integer, or none if it is not an integer. Accepts `1e9`, `1_000` and
  // `2.0`, as in Python and JSON files.
  std::optional<std::int64_t> Integer() const;
  std::optional<double> Number() const;
  // Returns the value as a boolean, or none if it is not a boolean. Accepts the words of YAML 1.1,
  // TOML, JSON and Python, such as yes, on, True and 1.
  std::optional<bool> Boolean() const;
  // Returns the items of a list, or the words of a text such as `moe_act layernorm` or
  // `moe_act,layernorm`.
  std::vector<std::string> Words() const;
  // Returns the value on one line, for messages and comments.
  std::string Shown() const;
};

// An option with its value. `name` is dotted, as in "training.seq_len". Names of command-line
// options have no leading hyphens.
struct Setting {
  std::string name;
  Value value;
  Location location{};
  std::string written{};        // name in the file, if it differs from `name`
  std::string written_value{};  // value in the file, if it differs from `value`
};

// The settings of a file, in order.
struct Document {
  // Limits that no real configuration reaches. They bound the reading time, because settings are
  // searched linearly.
  static constexpr std::size_t kMostSettings = 10'000, kLongestName = 1'000;

  std::string file;
  std::vector<Setting> settings{};
  // The position at which the file exceeds a limit; the rest of the file is ignored. None if the
  // file exceeds no limit.
  std::optional<Location> too_large{};

  // Returns whether a setting with this name, or settings below this name, can still be added.
  bool HasRoomFor(std::string_view name, const Location& location);

  // Returns the last setting with this name, which overrides earlier settings. Null if there is no
  // setting.
  const Setting* Find(std::string_view name) const;
  // Returns whether a setting has this name, or a name below this name.
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
